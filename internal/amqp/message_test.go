package amqp

import (
	"bytes"
	"reflect"
	"testing"
)

// goldenSections are single sections, written by hand: how we write them and how they are read.
var goldenSections = []struct {
	name  string
	wire  string
	write func(dst []byte) []byte
	read  func(s *Sections) (any, error)
	want  any
}{
	{
		"header, least", "00 53 70 45", func(dst []byte) []byte { h := NewHeader(); return AppendHeader(dst, &h) },
		func(s *Sections) (any, error) { return DecodeHeader(s.Header) },
		Header{Priority: 4},
	},
	{
		"header, all", "00 53 70 c0 0c 05 41 50 09 70 00 00 ea 60 41 52 02",
		func(dst []byte) []byte {
			return AppendHeader(dst, &Header{Durable: true, Priority: 9, TTL: Some(uint32(60000)), FirstAcquirer: true, DeliveryCount: 2})
		},
		func(s *Sections) (any, error) { return DecodeHeader(s.Header) },
		Header{Durable: true, Priority: 9, TTL: Some(uint32(60000)), FirstAcquirer: true, DeliveryCount: 2},
	},
	{
		"delivery annotations", "00 53 71 c1 06 02 a3 01 'k 52 07",
		func(dst []byte) []byte { return AppendDeliveryAnnotations(dst, Map{{Symbol("k"), uint32(7)}}) },
		func(s *Sections) (any, error) { return DecodeDeliveryAnnotations(s.DeliveryAnnotations, Limits{}) },
		Map{{Symbol("k"), uint32(7)}},
	},
	{
		"message annotations", "00 53 72 c1 06 02 a3 01 'k 51 05",
		func(dst []byte) []byte { return AppendMessageAnnotations(dst, Map{{Symbol("k"), int8(5)}}) },
		func(s *Sections) (any, error) { return DecodeMessageAnnotations(s.MessageAnnotations, Limits{}) },
		Map{{Symbol("k"), int8(5)}},
	},
	{
		"properties, least", "00 53 73 45", func(dst []byte) []byte { return AppendProperties(dst, &Properties{}) },
		func(s *Sections) (any, error) { return DecodeProperties(s.Properties, Limits{}) },
		Properties{},
	},
	{
		"properties, all", `00 53 73 c0 42 0d  a1 03 'ID: a0 01 'u a1 01 'q a1 01 's a1 01 'r
		98 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10  a3 01 't a3 01 'e
		83 00 00 00 00 00 00 00 01  83 ff ff ff ff ff ff ff ff  a1 01 'g 43 a1 01 'p`,
		func(dst []byte) []byte { return AppendProperties(dst, &allProperties) },
		func(s *Sections) (any, error) { return DecodeProperties(s.Properties, Limits{}) }, allProperties,
	},
	{
		"properties, ulong and binary ids", "00 53 73 c0 0b 06  53 07 40 40 40 40 a0 02 01 02",
		func(dst []byte) []byte {
			return AppendProperties(dst, &Properties{MessageID: uint64(7), CorrelationID: []byte{1, 2}})
		},
		func(s *Sections) (any, error) { return DecodeProperties(s.Properties, Limits{}) },
		Properties{MessageID: uint64(7), CorrelationID: []byte{1, 2}},
	},
	{
		"application properties", "00 53 74 c1 0b 04 a1 01 'k a1 01 'v a1 01 'n 41",
		func(dst []byte) []byte { return AppendApplicationProperties(dst, Map{{"k", "v"}, {"n", true}}) },
		func(s *Sections) (any, error) { return DecodeApplicationProperties(s.ApplicationProperties, Limits{}) },
		Map{{"k", "v"}, {"n", true}},
	},
	{
		"data", "00 53 75 a0 02 'hi", func(dst []byte) []byte { return AppendData(dst, []byte("hi")) },
		func(s *Sections) (any, error) { return s.Data(nil), nil },
		[][]byte{[]byte("hi")},
	},
	{
		"sequence", "00 53 76 c0 03 01 52 07", func(dst []byte) []byte { return AppendSequence(dst, List{uint32(7)}) },
		func(s *Sections) (any, error) { return s.Sequences(Limits{}) },
		[]List{{uint32(7)}},
	},
	{
		"value", "00 53 77 a1 02 'hi", func(dst []byte) []byte { return AppendAMQPValue(dst, "hi") },
		func(s *Sections) (any, error) { return s.Value(Limits{}) }, "hi",
	},
	{
		"value, null", "00 53 77 40", func(dst []byte) []byte { return AppendAMQPValue(dst, nil) },
		func(s *Sections) (any, error) { return s.Value(Limits{}) }, nil,
	},
	{
		"declare", "00 53 77 00 53 31 45", func(dst []byte) []byte { return AppendAMQPValue(dst, &Declare{}) },
		func(s *Sections) (any, error) { return s.Value(Limits{}) }, &Declare{},
	},
	{
		"discharge", "00 53 77 00 53 32 c0 05 02 a0 01 't 41",
		func(dst []byte) []byte { return AppendAMQPValue(dst, &Discharge{TxnID: []byte("t"), Fail: true}) },
		func(s *Sections) (any, error) { return s.Value(Limits{}) }, &Discharge{TxnID: []byte("t"), Fail: true},
	},
	{
		"prepare", "00 53 77 00 a3 13 'oncemq:prepare:list c0 07 02 a0 01 't a0 01 'x",
		func(dst []byte) []byte { return AppendAMQPValue(dst, &Prepare{TxnID: []byte("t"), XID: []byte("x")}) },
		func(s *Sections) (any, error) { return s.Value(Limits{}) }, &Prepare{TxnID: []byte("t"), XID: []byte("x")},
	},
	{
		"value that is described", "00 53 77 00 53 05 41",
		func(dst []byte) []byte { return AppendAMQPValue(dst, &Described{Descriptor: uint64(5), Value: true}) },
		func(s *Sections) (any, error) { return s.Value(Limits{}) }, &Described{Descriptor: uint64(5), Value: true},
	},
	{
		"value that is described by a string", "00 53 77 00 a1 01 'd 41",
		func(dst []byte) []byte { return AppendAMQPValue(dst, &Described{Descriptor: "d", Value: true}) },
		func(s *Sections) (any, error) { return s.Value(Limits{}) }, &Described{Descriptor: "d", Value: true},
	},
	{
		"footer", "00 53 78 c1 06 02 a3 01 'k 52 07", func(dst []byte) []byte { return AppendFooter(dst, Map{{Symbol("k"), uint32(7)}}) },
		func(s *Sections) (any, error) { return DecodeFooter(s.Footer, Limits{}) },
		Map{{Symbol("k"), uint32(7)}},
	},
}

var allProperties = Properties{
	MessageID: "ID:", UserID: []byte("u"), To: "q", Subject: "s", ReplyTo: "r",
	CorrelationID: UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, ContentType: "t", ContentEncoding: "e",
	AbsoluteExpiryTime: Some(Timestamp(1)), CreationTime: Some(Timestamp(-1)), GroupID: "g", GroupSequence: Some(uint32(0)),
	ReplyToGroupID: "p",
}

func TestGoldenSections(t *testing.T) {
	for _, g := range goldenSections {
		t.Run(g.name, func(t *testing.T) {
			b := wire(t, g.wire)
			if got := g.write(nil); !bytes.Equal(got, b) {
				t.Errorf("written %x\n   want %x", got, b)
			}
			s, err := ParseSections(b, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := g.read(&s)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, g.want) {
				t.Errorf("read %#v\nwant %#v", got, g.want)
			}
			for i := 1; i < len(b); i++ {
				if _, err := ParseSections(b[:i:i], Limits{}); err == nil {
					t.Errorf("%d bytes of %d are a whole section", i, len(b))
				}
			}
		})
	}
}

const (
	wireHeader = " 00 53 70 c0 02 01 41 "
	wireDA     = " 00 53 71 c1 01 00 "
	wireMA     = " 00 53 72 c1 01 00 "
	wireProps  = " 00 a3 14 'amqp:properties:list c0 04 01 a1 01 'i "
	wireAP     = " 00 80 00 00 00 00 00 00 00 74 d1 00 00 00 04 00 00 00 00 "
	wireData   = " 00 53 75 a0 01 'x "
	wireSeq    = " 00 53 76 45 "
	wireValue  = " 00 53 77 a1 01 'v "
	wireFooter = " 00 53 78 c1 01 00 "
)

func TestParseSections(t *testing.T) {
	all := wireHeader + wireDA + wireMA + wireProps + wireAP + wireData + wireData + wireFooter
	for _, c := range []struct {
		name                   string
		wire                   string
		rest, bare, body       string
		kind                   BodyKind
		count                  int
		header, da, ma, footer bool
	}{
		{
			"all", all, wireMA + wireProps + wireAP + wireData + wireData + wireFooter, wireProps + wireAP + wireData + wireData,
			wireData + wireData, BodyData, 2, true, true, true, true,
		},
		{"no bytes", "", "", "", "", BodyNone, 0, false, false, false, false},
		{"header alone", wireHeader, "", "", "", BodyNone, 0, true, false, false, false},
		{
			"no body, as of a plain JMS message", wireHeader + wireMA + wireProps, wireMA + wireProps, wireProps, "", BodyNone, 0,
			true, false, true, false,
		},
		{"body alone", wireValue, wireValue, wireValue, wireValue, BodyValue, 1, false, false, false, false},
		{
			"sequences", wireDA + wireSeq + wireSeq + wireSeq, wireSeq + wireSeq + wireSeq, wireSeq + wireSeq + wireSeq,
			wireSeq + wireSeq + wireSeq, BodySequence, 3, false, true, false, false,
		},
		{"footer behind annotations", wireMA + wireFooter, wireMA + wireFooter, "", "", BodyNone, 0, false, false, true, true},
		{"footer alone", wireFooter, wireFooter, "", "", BodyNone, 0, false, false, false, true},
		{
			"footer behind a value", wireHeader + wireValue + wireFooter, wireValue + wireFooter, wireValue, wireValue, BodyValue, 1,
			true, false, false, true,
		},
	} {
		s, err := ParseSections(wire(t, c.wire), Limits{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for part, want := range map[string]string{"rest": c.rest, "bare": c.bare, "body": c.body} {
			got := map[string][]byte{"rest": s.Rest, "bare": s.Bare, "body": s.Body}[part]
			if !bytes.Equal(got, wire(t, want)) {
				t.Errorf("%s: %s is %x, want %x", c.name, part, got, wire(t, want))
			}
		}
		if s.BodyKind != c.kind || s.BodyCount != c.count {
			t.Errorf("%s: %d body sections of kind %d", c.name, s.BodyCount, s.BodyKind)
		}
		if s.Header != nil != c.header || s.DeliveryAnnotations != nil != c.da || s.MessageAnnotations != nil != c.ma ||
			s.Footer != nil != c.footer {
			t.Errorf("%s: the sections are %+v", c.name, s)
		}
	}
}

// A broker writes header and delivery annotations anew and sends the rest as it came: the bare message byte for byte.
func TestBareMessageIsNeverEncodedAgain(t *testing.T) {
	rest := wire(t, wireMA+wireProps+wireAP+wireData+wireFooter)
	s, err := ParseSections(append(wire(t, wireHeader+wireDA), rest...), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := DecodeHeader(s.Header)
	if err != nil {
		t.Fatal(err)
	}
	h.DeliveryCount, h.FirstAcquirer = 3, false
	out := append(AppendHeader(nil, &h), s.Rest...)
	again, err := ParseSections(out, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := DecodeHeader(again.Header); got.DeliveryCount != 3 || !got.Durable {
		t.Errorf("the header is %+v", got)
	}
	if !bytes.Equal(again.Rest, rest) || !bytes.Equal(again.Bare, s.Bare) || again.DeliveryAnnotations != nil {
		t.Errorf("sent %x", out)
	}
	overlay := append(AppendMessageAnnotations(nil, Map{{Symbol("x"), true}}), s.Rest[len(s.MessageAnnotations):]...)
	third, err := ParseSections(overlay, Limits{})
	if err != nil || !bytes.Equal(third.Bare, s.Bare) {
		t.Errorf("with other annotations: %x, %v", overlay, err)
	}
}

func TestHostileMessages(t *testing.T) {
	for _, h := range []hostile{
		{"no descriptor", "40", "a section that has no descriptor"},
		{"half a descriptor", "00", "bytes are missing"},
		{"unknown section", "00 53 79 45", "a section that is not defined"},
		{"a performative", "00 53 10 45", "a section that is not defined"},
		{"prefix of a symbolic descriptor", "00 a3 0c 'amqp:propert 45", "a section that is not defined"},
		{"header twice", wireHeader + wireHeader, "a section that comes twice"},
		{"value twice", wireValue + wireValue, "a section that comes twice"},
		{"footer twice", wireFooter + wireFooter, "a section that comes twice"},
		{"header behind properties", wireProps + wireHeader, "a section that comes too late"},
		{"annotations behind the body", wireData + wireMA, "a section that comes too late"},
		{"data behind the footer", wireFooter + wireData, "a section that comes too late"},
		{"data and value", wireData + wireValue, "a body of two kinds"},
		{"data and sequence", wireData + wireSeq, "a body of two kinds"},
		{"sequence and data", wireSeq + wireData, "a section that comes too late"},
		{"header with six fields", "00 53 70 c0 07 06 40 40 40 40 40 40", "more fields"},
		{"header whose durable is a string", "00 53 70 c0 03 01 a1 00", "header.durable has the wrong type"},
		{"header null", "00 53 70 40", "header is not a list"},
		{"annotations that are a list", "00 53 72 45", "not a map"},
		{"annotations null", "00 53 72 40", "not a map"},
		{"annotations with an odd count", "00 53 72 c1 02 01 40", "odd count"},
		{"properties with fourteen fields", "00 53 73 c0 0f 0e 40 40 40 40 40 40 40 40 40 40 40 40 40 40", "more fields"},
		{"message-id of another type", "00 53 73 c0 02 01 41", "wrong type"},
		{"message-id that is a symbol", "00 53 73 c0 04 01 a3 01 'a", "wrong type"},
		{"correlation-id that is a uint", "00 53 73 c0 08 06 40 40 40 40 40 52 01", "wrong type"},
		{"content-type that is a string", "00 53 73 c0 0a 07 40 40 40 40 40 40 a1 01 't", "wrong type"},
		{"reply-to that is not UTF-8", "00 53 73 c0 08 05 40 40 40 40 a1 01 ff", "not UTF-8"},
		{"properties with bytes behind", "00 53 73 c0 05 01 a1 01 'a 40", "bytes behind its last field"},
		{"application properties with a symbol as key", "00 53 74 c1 06 02 a3 01 'k 52 01", "a key of application properties"},
		{"application properties with an odd count", "00 53 74 c1 04 01 a1 01 'k", "odd count"},
		{"application properties null", "00 53 74 40", "not a map"},
		{"data that is a string", "00 53 75 a1 01 'x", "not a binary"},
		{"data null", "00 53 75 40", "not a binary"},
		{"sequence that is a map", "00 53 76 c1 01 00", "not a list"},
		{"value without value", "00 53 77", "bytes are missing"},
	} {
		b := wire(t, h.wire)
		checkHostile(t, h.name, ErrCondDecodeError, h.what, func() error { _, err := ParseSections(b, Limits{}); return err })
	}
}

// A long honest body passes: the budget of elements is for what takes no bytes.
func TestLongBody(t *testing.T) {
	l := make(List, 3*DefaultMaxElements)
	for i := range l {
		l[i] = true
	}
	b := AppendSequence(nil, l)
	used := memory(func() {
		if _, err := ParseSections(b, Limits{}); err != nil {
			t.Error(err)
		}
	})
	if used > 4096 {
		t.Errorf("%d bytes of memory to find the sections", used)
	}
}

// The control messages of the coordinator have other sections in front (amqp.md's T2), and anything else is refused or plain.
func TestValueOfControlMessages(t *testing.T) {
	s, err := ParseSections(wire(t, wireHeader+wireMA+wireProps+`
		00 53 77 00 a3 11 'amqp:declare:list d0 00 00 00 05 00 00 00 01 40`), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.Value(Limits{}); err != nil || !reflect.DeepEqual(v, &Declare{}) {
		t.Errorf("%#v, %v", v, err)
	}
	for name, w := range map[string]string{
		"no body":                        wireHeader,
		"data":                           wireData,
		"sequence":                       wireSeq,
		"discharge without txn-id":       "00 53 77 00 53 32 45",
		"discharge with three fields":    "00 53 77 00 53 32 c0 06 03 a0 01 't 41 40",
		"discharge in a map":             "00 53 77 00 53 32 c1 01 00",
		"prepare without xid":            "00 53 77 00 a3 13 'oncemq:prepare:list c0 04 01 a0 01 't",
		"discharge with a string txn-id": "00 53 77 00 53 32 c0 04 01 a1 01 't",
	} {
		s, err := ParseSections(wire(t, w), Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v, err := s.Value(Limits{}); err == nil {
			t.Errorf("%s: %#v", name, v)
		}
	}
}

// The number that stands for our symbolic descriptor inside is none on the wire.
func TestPrepareHasNoNumber(t *testing.T) {
	for _, code := range []string{"80 00 00 00 00 00 00 00", "80 00 00 00 00 00 00 01"} {
		s, err := ParseSections(wire(t, "00 53 77 00 80 "+code+" c0 07 02 a0 01 't a0 01 'x"), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.Value(Limits{})
		if _, ok := v.(*Described); !ok {
			t.Errorf("%s is %#v, %v", code, v, err)
		}
	}
}

func TestWrongSectionToDecode(t *testing.T) {
	if _, err := DecodeHeader(wire(t, wireProps)); err == nil {
		t.Error("properties are a header")
	}
	if _, err := DecodeProperties(wire(t, wireHeader), Limits{}); err == nil {
		t.Error("a header is properties")
	}
	if _, err := DecodeFooter(wire(t, wireMA), Limits{}); err == nil {
		t.Error("annotations are a footer")
	}
	if _, err := DecodeHeader(wire(t, wireHeader+"40")); err == nil {
		t.Error("bytes behind a header pass")
	}
	if h, err := DecodeHeader(nil); err != nil || h != NewHeader() {
		t.Errorf("no header is %+v, %v", h, err)
	}
	if p, err := DecodeProperties(nil, Limits{}); err != nil || !reflect.DeepEqual(p, Properties{}) {
		t.Errorf("no properties are %+v, %v", p, err)
	}
	if m, err := DecodeMessageAnnotations(nil, Limits{}); err != nil || m != nil {
		t.Errorf("no annotations are %+v, %v", m, err)
	}
}
