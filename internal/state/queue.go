package state

import (
	"slices"

	"github.com/oncemq/oncemq/internal/command"
)

func (m *Machine) checkQueueCreate(c *command.QueueCreate, p *plan) verdict {
	if p.queue = m.byName[c.Name]; p.queue != nil {
		return act
	}
	if !validName(c.Name) {
		return p.refuse(refusal(condNotAllowed,
			"%.300q can't be the name of a queue: 1 to 255 bytes of UTF-8 without control characters, no $ in front", c.Name))
	}
	if m.place > lastPlace {
		return p.refuse(refusal(condLimit, "too many commands in one entry; try again"))
	}
	return act
}

func (m *Machine) changeQueueCreate(c *command.QueueCreate, p *plan) {
	existed := p.queue != nil
	q := p.queue
	if !existed {
		q = m.addQueue(command.Incarnation(command.IndexPlace(m.index, m.place)), c.Name)
	}
	e := m.tellAsker(p.conn, command.EffectQueue)
	e.Request, e.Existed, e.Incarnation = c.Request, existed, q.inc
}

// checkQueue is for delete and purge.
func (m *Machine) checkQueue(name string, p *plan) verdict {
	if p.queue = m.byName[name]; p.queue == nil {
		return p.refuse(refusal(condNotFound, "there is no queue %.300q", name))
	}
	return act
}

// changeQueueDelete makes the queue unreachable at once; a job takes its messages away
// [4.2].
func (m *Machine) changeQueueDelete(c *command.QueueDelete, p *plan) {
	q := p.queue
	removed := q.waiting() + q.sub.inFlight
	q.dying = true
	delete(m.byName, q.name)
	m.markQueue(q)
	for _, l := range m.linksOf(q) {
		if l.conn != nil && !l.ended {
			e := m.tell(l.conn, command.EffectLinkEnded)
			e.Link = l.number
			e.Refusal = refusal(condDeleted, "queue %q was deleted", q.name)
		}
		m.unlinkConn(l)
		if s := l.session; s != nil && s.links[l.name] == l {
			delete(s.links, l.name)
		}
		removeLink(&m.ending, l)
		l.first, l.last, l.held = 0, 0, 0
		m.dropLink(l)
		m.steps++
	}
	q.sub.links, q.sub.ready, q.sub.returning, q.sub.inFlight = nil, nil, 0, 0
	q.sub.returned, q.sub.picky, q.sub.doomed = nil, nil, nil
	q.sub.purgeFrom, q.sub.purgeTo = 1, q.next
	m.markPlace(q)
	m.work(q)
	e := m.tellAsker(p.conn, command.EffectQueue)
	e.Request, e.Incarnation, e.Number = c.Request, q.inc, removed
}

// linksOf is every link of q, those that have ended and still hold something too, by
// id.
func (m *Machine) linksOf(q *queue) []*link {
	var all []*link
	for _, l := range m.links {
		if l != nil && l.queue == q {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *link) int { return compare(a.id, b.id) })
	return all
}

// work puts q among those with a job.
func (m *Machine) work(q *queue) {
	at, found := slices.BinarySearchFunc(m.working, q.inc, func(x *queue, inc command.Incarnation) int { return compare(x.inc, inc) })
	if !found {
		m.working = slices.Insert(m.working, at, q)
	}
}

// changeQueuePurge takes all waiting messages out of reach at once; a job drops them
// [4.2]. What comes, or comes back, later isn't touched.
func (m *Machine) changeQueuePurge(c *command.QueuePurge, p *plan) {
	q := p.queue
	s := &q.sub
	removed := q.waiting()
	for _, p := range s.picky {
		delete(m.excluded, m.messages.at(m.find(q, p.seq)).delivery)
		s.returned.push(p.seq)
	}
	s.picky = nil
	if len(s.returned) > 0 {
		s.doomed = append(s.doomed, doomedHeap{s.purgeGen, s.returned})
	}
	s.returned = nil
	s.purgeGen++
	if s.purgeFrom >= s.purgeTo {
		s.purgeFrom = s.cursor
	}
	s.cursor, s.purgeTo = q.next, q.next
	m.markPlace(q)
	if removed > 0 {
		m.work(q)
	}
	e := m.tellAsker(p.conn, command.EffectQueue)
	e.Request, e.Incarnation, e.Number = c.Request, q.inc, removed
}
