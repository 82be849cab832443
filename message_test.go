package oncemq

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestMessageRoundTrip(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	for name, m := range map[string]*Message{
		"data":     {Data: []byte("x")},
		"empty":    {Data: []byte{}},
		"text":     NewText("ünïcode"),
		"sequence": {Sequence: []any{"a", int64(1), nil, true}},
		"value": {
			Value:       map[string]any{"list": []any{int32(1), uint8(2), float64(3), []byte("b")}, "at": at, "sym": Symbol("s"), "id": UUID{1, 2}},
			HasPriority: true, Priority: 9,
		},
		"everything": {
			ID: "id-1", CorrelationID: uint64(7), DuplicateID: "d1", Data: []byte("body"), UserID: []byte("me"), To: "q", Subject: "s",
			ReplyTo: "r", ContentType: "text/plain", ContentEncoding: "gzip", ExpiresAt: at, CreatedAt: at, GroupID: "g", GroupSequence: 3,
			ReplyToGroupID: "rg", Transient: true, HasPriority: true, TTL: 1500 * time.Millisecond,
			Properties: map[string]any{"n": int64(1), "s": "x"}, Annotations: map[string]any{"x-opt-a": "b"},
		},
		"ids": {ID: UUID{9}, CorrelationID: []byte("c"), Data: []byte("x")},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := m.encode()
			if err != nil {
				t.Fatal(err)
			}
			var got Message
			if _, err := got.decode(b); err != nil {
				t.Fatal(err)
			}
			if got.Properties != nil && len(got.Properties) == 0 {
				got.Properties = nil
			}
			if !reflect.DeepEqual(&got, m) {
				t.Errorf("got\n%+v, want\n%+v", &got, m)
			}
		})
	}
}

// What can't be sent is refused before anything is sent, saying which field and type.
func TestMessageRefused(t *testing.T) {
	deep := []any{}
	for range 50 {
		deep = []any{deep}
	}
	for want, m := range map[string]*Message{
		"chan int":             {Value: make(chan int)},
		`properties: "k"`:      {Properties: map[string]any{"k": struct{}{}}},
		"ID: oncemq: a int":    {ID: 1},
		"nested deeper":        {Sequence: deep},
		`annotations: "bad": `: {Annotations: map[string]any{"bad": func() {}}},
	} {
		if _, err := m.encode(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want something with %q", err, want)
		}
	}
}

// A message of someone else's making is read, whatever it holds.
func FuzzMessageDecode(f *testing.F) {
	b, _ := (&Message{ID: "1", Data: []byte("x"), Properties: map[string]any{"a": []byte("b")}}).encode()
	f.Add(b)
	b, _ = NewText("x").encode()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Message
		if _, err := m.decode(b); err == nil {
			if _, err := m.encode(); err != nil && !strings.Contains(err.Error(), "nested deeper") {
				t.Errorf("decoded, not encoded again: %v", err)
			}
		}
	})
}

func TestTxID(t *testing.T) {
	id := TxID{0: 0xab, 15: 1, 23: 42}
	got, err := ParseTxID(id.String())
	if err != nil || got != id || id.Number() != 42 || id.String() != "ab000000000000000000000000000001/42" {
		t.Fatalf("%s, %v, %v", id, got, err)
	}
	for _, bad := range []string{"", "x/1", "ab000000000000000000000000000001", "ab000000000000000000000000000001/0", "zz000000000000000000000000000001/1"} {
		if _, err := ParseTxID(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// What the wire would alter is refused: two duplicate ids must not become one, nor an address another.
func TestEncodeRefusesInvalidText(t *testing.T) {
	const bad = "a\xff"
	for name, m := range map[string]*Message{
		"DuplicateID": {DuplicateID: bad}, "ID": {ID: bad}, "To": {To: bad}, "Subject": {Subject: bad}, "GroupID": {GroupID: bad},
		"ContentType": {ContentType: "ä"}, "Value": {Value: bad}, "Sequence": {Sequence: []any{[]any{bad}}}, "Symbol": {Value: Symbol("ä")},
		"property": {Properties: map[string]any{"k": bad}}, "property key": {Properties: map[string]any{bad: 1}},
		"annotation key": {Annotations: map[string]any{"ä": 1}}, "map key": {Value: map[string]any{bad: 1}},
	} {
		if _, err := m.encode(); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
	if _, err := (&Message{Subject: "ä", Value: "ö", Data: []byte(bad)}).encode(); err != nil {
		t.Error(err)
	}
}
