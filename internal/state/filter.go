package state

import (
	"bytes"
	"slices"

	"github.com/oncemq/oncemq/internal/selector"
)

// filter is a link's selector, and how far it has looked: what waits below scan doesn't fit, but for matched.
type filter struct {
	encoded  []byte
	selector *selector.Selector
	scan     uint64
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
	return &filter{encoded: bytes.Clone(encoded), selector: s, scan: 1}, nil
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
		return seq >= s.cursor
	}
	d := m.deliveries.at(di)
	return d.link == 0 && d.gen == s.purgeGen
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
	if d := m.deliveries.at(di); d.link != 0 || d.gen != gen {
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
	f, a := l.filter, s.address
	seq, ok = m.matched(s, l)
	before := f.scan
	for f.scan < a.next && (!ok || f.scan < seq) && steps < budget {
		n := uint64(1)
		m.headBuf = m.headBuf[:0]
		if no := f.scan >> chunkBits; m.chunk(a, no) == 0 {
			n = min((no+1)<<chunkBits, a.next) - f.scan
		} else if mi := m.find(a, f.scan); mi != 0 && m.waits(s, f.scan, mi) && m.fits(s, l, mi) {
			seq, ok = f.scan, true
			break
		} else {
			steps += len(m.headBuf) / headPerStep
		}
		f.scan += n
		steps++
	}
	if f.scan != before {
		m.markAllowance(l)
	}
	if !ok || f.scan < a.next && f.scan < seq {
		return 0, false, steps
	}
	return seq, true, steps
}

// offer lets links whose selectors have looked further know of a message that came back.
func (m *Machine) offer(s *subscription, seq uint64, mi uint32) {
	for _, l := range s.filtered {
		if l.filter.scan <= seq {
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
	slices.Sort(s.returned) // which makes it a heap
	s.returned = slices.Compact(s.returned)
}

// skipTaken brings the cursor to a message that waits, or behind all. It passes over as many as budget allows, and says how many, and whether it is there.
func (m *Machine) skipTaken(s *subscription, budget int) (skipped int, done bool) {
	a := s.address
	for s.taken > 0 && s.cursor < a.next {
		if skipped >= budget*passedPerStep {
			return skipped, false
		}
		mi := m.find(a, s.cursor)
		if mi != 0 && m.deliveryOf(s, mi) == 0 {
			break
		}
		s.cursor++
		s.taken--
		skipped++
		m.markPlace(a)
	}
	return skipped, true
}

// sameFilter says that a link has that selector.
func (l *link) sameFilter(encoded []byte) bool { return bytes.Equal(l.filter.bytes(), encoded) }

// scanned finds again what has come back below where links with selectors have looked.
func (m *loader) scanned(s *subscription) {
	for _, l := range s.filtered {
		back := func(seq uint64) {
			if seq < l.filter.scan && m.fits(s, l, m.find(s.address, seq)) {
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
