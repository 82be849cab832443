package state

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/oncemq/oncemq/internal/command"
)

// Skipped is an entry that was passed over [4.4]. Sum is the xxHash64 of its bytes.
type Skipped struct{ Index, Sum uint64 }

// Skips lists the entries that were passed over, in the order of their indexes.
func (m *Machine) Skips() []Skipped { return append([]Skipped(nil), m.skips...) }

// Skip passes over the entry at index: none of its commands is carried out, of its stamp
// the times count, and that it was skipped is recorded, and so goes into the digest. No
// timer, job or hand-out runs either: whatever made Apply panic may be in them. For the
// rest it is Apply.
func (m *Machine) Skip(index uint64, entry []byte, out Changes) error {
	h, _, err := command.DecodeEntry(entry)
	if err != nil {
		return fmt.Errorf("skipping entry %d: %w", index, err)
	}
	m.index, m.out = index, out
	m.civil.stamp(h)
	m.running = max(m.running, h.Running)
	m.skips = append(m.skips, Skipped{Index: index, Sum: xxhash.Sum64(entry)})
	m.newSkips++
	m.flush()
	m.out = nil
	return nil
}

func (m *Machine) flushSkips() {
	for _, s := range m.skips[len(m.skips)-m.newSkips:] {
		m.keyBuf = appendIDKey(m.keyBuf[:0], m.group, keySkip, s.Index)
		m.valueBuf = binary.BigEndian.AppendUint64(m.valueBuf[:0], s.Sum)
		m.insert(m.keyBuf, m.valueBuf)
	}
	m.newSkips = 0
}
