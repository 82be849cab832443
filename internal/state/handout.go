package state

import (
	"slices"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// The bound of an entry's work [4.2], and what is always left for jobs and hand-outs
// behind an entry full of commands.
const (
	maxSteps   = 10_000
	leastSteps = 1_000
)

// handOutAll ends an entry: subscriptions that may have something to hand out do, in order
// of their ids, beginning where the last entry ran out of steps. What is left waits
// for the next entry.
func (m *Machine) handOutAll(budget int) {
	m.touchPublished()
	all := m.touched
	slices.SortFunc(all, func(a, b *subscription) int { return compare(a.id, b.id) })
	first := 0
	for first < len(all) && all[first].id < m.handTurn {
		first++
	}
	m.handTurn = 0
	left := all[:0]
	order := append(append(make([]*subscription, 0, len(all)), all[first:]...), all[:first]...)
	for _, s := range order {
		used := 0
		if budget > 0 {
			used = m.handOut(s, budget)
			budget -= used
		}
		s.touched = false
		if budget <= 0 && m.canHandOut(s) {
			if m.handTurn == 0 {
				m.handTurn = s.id
				if used > 0 { // it had its turn
					m.handTurn++
				}
			}
			s.touched = true
			left = append(left, s)
		}
	}
	clear(all[len(left):])
	m.touched = left
}

func compare[T command.Incarnation | uint64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// canHandOut reports whether a link and a message for it are there, or may be: a selector has not looked at all of them.
func (m *Machine) canHandOut(s *subscription) bool {
	if s.over() {
		return false
	}
	if s.sifts() {
		return true
	}
	if s.returning > 0 {
		return false
	}
	for _, l := range s.ready {
		switch {
		case l.filter != nil:
			if _, ok := m.matched(s, l); ok || l.looksFurther() && s.waiting() > 0 {
				return true
			}
		case s.count > 0 || s.fresh() > 0:
			return true
		case slices.ContainsFunc(s.picky, func(p pickyMessage) bool { return !p.wish.has(l.id) }):
			return true
		case len(s.picky) == 0:
			return false
		}
	}
	return false
}

// nextFor is the number of the message that l, which has no selector, would get next: the lowest that waits
// and doesn't exclude it. passed counts those that do. The cursor of the first lane that has one stands on one that waits.
func (m *Machine) nextFor(s *subscription, l *link) (seq uint64, ok bool, passed int) {
	seq, ok = m.top(s)
	for at := range s.lanes {
		if s.freshIn(at) > 0 {
			if cursor := s.lanes[at].cursor; !ok || order(cursor) < order(seq) || mutant.On(mutant.ReturnedLast) {
				seq, ok = cursor, true
			}
			break
		}
	}
	for i := range s.picky {
		p := &s.picky[i]
		if ok && order(p.seq) > order(seq) {
			break
		}
		if !p.wish.has(l.id) {
			return p.seq, true, passed
		}
		passed++
	}
	return seq, ok, passed
}

// passedPerStep is how many messages passed over make a step. (A message excludes at
// most eight links, so before a hand-out at most eight links are tried in vain.)
const passedPerStep = 64

// handOut gives waiting messages to the links with an allowance, in turn, and returns
// the steps that it took, about budget at most.
func (m *Machine) handOut(s *subscription, budget int) (used int) {
	if s.over() {
		return 0
	}
	if s.sifts() {
		used = m.sift(s, budget)
	}
	if s.returning > 0 || len(s.ready) == 0 || s.sifts() {
		return used
	}
	at, _ := slices.BinarySearchFunc(s.ready, s.turn+1, func(l *link, id uint64) int { return compare(l.id, id) })
	for tried, over := 0, 0; used < budget && len(s.ready) > 0 && tried < len(s.ready); {
		if at >= len(s.ready) {
			at = 0
		}
		l := s.ready[at]
		seq, ok, steps := m.choose(s, l, &over, budget-used)
		used += steps
		if !ok {
			if l.filter == nil && len(s.picky) == 0 {
				break
			}
			at++
			tried++
			continue
		}
		tried = 0
		used++
		if mi := m.find(s.address, seq); mi != 0 && m.expired(mi) {
			m.expire(mi)
			continue
		}
		m.handTo(s, l, seq)
		s.turn = l.id
		m.markPosition(s)
		if l.messages == 0 || l.bytes == 0 {
			s.ready = slices.Delete(s.ready, at, at+1)
		} else {
			at++
		}
	}
	return used
}

// choose finds the message that l gets next, and the steps that it took to find it, at most about budget; where that is not enough there is none yet. over
// are steps of less than one.
func (m *Machine) choose(s *subscription, l *link, over *int, budget int) (seq uint64, ok bool, steps int) {
	if l.filter != nil {
		return m.nextMatch(s, l, budget)
	}
	skipped, done := m.skipTaken(s, budget)
	passed := 0
	if done {
		seq, ok, passed = m.nextFor(s, l)
	}
	for *over += passed + skipped; *over >= passedPerStep; *over -= passedPerStep {
		steps++
	}
	if !done {
		steps = max(steps, budget)
	}
	return seq, ok, steps
}

// handTo hands message seq to l.
func (m *Machine) handTo(s *subscription, l *link, seq uint64) {
	mi := m.find(s.address, seq)
	if mi == 0 {
		panic("state: a waiting message isn't there")
	}
	m.take(s, seq, mi)
	di := m.hold(l, mi)
	l.messages--
	l.bytes -= min(l.bytes, uint64(m.messages.at(mi).size&sizeMask))
	m.markAllowance(l)
	m.deliver(l, di)
}

// take takes a message out of those that wait.
func (m *Machine) take(s *subscription, seq uint64, mi uint32) {
	if m.deliveryOf(s, mi) == 0 {
		switch ln := s.lane(seq); {
		case seq == ln.cursor:
			ln.cursor++
		case seq > ln.cursor:
			ln.taken++
		default:
			panic("state: a message is handed out that doesn't wait")
		}
		return
	}
	if at, found := slices.BinarySearchFunc(s.picky, seq, pickyMessage.compare); found {
		s.picky = slices.Delete(s.picky, at, at+1)
		return
	}
	if top, ok := s.returned.top(); ok && top == seq {
		s.returned.pop()
	}
	if s.count--; s.count < 0 {
		panic("state: a message is handed out that doesn't wait")
	}
}

// deliver tells l's home of a delivery that l holds.
func (m *Machine) deliver(l *link, di uint32) {
	d := m.deliveries.at(di)
	l.told++
	d.told = l.told
	p := m.messages.at(d.message)
	e := m.tell(l.conn, command.EffectDeliver)
	e.Link = l.number
	e.Ref = command.DeliveryRef{Message: p.seq, Attempt: d.attempt}
	e.Count = d.count
	e.FirstAcquirer = d.flags&deliverySeen == 0
	e.Incarnation = l.sub.address.inc
	e.Size = p.size & sizeMask
	if p.size&flagOverlay != 0 {
		e.Overlay = m.overlays[d.message]
	}
	if p.fresh != 0 {
		e.Payload = m.dirty.created[p.fresh-1].payload
	}
}
