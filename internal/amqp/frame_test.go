package amqp

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// goldenFrames are whole frames, written by hand.
var goldenFrames = []struct {
	name string
	wire string
	want Frame
}{
	{"empty", "00 00 00 08 02 00 00 00", Frame{}},
	{"empty, channel", "00 00 00 08 02 00 01 02", Frame{Channel: 0x0102}},
	{"open", "00 00 00 11 02 00 00 00 00 53 10 c0 04 01 a1 01 'c", Frame{Body: NewOpen("c")}},
	{
		"begin on channel 3", "00 00 00 17 02 00 00 03 00 53 11 c0 0a 04  40 43 52 64 70 7f ff ff ff",
		Frame{Channel: 3, Body: &Begin{IncomingWindow: 100, OutgoingWindow: 1<<31 - 1, HandleMax: DefaultHandleMax}},
	},
	{
		"transfer with a payload", "00 00 00 12 02 00 00 01 00 53 14 c0 02 01 43 'abc",
		Frame{Channel: 1, Body: &Transfer{}, Payload: []byte("abc")},
	},
	{"transfer without", "00 00 00 0f 02 00 00 01 00 53 14 c0 02 01 43", Frame{Channel: 1, Body: &Transfer{}}},
	{"sasl-outcome", "00 00 00 10 02 01 00 00 00 53 44 c0 03 01 50 00", Frame{Type: FrameSASL, Body: &SASLOutcome{}}},
}

func TestGoldenFrames(t *testing.T) {
	for _, g := range goldenFrames {
		t.Run(g.name, func(t *testing.T) {
			b := wire(t, g.wire)
			if got := AppendFrame([]byte("before"), g.want.Channel, g.want.Body, g.want.Payload); !bytes.Equal(got[6:], b) {
				t.Errorf("written %x\n   want %x", got[6:], b)
			}
			f, n, err := DecodeFrame(append(b, "behind"...), Limits{})
			if err != nil || n != len(b) {
				t.Fatalf("%d bytes of %d, %v", n, len(b), err)
			}
			if !reflect.DeepEqual(f, g.want) {
				t.Errorf("read %+v, want %+v", f, g.want)
			}
			for i := range b {
				if _, _, err := DecodeFrame(b[:i], Limits{}); !errors.Is(err, ErrShort) {
					t.Errorf("%d bytes of %d: %v", i, len(b), err)
				}
			}
		})
	}
}

// Every composite that is a performative goes through a frame too, whose extended header is skipped.
func TestFramesOfAllPerformatives(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range goldenComposites {
		p, ok := g.want.(Performative)
		if !ok {
			continue
		}
		seen[NameOf(p)] = true
		b := AppendFrame(nil, 7, p, nil)
		f, _, err := DecodeFrame(b, Limits{})
		if err != nil || !reflect.DeepEqual(f.Body, g.want) || f.Type != p.frameType() || f.Channel != 7 {
			t.Errorf("%s: %+v, %v", g.name, f, err)
		}
		extended := append(append(append([]byte{}, b[:8]...), 1, 2, 3, 4), b[8:]...)
		extended[3], extended[4] = extended[3]+4, 3
		if f, n, err := DecodeFrame(extended, Limits{}); err != nil || n != len(extended) || !reflect.DeepEqual(f.Body, g.want) {
			t.Errorf("%s with an extended header: %+v, %v", g.name, f, err)
		}
	}
	if len(seen) != 14 {
		t.Errorf("goldens for %d of 14 performatives: %v", len(seen), seen)
	}
}

func TestNameOf(t *testing.T) {
	if NameOf(nil) != "empty" || NameOf(&Close{}) != "close" || NameOf(&SASLInit{}) != "sasl-init" {
		t.Error("a name is wrong")
	}
}

func TestFastPathsWriteTheSame(t *testing.T) {
	x := &Transfer{
		Handle: 1, DeliveryID: Some(uint32(2)), DeliveryTag: []byte{3},
		State: &TransactionalState{TxnID: []byte("t"), Outcome: &Accepted{}},
	}
	if a, b := AppendTransfer(nil, 5, x, []byte("p")), AppendFrame(nil, 5, x, []byte("p")); !bytes.Equal(a, b) {
		t.Errorf("transfer: %x, %x", a, b)
	}
	d := &Disposition{Role: RoleReceiver, First: 1, State: &Rejected{Error: notFound}}
	if a, b := AppendDisposition(nil, 5, d), AppendFrame(nil, 5, d, nil); !bytes.Equal(a, b) {
		t.Errorf("disposition: %x, %x", a, b)
	}
	f := &Flow{Handle: Some(uint32(1)), Drain: true}
	if a, b := AppendFlow(nil, 5, f), AppendFrame(nil, 5, f, nil); !bytes.Equal(a, b) {
		t.Errorf("flow: %x, %x", a, b)
	}
}

func TestAppendTransferPart(t *testing.T) {
	payload := bytes.Repeat([]byte("0123456789"), 200)
	for _, maxFrame := range []uint32{0, 512, 513, 600, 1000, 2020, 2021, 2022, 1 << 20} {
		var got []byte
		x := &Transfer{Handle: 1, DeliveryID: Some(uint32(9)), DeliveryTag: []byte{1}}
		rest := payload
		for frames := 0; ; frames++ {
			var out []byte
			out, rest = AppendTransferPart(nil, 2, x, rest, maxFrame)
			if len(out) > int(max(maxFrame, 512)) {
				t.Fatalf("max-frame-size %d: a frame of %d bytes", maxFrame, len(out))
			}
			f, n, err := DecodeFrame(out, Limits{})
			if err != nil || n != len(out) {
				t.Fatalf("max-frame-size %d: %v", maxFrame, err)
			}
			got = append(got, f.Payload...)
			if more := f.Body.(*Transfer).More; more != (len(rest) > 0) {
				t.Fatalf("max-frame-size %d: more is %v with %d bytes left", maxFrame, more, len(rest))
			}
			if len(rest) == 0 {
				// The whole takes 21 bytes besides its payload.
				if (frames == 0) != (maxFrame >= 2021) {
					t.Errorf("max-frame-size %d: %d continuations", maxFrame, frames)
				}
				break
			}
			x = &Transfer{Handle: 1}
		}
		if !bytes.Equal(got, payload) {
			t.Errorf("max-frame-size %d: %d bytes came of %d", maxFrame, len(got), len(payload))
		}
		if x.More {
			t.Error("the caller's transfer was changed")
		}
	}
}

func TestProtoHeader(t *testing.T) {
	for id, s := range map[ProtoID]string{ProtoAMQP: "'AMQP 00 01 00 00", ProtoTLS: "'AMQP 02 01 00 00", ProtoSASL: "'AMQP 03 01 00 00"} {
		b := wire(t, s)
		if got := AppendProtoHeader(nil, id); !bytes.Equal(got, b) {
			t.Errorf("written %x, want %x", got, b)
		}
		h, err := ParseProtoHeader(b)
		if err != nil || h.ID != id || h.Supported() != (id != ProtoTLS) {
			t.Errorf("%x: %+v, %v", b, h, err)
		}
		for i := range b {
			if _, err := ParseProtoHeader(b[:i]); !errors.Is(err, ErrShort) {
				t.Errorf("%x: %v", b[:i], err)
			}
		}
	}
	for _, s := range []string{"'AMQP 00 01 01 00", "'AMQP 01 01 00 00", "'AMQP 00 00 09 01"} {
		if h, err := ParseProtoHeader(wire(t, s)); err != nil || h.Supported() {
			t.Errorf("%s: %+v, %v", s, h, err)
		}
	}
	var de *DecodeError
	for _, s := range []string{"'G", "'AMQQ", "16 03 01", "'AMXP 00 01 00 00"} {
		if _, err := ParseProtoHeader(wire(t, s)); !errors.As(err, &de) || de.Condition != ErrCondFramingError {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// A Decoder reuses what is hot and nothing else.
func TestDecoderReuse(t *testing.T) {
	var d Decoder
	decode := func(p Performative) Frame {
		t.Helper()
		f, _, err := d.Decode(AppendFrame(nil, 0, p, nil))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	tx := &TransactionalState{TxnID: []byte("one"), Outcome: &Accepted{}}
	first := decode(&Transfer{Handle: 1, State: tx}).Body.(*Transfer)
	kept := CloneState(first.State)
	second := decode(&Transfer{Handle: 2, State: &TransactionalState{TxnID: []byte("two")}}).Body.(*Transfer)
	if first != second || second.Handle != 2 || string(second.State.(*TransactionalState).TxnID) != "two" {
		t.Errorf("the second transfer: %+v", second)
	}
	if second.State.(*TransactionalState).Outcome != nil {
		t.Error("an outcome of the first transfer is left in the second")
	}
	if !reflect.DeepEqual(kept, DeliveryState(tx)) {
		t.Errorf("the clone changed: %+v", kept)
	}
	attach := decode(&Attach{Name: "l", Unsettled: []Unsettled{{Tag: []byte{1}, State: tx}}}).Body.(*Attach)
	decode(&Disposition{State: &TransactionalState{TxnID: []byte("six")}})
	if got := attach.Unsettled[0].State; !reflect.DeepEqual(got, DeliveryState(tx)) {
		t.Errorf("a state in an attach was reused: %+v", got)
	}
	if got := decode(&Transfer{Handle: 3}).Body; !reflect.DeepEqual(got, &Transfer{Handle: 3}) {
		t.Errorf("something of an earlier transfer is left: %+v", got)
	}
}

// Byte slices alias the input, everything else doesn't (doc.go): overwriting the input changes these and only these.
func TestAliases(t *testing.T) {
	mangle := func(b []byte) {
		for i := range b {
			b[i] = 0xdb
		}
	}
	b := AppendFrame(nil, 0, &Transfer{DeliveryTag: []byte("tag"), State: &TransactionalState{TxnID: []byte("txn")}}, []byte("pay"))
	f, _, err := DecodeFrame(b, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	tr := f.Body.(*Transfer)
	state := CloneState(tr.State).(*TransactionalState)
	mangle(b)
	for name, s := range map[string][]byte{"tag": tr.DeliveryTag, "txn-id": tr.State.(*TransactionalState).TxnID, "payload": f.Payload} {
		if string(s) != "\xdb\xdb\xdb" {
			t.Errorf("the %s is a copy: %q", name, s)
		}
	}
	if string(state.TxnID) != "txn" {
		t.Errorf("the clone aliases: %q", state.TxnID)
	}

	source := &Source{Address: Some("address"), Filter: Map{{Symbol("key"), "value"}}, Capabilities: []Symbol{"cap", CapQueue}}
	b = AppendFrame(nil, 0, &Attach{Name: "name", Source: source}, nil)
	f, _, err = DecodeFrame(b, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	mangle(b)
	a := f.Body.(*Attach)
	if a.Name != "name" || a.Source.Address.V != "address" || !reflect.DeepEqual(a.Source.Filter, source.Filter) ||
		!reflect.DeepEqual(a.Source.Capabilities, source.Capabilities) {
		t.Errorf("a string or symbol aliases: %+v %+v", a, a.Source)
	}
}

// Slices that are handed out have no room behind them: appending to one doesn't write into the next field.
func TestSlicesHaveNoRoom(t *testing.T) {
	b := AppendFrame(nil, 0, &Transfer{DeliveryTag: []byte("tag"), MessageFormat: Some(uint32(7))}, []byte("pay"))
	b = append(b, "next frame"...)
	f, _, err := DecodeFrame(b, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(b)
	_ = append(f.Body.(*Transfer).DeliveryTag, 0xee)
	_ = append(f.Payload, 0xee)
	if !bytes.Equal(b, before) {
		t.Error("an append went into the input")
	}
}

func TestLifetimePolicy(t *testing.T) {
	for _, p := range []LifetimePolicy{DeleteOnClose, DeleteOnNoLinks, DeleteOnNoMessages, DeleteOnNoLinksOrMessages} {
		v, _, err := DecodeValue(AppendValue(nil, Map{{PropLifetimePolicy, p}}), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := LifetimePolicyOf(v.(Map)); !ok || got != p {
			t.Errorf("policy 0x%x came back as 0x%x, %v", uint64(p), uint64(got), ok)
		}
	}
	symbolic := Map{{PropLifetimePolicy, &Described{Descriptor: Symbol("amqp:delete-on-no-links:list"), Value: List{}}}}
	if got, ok := LifetimePolicyOf(symbolic); !ok || got != DeleteOnNoLinks {
		t.Errorf("symbolic: 0x%x, %v", uint64(got), ok)
	}
	for _, m := range []Map{
		nil,
		{{PropLifetimePolicy, "x"}},
		{{PropLifetimePolicy, &Described{Descriptor: uint64(0x2f)}}},
		{{PropLifetimePolicy, &Described{Descriptor: Symbol("amqp:delete-on"), Value: List{}}}},
	} {
		if p, ok := LifetimePolicyOf(m); ok {
			t.Errorf("%v is the policy 0x%x", m, uint64(p))
		}
	}
}

func TestLookup(t *testing.T) {
	m := Map{{[]byte("k"), 1}, {uint64(1), 2}, {"k", 3}, {Symbol("k"), 4}, {Symbol("s"), 5}}
	if v, ok := m.Lookup("k"); !ok || v != 3 {
		t.Errorf("k is %v, %v", v, ok)
	}
	if v, ok := m.Lookup("s"); !ok || v != 5 {
		t.Errorf("s is %v, %v", v, ok)
	}
	if v, ok := m.Lookup("x"); ok {
		t.Errorf("x is %v", v)
	}
}

func TestUint64(t *testing.T) {
	for _, v := range []any{uint8(7), uint16(7), uint32(7), uint64(7), int8(7), int16(7), int32(7), int64(7)} {
		if n, ok := Uint64(v); !ok || n != 7 {
			t.Errorf("%T: %d, %v", v, n, ok)
		}
	}
	for _, v := range []any{int8(-1), int16(-1), int32(-1), int64(-1), "7", nil, 7.0} {
		if n, ok := Uint64(v); ok {
			t.Errorf("%T %v: %d", v, v, n)
		}
	}
}
