package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/selector"
)

// section encodes a section of the message format around a value.
func section(code byte, value ...byte) []byte { return append([]byte{0, 0x53, code}, value...) }

// text8 is an encoded string of less than 256 bytes.
func text8(s string) []byte { return append([]byte{0xa1, byte(len(s))}, s...) }

// coloured is a message whose application property "colour" is a number.
func coloured(body string, colour int) []byte {
	pairs := append(text8("colour"), 0x54, byte(colour))
	m := section(sectionApplication, append([]byte{0xc1, byte(len(pairs) + 1), 2}, pairs...)...)
	return append(m, section(0x77, text8(body)...)...)
}

// urgent puts a header before a message that has none: of a priority.
func urgent(message []byte, priority uint8) []byte {
	return append(section(sectionHeader, 0xc0, 4, 2, 0x40, 0x50, priority), message...)
}

// brief puts a header before a message that has none: of a priority and a time to live in ms.
func brief(message []byte, priority uint8, ttl uint32) []byte {
	return append(binary.BigEndian.AppendUint32(section(sectionHeader, 0xc0, 9, 3, 0x40, 0x50, priority, 0x70), ttl), message...)
}

// late puts message annotations before a message that has no sections in front of them: it arrives so many ms later, or at that moment.
func late(message []byte, annotation string, ms int64) []byte {
	pairs := binary.BigEndian.AppendUint64(append(appendSymbol(nil, annotation), 0x81), uint64(ms))
	return append(section(sectionAnnotations, append([]byte{0xc1, byte(len(pairs) + 1), 2}, pairs...)...), message...)
}

// parsed is the parsed form of a selector.
func parsed(t testing.TB, text string) []byte {
	t.Helper()
	s, err := selector.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s.AppendTo(nil)
}

// A head goes up to the body, and what isn't a head's section in its place is the body's.
func TestSplitHead(t *testing.T) {
	header := section(sectionHeader, 0xc0, 3, 1, 0x50, 7)
	annotations := section(sectionAnnotations, wrapMap(nil, 0)...)
	properties := section(sectionProperties, 0x45)
	long := append([]byte{0, 0x80, 0, 0, 0, 0, 0, 0, 0, sectionApplication}, wrapMap(append(text8("k"), 0x41), 2)...)
	body := section(0x77, 0x40)
	for name, c := range map[string]struct {
		pieces [][]byte
		size   int
	}{
		"nothing":                {nil, 0},
		"a body alone":           {[][]byte{body}, 0},
		"all sections":           {[][]byte{header, section(sectionDelivery, wrapMap(nil, 0)...), annotations, properties, long, body}, -1},
		"no body":                {[][]byte{header, properties}, len(header) + len(properties)},
		"out of order":           {[][]byte{properties, header, body}, len(properties)},
		"twice":                  {[][]byte{properties, properties}, len(properties)},
		"cut in a section":       {[][]byte{header, properties[:3]}, len(header)},
		"longer than the rest":   {[][]byte{section(sectionProperties, 0xd0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)}, 0},
		"no section at all":      {[][]byte{[]byte("plain text")}, 0},
		"descriptor of symbols":  {[][]byte{{0, 0xa3, 1, 'x', 0x45}}, 0},
		"descriptor out of code": {[][]byte{{0, 0x80, 1, 0, 0, 0, 0, 0, 0, 0x70, 0x45}}, 0},
	} {
		m := bytes.Join(c.pieces, nil)
		if c.size < 0 {
			c.size = len(m) - len(body)
		}
		if s := splitHead(m); s.size != c.size {
			t.Errorf("%s: a head of %d bytes, want %d", name, s.size, c.size)
		}
	}
	s := splitHead(bytes.Join([][]byte{header, annotations, properties, long, body}, nil))
	if !bytes.Equal(s.header, header) || !bytes.Equal(s.annotations, annotations) || !bytes.Equal(s.properties, properties) || !bytes.Equal(s.application, long) {
		t.Errorf("%+v", s)
	}
}

// FuzzSplitHead: no bytes make it panic, and a head is never longer than its message.
func FuzzSplitHead(f *testing.F) {
	f.Add(coloured("b", 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s := splitHead(b); s.size < 0 || s.size > len(b) {
			t.Fatal(s.size)
		}
	})
}

// Heads of all lengths are kept in memory as they are, and nothing is left of them.
func TestHeadInMemory(t *testing.T) {
	m := New(testGroup)
	r := rand.New(rand.NewPCG(1, 2))
	kept := map[uint32][]byte{}
	for i := range 2000 {
		b := make([]byte, i%400)
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		mi := m.messages.alloc()
		m.messages.at(mi).head = m.keepHead(b)
		kept[mi] = b
		if i%3 == 0 {
			for other := range kept {
				m.forgetHead(m.messages.at(other))
				delete(kept, other)
				break
			}
		}
	}
	for mi, want := range kept {
		if got := m.head([]byte("x"), mi); string(got) != "x"+string(want) {
			t.Fatalf("%x, want %x", got, want)
		}
		m.forgetHead(m.messages.at(mi))
	}
	if n := m.cells.live(); n != 0 {
		t.Errorf("%d cells are left", n)
	}
}

// A message is read back as it came: from its record and its body, also where that is a dead letter's, which stays where it was.
func TestReadMessage(t *testing.T) {
	b := newBundle(t)
	p := b.connect(1, "p")
	p.receiver(1, "q", 3)
	all := []string{"no section", string(coloured("x", 7)), string(section(sectionProperties, 0x45))}
	p.send("q", all...)
	refs := b.refs()
	read := func(queue string, n uint64) string {
		m, ok, err := ReadMessage(nil, testGroup, b.m.byName[queue].inc, n, b.disk.get)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		return string(m)
	}
	for i, want := range all {
		if got := read("q", uint64(i+1)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	p.settle(1, command.Rejected, refs...)
	for i, want := range all {
		if got := read("DLQ.q", uint64(i+1)); got != want {
			t.Errorf("dead letter %q, want %q", got, want)
		}
	}
	if _, ok, err := ReadMessage(nil, testGroup, b.m.byName["q"].inc, 1, b.disk.get); ok || err != nil {
		t.Errorf("one that is gone: %v, %v", ok, err)
	}
	key := string(appendMessageKey(nil, testGroup, keyMessage, b.m.byName["DLQ.q"].inc, 1))
	b.disk.kv[key] = string(binary.AppendUvarint(nil, 1<<40)[:3])
	if _, _, err := ReadMessage(nil, testGroup, b.m.byName["DLQ.q"].inc, 1, b.disk.get); err == nil {
		t.Error("a damaged record is read")
	}
}

// colours are selectors for messages of coloured, by number; 0: none.
func colours(t testing.TB, n int) []byte {
	if n == 0 {
		return nil
	}
	return parsed(t, fmt.Sprintf("colour = %d", n))
}
