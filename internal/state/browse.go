package state

import "github.com/oncemq/oncemq/internal/command"

// Browsed is a message of a queue, for who reads it without taking it [4.7].
type Browsed struct {
	// Position is its number in the queue: it rises, and is nobody else's in this life of the queue.
	Position uint64
	// Overlay are annotations that came since it was stored, an encoded AMQP map, nil for none; borrowed.
	Overlay []byte
	// Count is its delivery-count; Held says that a consumer has it.
	Count uint32
	Held  bool
}

// browseSteps bounds the places of a queue that one Browse looks at: most of them may be empty.
const browseSteps = 4096

// Browse appends to dst messages of a queue, held ones included, with positions above after, ascending, until it has most of them or
// has looked at so many places that the others have waited long enough: it is one slice [4.7]. next is what the following call
// passes as after; more says that there may be more. ok is false where there is no queue of that name, or it isn't inc (0: any).
func (m *Machine) Browse(dst []Browsed, name string, inc command.Incarnation, after uint64, most int) (list []Browsed, of command.Incarnation, next uint64, more, ok bool) {
	a := m.byName[name]
	if a == nil || inc != 0 && a.inc != inc {
		return dst, 0, after, false, false
	}
	seq := after + 1
	for steps := 0; seq < a.next; steps++ {
		if most == 0 || steps == browseSteps {
			return dst, a.inc, seq - 1, true, true
		}
		if m.chunk(a, seq>>chunkBits) == 0 {
			seq = (seq>>chunkBits + 1) << chunkBits
			continue
		}
		if mi := m.find(a, seq); mi != 0 && !m.purged(a.queue, seq, mi) {
			dst = append(dst, m.browsed(a.queue, seq, mi))
			most--
		}
		seq++
	}
	return dst, a.inc, max(after, a.next-1), false, true
}

// purged says that a message is one of those that a purge has taken and not dropped yet.
func (m *Machine) purged(s *subscription, seq uint64, mi uint32) bool {
	di := m.deliveryOf(s, mi)
	if di == 0 {
		return seq >= s.purgeFrom && seq < s.purgeTo
	}
	d := m.deliveries.at(di)
	return d.link == 0 && d.gen != s.purgeGen
}

func (m *Machine) browsed(s *subscription, seq uint64, mi uint32) Browsed {
	b := Browsed{Position: seq, Overlay: m.overlays[mi]}
	if di := m.deliveryOf(s, mi); di != 0 {
		d := m.deliveries.at(di)
		b.Count, b.Held = d.count, d.link != 0
	}
	return b
}
