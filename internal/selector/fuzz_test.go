package selector

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// seeds are texts for the fuzzers: every operation is in one.
var seeds = []string{
	"", "price > 10 AND region = 'EU'", "NOT x OR JMSPriority <> .5", "x NOT BETWEEN 1 AND -x + x - x * x / +x", "x IN ('b','a')", "x IN (1, -1., 0xF)",
	`"m.k" NOT LIKE 'a!%_' ESCAPE '!' OR y LIKE '%a_b%'`, "x IS NOT NULL", "TRUE = (1 <= 2) AND 1 >= 2", "JMSMessageID = 'ID:AMQP_BINARY:00'", "header.first_acquirer OR JMSRedelivered",
	"x = '", "x = 1 AND (", "((((x))))", "1.e5 < 0x1.8p3D", "größe = 'XL'",
}

// FuzzParse: every text is refused with a column inside it, or has a form that decodes to the same.
func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	m := rich()
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Column < 1 || syntax.Column > len([]rune(text))+1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		form := s.AppendTo(nil)
		if len(form) > MaxForm {
			t.Fatalf("a text of %d bytes has a form of %d", len(text), len(form))
		}
		again, err := Decode(form)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if again.Match(m) != s.Match(m) || !bytes.Equal(again.AppendTo(nil), form) {
			t.Fatalf("%q: another selector after decoding", text)
		}
	})
}

// FuzzDecode: no bytes do harm, and a form that is taken is the only one of its selector and answers the same every time.
func FuzzDecode(f *testing.F) {
	for _, text := range seeds {
		if s, err := Parse(text); err == nil {
			f.Add(s.AppendTo(nil))
		}
	}
	m := rich()
	f.Fuzz(func(t *testing.T, form []byte) {
		s, err := Decode(form)
		if err != nil {
			if !errors.Is(err, ErrForm) {
				t.Fatal(err)
			}
			return
		}
		first := s.Match(m)
		if second := s.Match(m); !bytes.Equal(s.AppendTo(nil), form) || first != second {
			t.Fatalf("%x is unsteady", form)
		}
		for i := range s.code {
			if in := &s.code[i]; (in.op == opAndTest || in.op == opOrTest) && int(in.index) <= i {
				t.Fatalf("%x: instruction %d goes back to %d", form, i, in.index)
			}
		}
	})
}

// FuzzMatch: no section does harm, and matching changes none and keeps nothing of it.
func FuzzMatch(f *testing.F) {
	m := rich()
	f.Add(m.Header, m.MessageAnnotations, m.Properties, m.ApplicationProperties)
	f.Add(m.Header[:9], m.MessageAnnotations[:20], m.Properties[:30], m.ApplicationProperties[:100])
	f.Add([]byte("\x00\x53\x70\x45"), []byte("\x00\x53\x72\xc1\x01\x00"), []byte("\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73\x45"), []byte("\x00\xa3\x01a\xd1\x00\x00\x00\x04\xff\xff\xff\xff"))
	var all []*Selector
	for _, text := range append(seeds, "region IS NULL AND JMSDeliveryMode = JMSCorrelationID OR properties.user_id LIKE '%_a%' OR price*2 > weight AND uuid IN ('a','b') AND nan <> huge") {
		if s, err := Parse(strings.TrimSpace(text)); err == nil {
			all = append(all, s)
		}
	}
	f.Fuzz(func(t *testing.T, header, annotations, properties, application []byte) {
		m := &Message{Header: header, MessageAnnotations: annotations, Properties: properties, ApplicationProperties: application}
		for _, s := range all {
			first := s.Match(m)
			if second := s.Match(m); first != second {
				t.Fatal("another answer the second time")
			}
			for _, v := range s.values[:s.names] {
				if v.text != nil {
					t.Fatal("a register keeps bytes of the message")
				}
			}
		}
	})
}
