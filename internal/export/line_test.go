package export

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

// described is an encoded section.
func described(code uint64, v any) []byte {
	return amqp.AppendValue(nil, &amqp.Described{Descriptor: code, Value: v})
}

// everyType has a value of every AMQP type, and those that JSON would spoil.
var everyType = amqp.List{
	nil, true, false, uint8(200), uint16(60000), uint32(math.MaxUint32), uint64(math.MaxUint64), uint64(0), int8(-128), int16(-32768), int32(math.MinInt32),
	int64(math.MinInt64), int64(1 << 53), int64(1<<53 + 1), float32(0.1), math.Copysign(0, -1), 1e300, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), float32(math.Inf(1)),
	amqp.Decimal32{1, 2, 3, 4},
	amqp.Decimal64{9},
	amqp.Decimal128{15: 7},
	amqp.Char('\U0001F600'), amqp.Timestamp(-5), amqp.Timestamp(math.MaxInt64),
	amqp.UUID{1, 2, 3},
	[]byte{},
	[]byte{0, 255, '<'},
	"", "text <&> \u2028 \x00 \" ü", amqp.Symbol("x-opt-a"),
	amqp.List{},
	amqp.List{amqp.List{nil}},
	amqp.Map{},
	amqp.Map{{Key: "k", Value: nil}, {Key: uint64(5), Value: amqp.Map{{Key: amqp.Symbol("s"), Value: "v"}}}},
	amqp.Symbols("a", "b"), amqp.Ulongs(1, 1<<63),
	amqp.Array{Type: amqp.TypeList, Items: []any{amqp.List{int32(1)}}},
	amqp.Array{Type: amqp.TypeInt, Items: []any{}},
	&amqp.Described{Descriptor: amqp.Symbol("com.example:point"), Value: amqp.List{1.5, 2.5}}, &amqp.Described{Descriptor: uint64(1 << 40), Value: "x"},
}

// messages are whole messages, by what is special about them.
var messages = map[string][]byte{
	"all sections": bytes.Join([][]byte{
		described(codeHeader, amqp.List{true, uint8(7), uint32(60000), nil, uint32(3)}),
		described(codeDeliveryAnnotations, amqp.Map{{Key: amqp.Symbol("d"), Value: uint32(1)}}),
		described(codeMessageAnnotations, amqp.Map{{Key: amqp.Symbol("x-opt-jms-msg-type"), Value: int8(5)}, {Key: amqp.Symbol("x-opt-b"), Value: everyType}}),
		described(codeProperties, amqp.List{amqp.UUID{4}, []byte("alice"), "to", nil, "reply", uint64(1 << 60), amqp.Symbol("text/plain"), nil, nil, amqp.Timestamp(1700000000000), "group", uint32(2), "other"}),
		described(codeApplicationProperties, amqp.Map{{Key: "a", Value: int64(5)}, {Key: "b", Value: "text"}, {Key: "a", Value: "twice"}}),
		described(codeData, []byte("body")),
		described(codeFooter, amqp.Map{{Key: amqp.Symbol("f"), Value: true}}),
	}, nil),
	"several data sections": slicesOf(codeData, []byte("a"), []byte{}, []byte("c")),
	"several sequences":     slicesOf(codeSequence, everyType, amqp.List{}),
	"a value of each type":  described(codeValue, everyType),
	"a value that is null":  described(codeValue, nil),
	"a value that is text":  described(codeValue, "hello"),
	"an empty header":       append(described(codeHeader, amqp.List{}), described(codeData, []byte("x"))...),
	"not a number":          described(codeValue, math.Float64frombits(0x7ff8000000000001)),
	"empty maps":            bytes.Join([][]byte{described(codeMessageAnnotations, amqp.Map{}), described(codeApplicationProperties, amqp.Map{}), described(codeData, []byte{})}, nil),
	"symbolic descriptors":  amqp.AppendValue(nil, &amqp.Described{Descriptor: amqp.Symbol("amqp:data:binary"), Value: []byte("x")}),
}

func slicesOf(code uint64, values ...any) (b []byte) {
	for _, v := range values {
		b = append(b, described(code, v)...)
	}
	return b
}

// TestLossless: a message that went through a line is the one that it was: the same sections with the same values of the same types.
func TestLossless(t *testing.T) {
	for what, message := range messages {
		text, err := line{Queue: "q", Position: 9}.write(message, nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		l, err := parse(text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", what, err, text)
		}
		got, err := l.message()
		if err != nil {
			t.Fatalf("%s: %v\n%s", what, err, text)
		}
		want, _ := sections(message)
		back, err := sections(got)
		if a, b := fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", back); err != nil || !strings.Contains(a, "amqp.Described") && a != b || len(want) != len(back) {
			t.Errorf("%s: %v\n%s\n%s\n%s", what, err, text, a, b)
		}
		if b := l.Encoded; (what == "an empty header") != (b != "") {
			t.Errorf("%s: encoded as well: %v\n%s", what, b != "", text)
		}
		if !bytes.Equal(got, message) && what != "symbolic descriptors" { // ours is the smallest encoding, as are these
			t.Errorf("%s: other bytes\n%x\n%x", what, message, got)
		}
	}
}

// TestLineOfOtherEncodings: larger encodings of the same values are the same message; whatever can't be read is there as it is.
func TestLineOfOtherEncodings(t *testing.T) {
	large := []byte{0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, codeData, 0xb0, 0, 0, 0, 1, 'x'} // ulong, vbin32
	text, err := line{}.write(large, nil)
	if want := `{"data":["eA=="]}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	strange := described(0x99, "no section of ours")
	text, err = line{}.write(strange, nil)
	if want := fmt.Sprintf(`{"encoded":%q}`, base64.StdEncoding.EncodeToString(strange)); err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

// TestOverlay: what the broker has noted of a message is part of what comes out.
func TestOverlay(t *testing.T) {
	message := slicesOf(codeMessageAnnotations, amqp.Map{{Key: amqp.Symbol("a"), Value: "old"}, {Key: amqp.Symbol("b"), Value: "kept"}})
	message = append(described(codeHeader, amqp.List{true}), append(message, described(codeData, []byte("x"))...)...)
	over := amqp.AppendValue(nil, amqp.Map{{Key: amqp.Symbol("a"), Value: "new"}, {Key: amqp.Symbol("c"), Value: uint32(1)}})
	text, err := line{}.write(message, over)
	want := `{"header":{"durable":true},"message-annotations":[[{"symbol":"a"},"new"],[{"symbol":"b"},"kept"],[{"symbol":"c"},{"uint":1}]],"data":["eA=="]}`
	if err != nil || string(text) != want {
		t.Errorf("%v\n%s\n%s", err, text, want)
	}
}

// TestHostileLines: nothing but a line is read as one, and nothing panics.
func TestHostileLines(t *testing.T) {
	for _, text := range []string{
		``, `{`, `null x`, `[]`, `{"data":[5]}`, `{"data":["!"]}`, `{"unknown":1}`, `{"value":{"is":{"int":1.5}}}`, `{"value":{"is":{"int":99999999999}}}`,
		`{"value":{"is":{"uuid":"00"}}}`, `{"value":{"is":{"none":1}}}`, `{"value":{"is":{"a":1,"b":2}}}`, `{"value":{"is":5}}`, `{"value":{"is":{"map":[[1]]}}}`,
		`{"value":{"is":{"array":{"type":"71","items":["text"]}}}}`, `{"value":{"is":{"array":5}}}`, `{"value":{"is":{"described":["a"]}}}`, `{"header":{"none":true}}`,
		`{"data":["eA=="]} {}`, `{"sequence":[{"list":[]}]}`, `{"value":{"is":` + strings.Repeat(`{"list":[`, 40) + strings.Repeat(`]}`, 40) + `}}`,
	} {
		l, err := parse([]byte(text))
		if err == nil {
			_, err = l.message()
		}
		if err == nil {
			t.Errorf("%s was read as a message", text)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, message := range messages {
		text, err := line{}.write(message, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			spoilt := bytes.Clone(text)
			spoilt[rng.IntN(len(spoilt))] ^= 1 << rng.IntN(8)
			if l, err := parse(spoilt); err == nil {
				_, _ = l.message()
			}
		}
	}
}
