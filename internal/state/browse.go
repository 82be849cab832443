package state

import (
	"slices"

	"github.com/oncemq/oncemq/internal/command"
)

// Browsed is a message of a queue, for who reads it without taking it [4.7].
type Browsed struct {
	// Position is its number in the queue: nobody else's in this life of the queue, and rising within a priority.
	Position uint64
	// Overlay are annotations that came since it was stored, an encoded AMQP map, nil for none; borrowed.
	Overlay []byte
	// Count is its delivery-count; Held says that a consumer has it.
	Count uint32
	Held  bool
}

// browseSteps bounds the places of a queue that one Browse looks at: most of them may be empty.
const browseSteps = 4096

// Browse appends to dst messages of a queue, held ones included, behind the position after (0: from the beginning), in the order in which they are handed out,
// until it has most of them or has looked at so many places that the others have waited long enough: it is one slice [4.7]. next is what the following call
// passes as after; more says that there may be more. ok is false where there is no queue of that name, or it isn't inc (0: any).
func (m *Machine) Browse(dst []Browsed, name string, inc command.Incarnation, after uint64, most int) (list []Browsed, of command.Incarnation, next uint64, more, ok bool) {
	a := m.byName[name]
	if a == nil || inc != 0 && a.inc != inc {
		return dst, 0, after, false, false
	}
	next = after
	for at, steps := a.laneFrom(after), 0; at < len(a.lanes); at++ {
		seq := firstOf(a.lanes[at])
		if after != 0 && after>>laneBits == seq>>laneBits {
			seq = after + 1
		}
		for ; seq < a.lanes[at]; steps++ {
			if most == 0 || steps == browseSteps {
				return dst, a.inc, next, true, true
			}
			if m.chunk(a, seq>>chunkBits) == 0 {
				seq = min((seq>>chunkBits+1)<<chunkBits, a.lanes[at])
			} else {
				if mi := m.find(a, seq); mi != 0 && !m.purged(a.queue, seq, mi) && m.messages.at(mi).size&flagDelayed == 0 {
					dst = append(dst, m.browsed(a.queue, seq, mi))
					most--
				}
				seq++
			}
			next = seq - 1
		}
	}
	return dst, a.inc, next, false, true
}

// laneFrom is the index of the lane in which a browser goes on that has come to a position, whoever made that up; 0 for one that begins.
func (a *address) laneFrom(position uint64) int {
	if position == 0 {
		return 0
	}
	at, _ := slices.BinarySearchFunc(a.lanes, position, compareLanes)
	return at
}

// purged says that a message is one of those that a purge has taken and not dropped yet.
func (m *Machine) purged(s *subscription, seq uint64, mi uint32) bool {
	di := m.deliveryOf(s, mi)
	if di == 0 {
		ln := s.lane(seq)
		return seq >= ln.from && seq < ln.to
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
