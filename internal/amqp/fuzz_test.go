package amqp

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"
)

// fuzzLimits are small, so that what passes them is seen at once when it takes more memory than it should.
var fuzzLimits = Limits{MaxFrameSize: 1 << 16, MaxElements: 4096, MaxBytes: 1 << 18}

// fuzzMemory bounds a decode under fuzzLimits: twice the estimate (the test's own noise included), and what grows with the
// input: at most 20 bytes for each of its bytes.
func checkMemory(t *testing.T, input []byte, fn func()) {
	t.Helper()
	if used := memory(fn); used > 2<<18+20*uint64(len(input))+64<<10 {
		t.Errorf("%d bytes of memory for an input of %d", used, len(input))
	}
}

func checkDecodeError(t *testing.T, err error) {
	t.Helper()
	var de *DecodeError
	if err != nil && !errors.Is(err, ErrShort) && (!errors.As(err, &de) || de.What == "" ||
		de.Condition != ErrCondDecodeError && de.Condition != ErrCondFramingError) {
		t.Errorf("an error of another kind: %v", err)
	}
}

// same is reflect.DeepEqual, but that a NaN equals itself by its bits: values are compared as they are written.
func same(a, b any) bool { return bytes.Equal(AppendValue(nil, a), AppendValue(nil, b)) }

func FuzzValue(f *testing.F) {
	for _, g := range goldenValues {
		f.Add(wire(f, g.wire))
	}
	for _, h := range hostileValues {
		if b := hostileValue(f, h); len(b) < 10_000 {
			f.Add(b)
		}
	}
	f.Add(AppendValue(nil, math.NaN()))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v any
		var n int
		var err error
		checkMemory(t, b, func() { v, n, err = DecodeValue(b, fuzzLimits) })
		checkDecodeError(t, err)
		skipped, skipErr := SkipValue(b, fuzzLimits)
		checkDecodeError(t, skipErr)
		if err != nil {
			return
		}
		if skipErr != nil || skipped != n {
			t.Fatalf("decoded %d bytes, skipped %d, %v", n, skipped, skipErr)
		}
		if err := CheckValue(v); err != nil {
			t.Fatalf("decoded what can't be written: %v", err)
		}
		out := AppendValue(nil, v)
		if len(out) > n && !hasZeroWidth(v) {
			t.Errorf("written longer: %x became %x", b[:n], out)
		}
		again, m, err := DecodeValue(out, Limits{MaxElements: 1 << 30, MaxBytes: 1 << 30})
		if err != nil || m != len(out) || !same(v, again) {
			t.Fatalf("%x became %x, read as %#v, %v", b[:n], out, again, err)
		}
		if !same(v, CloneValue(v)) {
			t.Errorf("the clone of %#v is %#v", v, CloneValue(v))
		}
	})
}

// hasZeroWidth says whether an array is in v: it may have been written without width, or its compounds in the small kind,
// which we don't write.
func hasZeroWidth(v any) bool {
	switch x := v.(type) {
	case Array:
		return true
	case List:
		for _, e := range x {
			if hasZeroWidth(e) {
				return true
			}
		}
	case Map:
		for i := range x {
			if hasZeroWidth(x[i].Key) || hasZeroWidth(x[i].Value) {
				return true
			}
		}
	case *Described:
		return hasZeroWidth(x.Descriptor) || hasZeroWidth(x.Value)
	}
	return false
}

func FuzzFrame(f *testing.F) {
	for _, g := range goldenFrames {
		f.Add(wire(f, g.wire))
	}
	for _, g := range goldenComposites {
		b := wire(f, g.wire)
		f.Add(frameOf(FrameAMQP, b))
		if p, ok := g.want.(Performative); ok && p.frameType() == FrameSASL {
			f.Add(frameOf(FrameSASL, b))
		}
		if s, ok := g.want.(DeliveryState); ok {
			f.Add(AppendFrame(nil, 1, &Transfer{State: s}, []byte("payload")))
		}
	}
	for _, h := range append(append([]hostile{}, hostileFrames...), hostileWhole...) {
		f.Add(wire(f, h.wire))
	}
	for _, h := range hostileBodies {
		f.Add(frameOf(FrameAMQP, wire(f, h.wire)))
	}
	for _, line := range traceLines(f, "qpid-jms-2.10.txt") {
		if m := jmsLine.FindStringSubmatch(line); m[1] == "Transfer" {
			f.Add(AppendFrame(nil, 1, &Transfer{DeliveryTag: []byte{0}}, unescape(m[4])))
		}
	}
	var d Decoder
	d.Limits = fuzzLimits
	f.Fuzz(func(t *testing.T, b []byte) {
		var fr Frame
		var n int
		var err error
		checkMemory(t, b, func() { fr, n, err = DecodeFrame(b, fuzzLimits) })
		checkDecodeError(t, err)
		reused, m, err2 := d.Decode(b)
		if m != n || (err == nil) != (err2 == nil) {
			t.Fatalf("the reused decoder takes %d bytes, %v; a new one %d, %v", m, err2, n, err)
		}
		if err != nil {
			if n != 0 || fr.Body != nil {
				t.Errorf("an error with a frame: %+v", fr)
			}
			return
		}
		out := AppendFrame(nil, fr.Channel, fr.Body, fr.Payload)
		if got := AppendFrame(nil, reused.Channel, reused.Body, reused.Payload); !bytes.Equal(got, out) {
			t.Fatalf("the reused decoder read %x, a new one %x", got, out)
		}
		again, _, err := DecodeFrame(out, Limits{MaxFrameSize: 1 << 30, MaxElements: 1 << 30, MaxBytes: 1 << 30})
		if err != nil {
			t.Fatalf("%x became %x: %v", b[:n], out, err)
		}
		if third := AppendFrame(nil, again.Channel, again.Body, again.Payload); !bytes.Equal(third, out) {
			t.Fatalf("%x became %x, then %x", b[:n], out, third)
		}
		if again.Type != fr.Type || again.Channel != fr.Channel || reflect.TypeOf(again.Body) != reflect.TypeOf(fr.Body) ||
			!bytes.Equal(again.Payload, fr.Payload) {
			t.Fatalf("%+v became %+v", fr, again)
		}
	})
}

func FuzzMessage(f *testing.F) {
	for _, g := range goldenSections {
		f.Add(wire(f, g.wire))
	}
	all := wireHeader + wireDA + wireMA + wireProps + wireAP
	for _, s := range []string{all + wireData + wireData + wireFooter, all + wireSeq, all + wireValue + wireFooter} {
		f.Add(wire(f, s))
	}
	for _, h := range hostileValues {
		if b := hostileValue(f, h); len(b) < 10_000 {
			f.Add(append([]byte{0x00, 0x53, 0x77}, b...))
		}
	}
	for _, line := range traceLines(f, "qpid-jms-2.10.txt") {
		if m := jmsLine.FindStringSubmatch(line); m[1] == "Transfer" {
			f.Add(unescape(m[4]))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		var s Sections
		var err error
		used := memory(func() { s, err = ParseSections(b, fuzzLimits) })
		if used > 16<<10 {
			t.Errorf("%d bytes of memory to find the sections", used)
		}
		checkDecodeError(t, err)
		if err != nil {
			return
		}
		joined := bytes.Join([][]byte{
			s.Header, s.DeliveryAnnotations, s.MessageAnnotations, s.Properties,
			s.ApplicationProperties, s.Body, s.Footer,
		}, nil)
		if !bytes.Equal(joined, b) {
			t.Fatalf("the sections of %x are %x", b, joined)
		}
		if rest := b[len(s.Header)+len(s.DeliveryAnnotations):]; !bytes.Equal(rest, s.Rest) {
			t.Fatalf("the rest of %x is %x", b, s.Rest)
		}
		readAll(t, b, &s)
		if !bytes.Equal(b, before) {
			t.Fatal("the input was written to")
		}
	})
}

// readAll decodes every section that ParseSections let pass: only the limits may refuse now, and these are out of reach.
func readAll(t *testing.T, b []byte, s *Sections) {
	lim := Limits{MaxElements: 1 << 24, MaxBytes: 1 << 30}
	fail := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s of %x: %v", what, b, err)
		}
	}
	h, err := DecodeHeader(s.Header)
	fail("header", err)
	if h2, err := DecodeHeader(AppendHeader(nil, &h)); err != nil || h2 != h {
		t.Fatalf("header %+v became %+v, %v", h, h2, err)
	}
	p, err := DecodeProperties(s.Properties, lim)
	fail("properties", err)
	if p2, err := DecodeProperties(AppendProperties(nil, &p), lim); err != nil || !reflect.DeepEqual(p2, p) {
		t.Fatalf("properties %+v became %+v, %v", p, p2, err)
	}
	_, err = DecodeDeliveryAnnotations(s.DeliveryAnnotations, lim)
	fail("delivery annotations", err)
	_, err = DecodeMessageAnnotations(s.MessageAnnotations, lim)
	fail("message annotations", err)
	_, err = DecodeApplicationProperties(s.ApplicationProperties, lim)
	fail("application properties", err)
	_, err = DecodeFooter(s.Footer, lim)
	fail("footer", err)
	switch s.BodyKind {
	case BodyData:
		if n := len(s.Data(nil)); n != s.BodyCount {
			t.Fatalf("%d data sections of %d", n, s.BodyCount)
		}
	case BodySequence:
		l, err := s.Sequences(lim)
		fail("sequences", err)
		if len(l) != s.BodyCount {
			t.Fatalf("%d sequences of %d", len(l), s.BodyCount)
		}
	case BodyValue:
		// A declare or discharge of the wrong shape is well formed as a value, and refused here.
		_, err := s.Value(lim)
		checkDecodeError(t, err)
	}
}
