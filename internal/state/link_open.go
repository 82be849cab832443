package state

import (
	"bytes"
	"cmp"

	"github.com/oncemq/oncemq/internal/command"
)

func (m *Machine) checkLinkOpen(c *command.LinkOpen, p *plan) verdict {
	dynamic := c.Dynamic != command.DynamicNone
	if c.Address == "" && c.Subscription.Name == "" && !dynamic {
		return p.refuse(refusal(condInvalid, "a consumer needs an address"))
	}
	if dynamic {
		if no := m.checkDynamic(c.Dynamic, c.Address, p.conn); no != nil {
			return p.refuse(no)
		}
	}
	if no := m.openable(p, c.Link, c.Session, c.Name, c.Address, c.Create && c.Address != "" && !dynamic, c.Routing); no != nil {
		return p.refuse(no)
	}
	if no := cmp.Or(checkOwner(p.address, p.conn), checkMaker(p, c.Name, false)); no != nil {
		return p.refuse(no)
	}
	var err error
	if p.filter, err = newFilter(c.Filter); err != nil {
		return p.refuse(refusal(condInvalid, "the selector can't be read: %v", err))
	}
	var no *command.Refusal
	switch {
	case dynamic:
	case c.Address == "":
		no = m.checkFind(c, p)
	case p.address == nil && c.Routing == command.Multicast || p.address != nil && p.address.topic:
		no = m.checkSubscribe(c, p)
	}
	if no != nil {
		return p.refuse(no)
	}
	return act
}

func (m *Machine) changeLinkOpen(c *command.LinkOpen, p *plan) {
	id := command.IndexPlace(m.index, m.place)
	a := p.address
	switch {
	case c.Dynamic != command.DynamicNone:
		a = m.addTemporary(command.Incarnation(id), p.conn, c.Link)
	case a == nil:
		a = m.addAddress(command.Incarnation(id), c.Address, c.Routing)
	}
	l := m.resumed(a, c, p)
	if l == nil {
		l = m.openLink(id, a, c, p)
	}
	if s := p.session; s != nil {
		if r := s.results[c.Name]; r != nil && !c.Resume {
			m.dropResults(r)
		}
	}
	m.markLink(l)
	e := m.tell(p.conn, command.EffectLinkOpened)
	e.Link, e.Request = c.Link, c.Request
	detail := &command.LinkOpened{Incarnation: a.inc, Address: a.name, Resumed: m.resume(l, c), Routing: a.routing()}
	if a.topic {
		detail.Subscription, detail.Filter = l.sub.is, l.sub.filter.bytes()
	}
	e.Detail = detail
	m.sendUnseen(l) // a new link holds nothing
}

// openLink makes a link.
func (m *Machine) openLink(id uint64, a *address, c *command.LinkOpen, p *plan) *link {
	l := &link{id: id, sub: a.queue, conn: p.conn, number: c.Link, session: p.session, name: c.Name, presettled: c.Presettled, filter: p.filter}
	if a.topic {
		l.sub, l.filter = m.subscribe(a, c, p), nil
	}
	m.addLink(l)
	if l.session != nil {
		l.session.links[l.name] = l
	}
	return l
}

// resumed is the session's link of that name, attached anew. One that isn't what the client resumes ends.
func (m *Machine) resumed(a *address, c *command.LinkOpen, p *plan) *link {
	if p.session == nil {
		return nil
	}
	old := p.session.links[c.Name]
	if old == nil {
		return nil
	}
	same := old.sub == a.queue && old.sameFilter(c.Filter)
	if a.topic {
		same = old.sub.address == a && !old.sub.over() && old.sub.is == wanted(c.Subscription) && bytes.Equal(old.sub.filter.bytes(), c.Filter)
	}
	if c.Resume && !c.Presettled && !old.presettled && same {
		if old.conn != nil && !old.ended {
			m.stolen(old.conn, old.number)
		}
		m.adopt(old, p.conn, c.Link)
		return old
	}
	if s := p.subscription; s != nil { // which the newcomer wants
		s.refs++
		defer func() { s.refs-- }()
	}
	m.replaceLink(old)
	return nil
}

// adopt attaches a session's link to a connection anew, with what it holds.
func (m *Machine) adopt(l *link, c *conn, number uint32) {
	m.unlinkConn(l)
	m.setAllowance(l, 0, 0)
	if l.ended {
		l.ended = false
		m.joinSubscription(l)
	}
	l.conn, l.number, l.lost, l.told = c, number, 0, 0
	c.links[number] = l
	m.markAllowance(l)
}
