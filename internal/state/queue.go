package state

import (
	"slices"

	"github.com/oncemq/oncemq/internal/command"
)

func (m *Machine) checkQueueCreate(c *command.QueueCreate, p *plan) verdict {
	if p.address = m.byName[c.Name]; p.address != nil {
		if is := p.address.routing(); c.Routing != command.AnyRouting && c.Routing != is {
			return p.refuse(refusal(condNotAllowed, "%q is a %s, no %s", c.Name, is, c.Routing))
		}
		return act
	}
	if c.Routing == command.Multicast && isDead(c.Name) {
		return p.refuse(refusal(condNotAllowed, "%.300q can't be the name of a topic: dead letters have a queue", c.Name))
	}
	if !validName(c.Name) {
		return p.refuse(refusal(condNotAllowed,
			"%.300q can't be the name of a queue: 1 to 255 bytes of UTF-8 without control characters, no $, temp-queue: or temp-topic: in front", c.Name))
	}
	if m.place > lastPlace {
		return p.refuse(refusal(condLimit, "too many commands in one entry; try again"))
	}
	return act
}

func (m *Machine) changeQueueCreate(c *command.QueueCreate, p *plan) {
	existed := p.address != nil
	a := p.address
	if !existed {
		a = m.addAddress(command.Incarnation(command.IndexPlace(m.index, m.place)), c.Name, c.Routing)
	}
	e := m.tellAsker(p.conn, command.EffectQueue)
	e.Request, e.Existed, e.Incarnation = c.Request, existed, a.inc
}

// checkQueue is for delete and purge.
func (m *Machine) checkQueue(name string, p *plan) verdict {
	if p.address = m.byName[name]; p.address == nil {
		return p.refuse(refusal(condNotFound, "there is no queue %.300q", name))
	}
	return act
}

// changeQueueDelete makes the queue unreachable at once; a job takes its messages away
// [4.2].
func (m *Machine) changeQueueDelete(c *command.QueueDelete, p *plan) {
	a := p.address
	removed := a.info().Depth
	m.removeAddress(a, func(*conn, uint32) bool { return true })
	e := m.tellAsker(p.conn, command.EffectQueue)
	e.Request, e.Incarnation, e.Number = c.Request, a.inc, removed
}

// removeAddress deletes a queue with its links, of which those hear of it that told says. No transaction or link can reach it any more.
func (m *Machine) removeAddress(a *address, told func(c *conn, link uint32) bool) {
	s := a.queue
	a.dying = true
	delete(m.byName, a.name)
	m.markAddress(a)
	m.dropTemporary(a, told)
	a.living = 0
	m.working = slices.DeleteFunc(m.working, func(x *subscription) bool { return x.address == a })
	for _, sub := range a.subs {
		if m.named[sub.key] == sub {
			delete(m.named, sub.key)
		}
		sub.links, sub.ready, sub.returning, sub.inFlight = nil, nil, 0, 0
		sub.returned, sub.picky, sub.doomed, sub.count = nil, nil, nil, 0
	}
	all := a.all
	a.all = nil // at once: each out of its midst costs too much where they are many
	for _, l := range all {
		if l.conn != nil && !l.ended && told(l.conn, l.number) {
			m.tellDeleted(l.conn, l.number, a)
		}
		m.unlinkConn(l)
		if of := l.session; of != nil && of.links[l.name] == l {
			delete(of.links, l.name)
		}
		removeLink(&m.ending, l)
		l.first, l.last, l.held = 0, 0, 0
		m.dropLink(l)
		m.steps++
	}
	s.links, s.ready, s.filtered, s.returning, s.inFlight = nil, nil, nil, 0, 0
	s.returned, s.picky, s.doomed, s.count = nil, nil, nil, 0
	for i, next := range a.lanes {
		s.lanes[i] = lane{cursor: s.lanes[i].cursor, from: firstOf(next), to: next}
	}
	m.markPlace(a)
	if a.depth == 0 && !a.topic { // no reason to wait behind the jobs of others
		m.forgetAddress(a)
		return
	}
	m.work(s)
}

// work puts s among those with a job.
func (m *Machine) work(s *subscription) {
	if at, found := m.jobOf(s); !found {
		m.working = slices.Insert(m.working, at, s)
	}
}

// jobOf is the place of s among those with a job, and whether it is there.
func (m *Machine) jobOf(s *subscription) (at int, found bool) {
	return slices.BinarySearchFunc(m.working, s.id, func(x *subscription, id uint64) int { return compare(x.id, id) })
}

// changeQueuePurge takes all waiting messages out of reach at once; a job drops them
// [4.2]. What comes, or comes back, later isn't touched.
func (m *Machine) changeQueuePurge(c *command.QueuePurge, p *plan) {
	a := p.address
	removed := uint64(0)
	if !a.topic {
		removed = m.purge(a.queue)
	}
	for _, s := range a.subs {
		if !s.dying {
			removed += m.purge(s)
		}
	}
	e := m.tellAsker(p.conn, command.EffectQueue)
	e.Request, e.Incarnation, e.Number = c.Request, a.inc, removed
}

// purge takes all that waits in s out of reach, and says how many.
func (m *Machine) purge(s *subscription) uint64 {
	a := s.address
	removed := s.waiting() + s.delayed
	s.delayed = 0 // they go when they arrive
	for _, p := range s.picky {
		delete(m.excluded, m.deliveryOf(s, m.find(a, p.seq)))
		s.returned.push(p.seq)
		s.count++
	}
	s.picky = nil
	if s.count > 0 {
		s.doomed = append(s.doomed, doomedHeap{s.purgeGen, s.returned})
	}
	s.returned, s.count = nil, 0
	for _, l := range s.filtered {
		l.filter.matched = nil
	}
	s.purgeGen++
	for i, next := range a.lanes {
		ln := &s.lanes[i]
		if s.slot != 0 { // other subscriptions have the messages too: the cursor itself passes over them
			ln.to = next
			continue
		}
		if ln.from >= ln.to {
			ln.from = ln.cursor
		}
		ln.cursor, ln.to, ln.taken = next, next, 0
	}
	m.markPosition(s)
	if s.slot != 0 {
		m.touch(s)
	}
	if s.purging() || len(s.doomed) > 0 {
		m.work(s)
	}
	return removed
}
