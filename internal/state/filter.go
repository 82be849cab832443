package state

import (
	"bytes"
	"slices"

	"github.com/oncemq/oncemq/internal/selector"
)

// filter is a link's selector, and how far it has looked in each lane: what waits below scan doesn't fit, but for matched.
type filter struct {
	encoded  []byte
	selector *selector.Selector
	scan     []uint64
	// matched are messages below scan that came back and fit, and old entries besides.
	matched seqHeap
}

// newFilter is nil for an empty one. Errors are of what this version can't read: its home would have to be a newer one.
func newFilter(encoded []byte) (*filter, error) {
	if len(encoded) == 0 {
		return nil, nil
	}
	s, err := selector.Decode(encoded)
	if err != nil {
		return nil, err
	}
	return &filter{encoded: bytes.Clone(encoded), selector: s}, nil
}

// begin makes the filter look from the beginning.
func (f *filter) begin(a *address) {
	f.scan, f.matched = f.scan[:0], nil
	for _, next := range a.lanes {
		f.scan = append(f.scan, firstOf(next))
	}
}

// bytes are the encoded filter, nil of none.
func (f *filter) bytes() []byte {
	if f == nil {
		return nil
	}
	return f.encoded
}

// waits says that a message of the address waits in s.
func (m *Machine) waits(s *subscription, seq uint64, mi uint32) bool {
	di := m.deliveryOf(s, mi)
	if di == 0 {
		return seq >= s.lane(seq).cursor
	}
	d := m.deliveries.at(di)
	return d.link == 0 && d.gen == s.purgeGen && d.flags&deliveryDelayed == 0
}

// givenBack is the delivery of a message that was given back when the purge generation was gen, and that nobody has taken since; else 0.
func (m *Machine) givenBack(s *subscription, seq uint64, gen uint32) uint32 {
	mi := m.find(s.address, seq)
	if mi == 0 {
		return 0
	}
	di := m.deliveryOf(s, mi)
	if di == 0 {
		return 0
	}
	if d := m.deliveries.at(di); d.link != 0 || d.gen != gen || d.flags&deliveryDelayed != 0 {
		return 0
	}
	return di
}

// headPerStep is how many bytes of a head a selector reads as one step.
const headPerStep = 4096

// fits says that a message that waits may go to l.
func (m *Machine) fits(s *subscription, l *link, mi uint32) bool {
	count := uint32(0)
	if di := m.deliveryOf(s, mi); di != 0 {
		if e, ok := m.excluded[di]; ok && e.has(l.id) {
			return false
		}
		count = m.deliveries.at(di).count
	}
	return m.matches(l.filter.selector, mi, count)
}

// matched is the lowest message below l's scan that waits and fits.
func (m *Machine) matched(s *subscription, l *link) (seq uint64, ok bool) {
	f := l.filter
	for {
		if seq, ok = f.matched.top(); !ok {
			return 0, false
		}
		if di := m.givenBack(s, seq, s.purgeGen); di != 0 {
			if e, picky := m.excluded[di]; !picky || !e.has(l.id) {
				return seq, true
			}
		}
		f.matched.pop() // an old entry
	}
}

// nextMatch is the message that l gets next: the lowest that waits and fits. It looks at about budget messages at most, each a step, and goes on behind them
// the next time.
func (m *Machine) nextMatch(s *subscription, l *link, budget int) (seq uint64, ok bool, steps int) {
	seq, ok = m.matched(s, l)
	for at := range l.filter.scan {
		if ok && order(l.filter.scan[at]) >= order(seq) {
			break
		}
		var done bool
		if done, steps = m.scanLane(s, l, at, &seq, &ok, steps, budget); !done {
			return 0, false, steps
		}
	}
	return seq, ok, steps
}

// scanLane is nextMatch for one lane: seq and ok become the message found there if that comes first. It isn't done if the budget is used up.
func (m *Machine) scanLane(s *subscription, l *link, at int, seq *uint64, ok *bool, steps, budget int) (done bool, used int) {
	a, scan := s.address, &l.filter.scan[at]
	for before := *scan; ; steps++ {
		if *scan != before {
			m.markAllowance(l)
		}
		if *scan >= a.lanes[at] || *ok && order(*scan) >= order(*seq) {
			return true, steps
		}
		if steps >= budget {
			return false, steps
		}
		n := uint64(1)
		m.headBuf = m.headBuf[:0]
		if no := *scan >> chunkBits; m.chunk(a, no) == 0 {
			n = min((no+1)<<chunkBits, a.lanes[at]) - *scan
		} else if mi := m.find(a, *scan); mi != 0 && m.waits(s, *scan, mi) && m.fits(s, l, mi) {
			*seq, *ok = *scan, true
			return true, steps
		} else {
			steps += len(m.headBuf) / headPerStep
		}
		*scan += n
	}
}

// looksFurther says that l's selector hasn't looked at all that is there.
func (l *link) looksFurther() bool {
	for at, scan := range l.filter.scan {
		if scan < l.sub.address.lanes[at] {
			return true
		}
	}
	return false
}

// offer lets links whose selectors have looked further know of a message that came back.
func (m *Machine) offer(s *subscription, seq uint64, mi uint32) {
	for _, l := range s.filtered {
		if l.filter.scan[s.address.laneAt(seq)] <= seq {
			continue
		}
		m.headBuf = m.headBuf[:0]
		fits := m.fits(s, l, mi)
		m.steps += 1 + len(m.headBuf)/headPerStep
		if fits {
			l.filter.matched.push(seq)
		}
	}
}

// top is the lowest message given back. Old entries, of what links with selectors have taken from among the others, go.
func (m *Machine) top(s *subscription) (seq uint64, ok bool) {
	for {
		if seq, ok = s.returned.top(); !ok || len(s.returned) == s.count || m.returns(s, seq) {
			return seq, ok
		}
		s.returned.pop()
	}
}

// returns says that an entry of returned is true.
func (m *Machine) returns(s *subscription, seq uint64) bool {
	di := m.givenBack(s, seq, s.purgeGen)
	return di != 0 && m.excluded[di].n == 0
}

// putReturned makes a message one of those given back.
func (m *Machine) putReturned(s *subscription, seq uint64) {
	s.returned.push(seq)
	s.count++
	if len(s.returned) <= 2*s.count+64 {
		return
	}
	s.returned = slices.DeleteFunc(s.returned, func(seq uint64) bool { return !m.returns(s, seq) })
	slices.SortFunc(s.returned, byOrder) // which makes it a heap
	s.returned = slices.Compact(s.returned)
}

// skipTaken brings the cursors to messages that wait, or behind all, as far as the first lane with one. It passes over as many as budget allows, and says
// how many, and whether it is there.
func (m *Machine) skipTaken(s *subscription, budget int) (skipped int, done bool) {
	a := s.address
	for at := range s.lanes {
		ln := &s.lanes[at]
		for ln.taken > 0 && ln.cursor < a.lanes[at] {
			if skipped >= budget*passedPerStep {
				return skipped, false
			}
			mi := m.find(a, ln.cursor)
			if mi != 0 && m.deliveryOf(s, mi) == 0 {
				break
			}
			m.passed(s, mi)
			ln.cursor++
			ln.taken--
			skipped++
			m.markPosition(s)
		}
		if ln.cursor < a.lanes[at] {
			break
		}
	}
	return skipped, true
}

// sameFilter says that a link has that selector.
func (l *link) sameFilter(encoded []byte) bool { return bytes.Equal(l.filter.bytes(), encoded) }

// scanned finds again what has come back below where links with selectors have looked.
func (m *loader) scanned(s *subscription) {
	for _, l := range s.filtered {
		back := func(seq uint64) {
			if seq < l.filter.scan[s.address.laneAt(seq)] && m.fits(s, l, m.find(s.address, seq)) {
				l.filter.matched.push(seq)
			}
		}
		for _, seq := range s.returned {
			back(seq)
		}
		for i := range s.picky {
			back(s.picky[i].seq)
		}
	}
}
