package selector

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// golden are forms as docs/format/selector.md draws them: a byte that changes needs a new version.
var golden = []struct{ text, form string }{
	{"", "01 00 02 05 29"},
	{"price > 10 AND region = 'EU'", "01 02 40 05 7072696365 40 06 726567696f6e 08 01 00 02 14 14 21 01 01 04 02 4555 10 22"},
	{"NOT x OR JMSPriority <> .5", "01 02 40 01 78 02 08 01 00 29 20 23 01 01 03 3fe0000000000000 11 24"},
	{"x NOT BETWEEN 1 AND -x + x - x * x / +x", "01 01 40 01 78 0e 01 00 02 02 01 00 0c 01 00 08 01 00 01 00 0a 01 00 0d 0b 09 17"},
	{"x BETWEEN 1 AND 2", "01 01 40 01 78 04 01 00 02 02 02 04 16"},
	{"x IN ('b','a','b')", "01 01 40 01 78 02 01 00 18 02 01 61 01 62"},
	{"x IN (1, -1., 0xF)", "01 01 40 01 78 02 01 00 19 03 02 02 03 bff0000000000000 02 1e"},
	{`"m.k" NOT LIKE 'a!%' ESCAPE '!'`, "01 01 41 01 6b 03 01 00 1a 03 612125 21 20"},
	{"x LIKE '_'", "01 01 40 01 78 02 01 00 1a 01 5f 00"},
	{"x IS NULL", "01 01 40 01 78 02 01 00 1b"},
	{"TRUE = (FALSE) AND 1 < 2", "01 00 08 05 06 10 21 02 02 02 04 12 22"},
	{"TRUE = (1 <= 2)", "01 00 06 05 02 02 02 04 13 28 10"},
	{"1 >= 2", "01 00 03 02 02 02 04 15"},
	{
		"JMSDeliveryMode = JMSXDeliveryCount OR JMSRedelivered OR JMSMessageID = JMSCorrelationID",
		"01 05 20 21 22 23 24 0c 01 00 01 01 10 23 01 02 29 24 23 01 03 01 04 10 24",
	},
	{"header.durable = header.ttl OR header.first_acquirer = header.delivery_count", "01 04 01 03 04 05 08 01 00 01 01 10 23 01 02 01 03 10 24"},
	{"properties.message_id = properties.reply_to_group_id", "01 02 10 1c 03 01 00 01 01 10"},
}

func TestGolden(t *testing.T) {
	for _, row := range golden {
		want, err := hex.DecodeString(strings.ReplaceAll(row.form, " ", ""))
		if err != nil {
			t.Fatal(row.form, err)
		}
		s, err := Parse(row.text)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := s.AppendTo([]byte("before")); string(got[:6]) != "before" || !bytes.Equal(got[6:], want) {
			t.Errorf("%s:\n%x, want\n%x", row.text, got[6:], want)
		}
	}
}

// TestCanonical: what makes no difference makes none in the form.
func TestCanonical(t *testing.T) {
	for _, pair := range [][2]string{
		{"a = 1 AND b = 2", " a=1\tand  (b) = (2L) "},
		{"a IN ('x', 'y')", "a in ('y','x','y')"},
		{"JMSType = 'a'", "properties.subject = 'a'"},
		{`"properties.group-id" = 'a'`, "JMSXGroupID = 'a'"},
		{"a", `"application-properties.a"`},
		{"NOT NOT NOT a", "NOT a"},
		{"a = --1", "a = 1"},
		{"a = 0x10", "a = 16"},
		{"JMSMessageID = 'ID:AMQP_NO_PREFIX:x'", "JMSMessageID = 'x'"},
	} {
		var forms [2]string
		for i, text := range pair {
			s, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			forms[i] = string(s.AppendTo(nil))
		}
		if forms[0] != forms[1] {
			t.Errorf("%q: %x and %x", pair, forms[0], forms[1])
		}
	}
}

func TestBadForms(t *testing.T) {
	for _, row := range []struct{ form, reason string }{
		{"", "ends too early"},
		{"00 00 02 05 29", "version 0"},
		{"02 00 02 05 29", "version 2; this release knows 1"},
		{"01", "a number that can't be read"},
		{"01 00", "a number that can't be read"},
		{"01 00 00", "isn't one whole condition"},
		{"01 00 01 05", "isn't one whole condition"},
		{"01 00 04 05 29 05 29", "isn't one whole condition"},
		{"01 00 02 05 29 00", "1 bytes after its end"},
		{"01 00 03 05 29", "a count of 3 with 2 bytes left"},
		{"01 00 82 00 05 29", "a number that can't be read"},
		{"01 00 01 63", "operation 99, which is unknown"},
		{"01 00 01 10", "an operation without its operands"},
		{"01 00 04 05 29 05 10", "an operation without its operands"},
		{"01 00 02 05 20", "an operation without its operands"},
		{"01 01 40 01 78 02 05 29", "isn't one whole condition"},
		{"01 01 40 02 78", "a count of 2 with 1 bytes left"},
		{"01 01 06 02 01 00 29", "field 6, which is unknown"},
		{"01 01 42 02 01 00 29", "field 66, which is unknown"},
		{"01 02 02 02 05 01 00 01 01 10", "there twice"},
		{"01 02 01 02 03 01 01 01 00 10", "name 1 before its turn"},
		{"01 01 02 02 01 01 29", "name 1 before its turn"},
		{"01 00 02 03 7ff0000000000000 29", "isn't finite"},
		{"01 00 02 03 7ff8000000000001 29", "isn't finite"},
		{"01 00 01 03 00", "ends too early"},
		{"01 00 02 05 22", "a join without its test"},
		{"01 00 05 05 29 05 29 22", "a join without its test"},
		{"01 00 06 05 29 23 05 29 22", "a join without its test"},
		{"01 00 03 05 29 21", "isn't one whole condition"},
		{"01 00 04 05 29 21 22", "a join without its test"},
		{"01 00 04 05 29 21 20", "an operation without its operands"},
		{"01 00 02 05 21", "an operation without its operands"},
		{"01 01 40 01 78 02 01 00 18 02 01 62 01 61", "don't ascend"},
		{"01 01 40 01 78 02 01 00 18 02 01 61 01 61", "don't ascend"},
		{"01 01 40 01 78 02 01 00 19 01 05", "a list of numbers with operation 5"},
		{"01 01 40 01 78 02 01 00 1a 01 ff 00", "isn't UTF-8"},
		{"01 01 40 01 78 02 01 00 1a 01 21 21", "nothing follows the escape character"},
		{"01 01 40 01 78 02 01 00 1a 01 21 ffffffff0f", "isn't UTF-8"},
	} {
		form, err := hex.DecodeString(strings.ReplaceAll(row.form, " ", ""))
		if err != nil {
			t.Fatal(row.form, err)
		}
		s, err := Decode(form)
		if !errors.Is(err, ErrForm) || !strings.Contains(fmt.Sprint(err), row.reason) || s != nil {
			t.Errorf("%s: %v, want %s", row.form, err, row.reason)
		}
	}
	if _, err := Decode(make([]byte, MaxForm+1)); !errors.Is(err, ErrForm) {
		t.Errorf("too long: %v", err)
	}
	deep := append([]byte{1, 0, 0x84, 0x02}, bytes.Repeat([]byte{5}, maxStack+4)...)
	if _, err := Decode(deep); !errors.Is(err, ErrForm) || !strings.Contains(err.Error(), "at once") {
		t.Errorf("too deep: %v", err)
	}
}

// TestDecodeCopies: the caller's bytes may change afterwards.
func TestDecodeCopies(t *testing.T) {
	s, err := Parse("region = 'EU' AND x IN ('a') AND x LIKE 'a'")
	if err != nil {
		t.Fatal(err)
	}
	form := s.AppendTo(nil)
	s, err = Decode(form)
	if err != nil {
		t.Fatal(err)
	}
	clear(form)
	if !s.Match(withProperties("region", "EU", "x", "a")) {
		t.Error("the selector changed with the bytes that it was decoded from")
	}
}
