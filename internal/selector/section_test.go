package selector

import (
	"encoding/binary"
	"fmt"
	"testing"
)

func mustParse(t testing.TB, text string) *Selector {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestGarbage: what can't be read is NULL, what was read before it counts.
func TestGarbage(t *testing.T) {
	whole := applications("a", 1, "b", 2)
	u32 := func(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }
	for _, row := range []struct {
		name    string
		section string
		a, b    string // a = 1, b = 2
	}{
		{"whole", string(whole), "T", "T"},
		{"none", "", "U", "U"},
		{"no descriptor", string(whole[3:]), "U", "U"},
		{"cut in the descriptor", string(whole[:2]), "U", "U"},
		{"cut behind it", string(whole[:3]), "U", "U"},
		{"cut in the size", string(whole[:6]), "U", "U"},
		{"cut at the end", string(whole[:len(whole)-1]), "U", "U"},
		{"descriptor of eight bytes", "\x00\x80\x00\x00\x00\x00\x00\x00\x00\x74" + string(whole[3:]), "T", "T"},
		{"symbolic descriptor", "\x00\xa3\x04amqp" + string(whole[3:]), "T", "T"},
		{"described descriptor", "\x00\x00\x53\x01\x53\x74" + string(whole[3:]), "U", "U"},
		{"a list", "\x00\x53\x74\xd0" + string(whole[4:]), "U", "U"},
		{"map8", "\x00\x53\x74\xc1\x0b\x04\xa1\x01a\x54\x01\xa1\x01b\x54\x02", "T", "T"},
		{"map8 with symbols", "\x00\x53\x74\xc1\x0b\x04\xa3\x01a\x54\x01\xa3\x01b\x54\x02", "T", "T"},
		{"long keys", "\x00\x53\x74\xc1\x11\x04\xb1\x00\x00\x00\x01a\x54\x01\xb3\x00\x00\x00\x01b\x54\x02", "T", "T"},
		{"map8 without count", "\x00\x53\x74\xc1\x00", "U", "U"},
		{"map32 without count", "\x00\x53\x74\xd1" + u32(3) + "abc", "U", "U"},
		{"odd count", "\x00\x53\x74\xc1\x09\x03\xa1\x01a\x54\x01\xa1\x01b", "T", "U"},
		{"odd count, whole value", "\x00\x53\x74\xc1\x0b\x03\xa1\x01a\x54\x01\xa1\x01b\x54\x02", "T", "U"},
		{"count too low", "\x00\x53\x74\xc1\x0b\x02\xa1\x01a\x54\x01\xa1\x01b\x54\x02", "T", "U"},
		{"count too high", "\x00\x53\x74\xd1" + u32(14) + "\xff\xff\xff\xff\xa1\x01a\x54\x01\xa1\x01b\x54\x02", "T", "T"},
		{"key that is no text", "\x00\x53\x74\xc1\x0b\x04\x54\x01\x54\x01\xa1\x01b\x54\x02\x00", "U", "T"},
		{"key twice, the first counts", "\x00\x53\x74\xc1\x10\x06\xa1\x01a\x54\x01\xa1\x01a\x54\x07\xa1\x01b\x54\x02", "T", "T"},
		{"key twice, first null", "\x00\x53\x74\xc1\x0f\x06\xa1\x01a\x40\xa1\x01a\x54\x01\xa1\x01b\x54\x02", "U", "T"},
		{"value cut", "\x00\x53\x74\xc1\x09\x04\xa1\x01a\x54\x01\xa1\x01b\x54", "T", "U"},
		{"unknown constructor", "\x00\x53\x74\xc1\x0b\x04\xa1\x01a\x14\x01\xa1\x01b\x54\x02", "U", "U"},
		{"string longer than the map", "\x00\x53\x74\xc1\x0b\x04\xa1\x01a\xa1\x09\xa1\x01b\x54\x02", "U", "U"},
		{"long string longer than the map", "\x00\x53\x74\xc1\x0e\x04\xa1\x01a\xb1\xff\xff\xff\xff\xa1\x01b\x54\x02", "U", "U"},
		{"values of all shapes between", string(section(0x74, codeMap32, "x", raw("\xe0\x02\x01\x40"), "y", raw("\xf0\x00\x00\x00\x05\x00\x00\x00\x00\x40"),
			"z", raw("\x00\x53\x01\x00\xa3\x01q\xc0\x01\x00"), "w", raw("\xd1\x00\x00\x00\x04\x00\x00\x00\x00"), "v", uuid{}, "a", 1, "b", 2)), "T", "T"},
		{"described for ever", "\x00\x53\x74\xc1\x0b\x04\xa1\x01a\x00\x40\x00\x40\x00\x40\x00\x40", "U", "U"},
	} {
		t.Run(row.name, func(t *testing.T) {
			check(t, &Message{ApplicationProperties: []byte(row.section)}, []evaluation{{"a = 1", row.a}, {"b = 2", row.b}, {"b = 2 OR a = 9", map[string]string{"T": "T", "U": "U"}[row.b]}})
		})
	}
}

func TestGarbageInLists(t *testing.T) {
	check(t, &Message{Properties: []byte("\x00\x53\x73\xc0\x05\x03\xa1\x01a\x40")}, []evaluation{{"JMSMessageID = 'a'", "T"}, {"properties.to IS NULL", "T"}})
	check(t, &Message{Properties: []byte("\x00\x53\x73\xc0\x04\xff\xa1\x01a")}, []evaluation{{"JMSMessageID = 'a'", "T"}, {"JMSXUserID IS NULL", "T"}})
	check(t, &Message{Properties: []byte("\x00\x53\x73\xc0\x04\x00\xa1\x01a")}, []evaluation{{"JMSMessageID IS NULL", "T"}})
	check(t, &Message{Properties: []byte("\x00\x53\x73\xc1\x04\x01\xa1\x01a")}, []evaluation{{"JMSMessageID IS NULL", "T"}})
	check(t, &Message{Header: []byte("\x00\x53\x70\xc0\x03\x02\x41\x50")}, []evaluation{{"JMSDeliveryMode = 'PERSISTENT' AND JMSPriority = 4", "T"}})
	check(t, &Message{Header: header("yes", "high")}, []evaluation{{"JMSDeliveryMode = 'NON_PERSISTENT'", "T"}, {"JMSPriority = 4", "F"}})
	check(t, &Message{Properties: properties(nil, nil, nil, raw{0, 0x40, 0x40}, "r")}, []evaluation{{"JMSType IS NULL AND JMSReplyTo = 'r'", "T"}})
}

// TestManyNames: with more names than are looked through one by one.
func TestManyNames(t *testing.T) {
	var pairs []any
	text := "absent IS NULL"
	for i := range 40 {
		pairs = append(pairs, fmt.Sprintf("other%d", i), -1, fmt.Sprintf("name%d", i*7%40), i*7%40)
		text += fmt.Sprintf(" AND name%d = %d", i, i)
	}
	check(t, withProperties(pairs...), []evaluation{{text, "T"}})
	check(t, withProperties(pairs[:len(pairs)-2]...), []evaluation{{text, "U"}})
}

// TestNothingIsKept: what one message had isn't there for the next.
func TestNothingIsKept(t *testing.T) {
	s := mustParse(t, "a = 1 AND JMSType = 'x' AND JMSPriority = 5 AND JMSXDeliveryCount = 1")
	full := &Message{Header: header(nil, uint8(5)), Properties: properties(nil, nil, nil, "x"), ApplicationProperties: applications("a", 1)}
	if !s.Match(full) || s.Match(&Message{}) || !s.Match(full) || s.Match(&Message{Header: full.Header, ApplicationProperties: full.ApplicationProperties}) {
		t.Error("a value of one message was there for the next")
	}
	for i, v := range s.values[:s.names] {
		if v.kind != typeAbsent || v.text != nil {
			t.Errorf("register %d still has %v", i, v)
		}
	}
}
