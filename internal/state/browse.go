package state

import (
	"bytes"
	"slices"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/selector"
)

const (
	// browseSteps bounds the places of a queue that one Browse looks at: most of them may be empty.
	browseSteps = 4096
	// matchSteps is what a selector costs for each message besides.
	matchSteps = 3
)

// Browser is a browser's question that is ready to be put to a Machine: its selector is decoded.
type Browser struct {
	command.Browse
	fits *selector.Selector // nil: all
}

// NewBrowser makes a question ready. An error is of a selector that this version can't read.
func NewBrowser(q command.Browse) (*Browser, error) {
	b := &Browser{Browse: q}
	if len(q.Filter) == 0 {
		return b, nil
	}
	var err error
	b.fits, err = selector.Decode(q.Filter)
	return b, err
}

// Slice answers a browser. It has a place in each lane, so that it sees also what comes with a higher priority than what it
// has seen. steps is what the answer has cost, 1 up.
func (m *Machine) Slice(b *Browser) (s command.BrowseSlice, steps int) {
	s = command.BrowseSlice{Link: b.Link, Turn: b.Turn, Next: b.After}
	a := m.byName[b.Queue]
	if a == nil || a.topic || b.Incarnation != 0 && a.inc != b.Incarnation {
		return s, 1
	}
	s.Incarnation = a.inc
	l := look{a: a, most: min(b.Most, command.MaxBrowsed), fits: b.fits}
	for at := 0; at < len(a.lanes) && !s.More; at++ {
		place := &s.Next[a.lanes[at]>>laneBits]
		seq := m.look(&l, max(*place+1, firstOf(a.lanes[at])), a.lanes[at])
		*place, s.More = seq-1, seq < a.lanes[at]
	}
	for i := range l.list {
		l.list[i].Overlay = bytes.Clone(l.list[i].Overlay)
	}
	s.Messages = l.list
	return s, l.steps + 1
}

// Browse appends to dst messages of a queue, held ones included, behind the position after (0: from the beginning), in the order in which they are handed out,
// until it has most of them or has looked at so many places that the others have waited long enough: it is one slice [4.7]. next is what the following call
// passes as after; more says that there may be more. ok is false where there is no queue of that name, or it isn't inc (0: any).
// Overlays are borrowed.
func (m *Machine) Browse(dst []command.Browsed, name string, inc command.Incarnation, after uint64, most int) (list []command.Browsed, of command.Incarnation, next uint64, more, ok bool) {
	a := m.byName[name]
	if a == nil || inc != 0 && a.inc != inc {
		return dst, 0, after, false, false
	}
	next = after
	l := look{a: a, list: dst, most: most}
	for at := a.laneFrom(after); at < len(a.lanes); at++ {
		from := firstOf(a.lanes[at])
		if after != 0 && after>>laneBits == from>>laneBits {
			from = after + 1
		}
		seq := m.look(&l, from, a.lanes[at])
		if seq > from {
			next = seq - 1
		}
		if seq < a.lanes[at] {
			return l.list, a.inc, next, true, true
		}
	}
	return l.list, a.inc, next, false, true
}

// look is one look at a queue: what it may still find and what it has.
type look struct {
	a     *address
	fits  *selector.Selector // nil: all
	list  []command.Browsed
	most  int
	steps int
}

// look goes on from a number to before another of the same lane, and gives the first that it has not looked at.
func (m *Machine) look(l *look, seq, to uint64) uint64 {
	for ; seq < to && l.most > 0 && l.steps < browseSteps; l.steps++ {
		if m.chunk(l.a, seq>>chunkBits) == 0 {
			seq = min((seq>>chunkBits+1)<<chunkBits, to)
			continue
		}
		if mi := m.find(l.a, seq); mi != 0 && !m.purged(l.a.queue, seq, mi) && m.messages.at(mi).size&flagDelayed == 0 {
			m.show(l, seq, mi)
		}
		seq++
	}
	return seq
}

// show adds a message to what a look has found, if it fits and has not expired.
func (m *Machine) show(l *look, seq uint64, mi uint32) {
	x := m.browsed(l.a.queue, seq, mi)
	if !x.Held && m.expired(mi) {
		return // its going is a matter of work
	}
	if l.fits != nil {
		fits := m.matches(l.fits, mi, x.Count)
		l.steps += matchSteps + len(m.headBuf)/headPerStep
		if !fits {
			return
		}
	}
	l.list = append(l.list, x)
	l.most--
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

func (m *Machine) browsed(s *subscription, seq uint64, mi uint32) command.Browsed {
	b := command.Browsed{Position: seq, Overlay: m.overlays[mi]}
	if di := m.deliveryOf(s, mi); di != 0 {
		d := m.deliveries.at(di)
		b.Count, b.Held = d.count, d.link != 0
	}
	return b
}
