package state

import (
	"slices"

	"github.com/oncemq/oncemq/internal/command"
)

// stream is the numbers of one (session, sender link name): the transport's duplicate
// suppression (C9, [1.6]). It outlives links and connections.
type stream struct {
	object
	id      uint64 // entry index and place of its first opening
	session *session
	name    string
	last    uint64
	refused []refusedSend // outcomes other than accepted, by number
}

type refusedSend struct {
	number  uint64
	refusal *command.Refusal
	stored  bool
}

// maxRefused bounds the kept refusals of a stream; a client holds no more sends
// unsettled (wire.md).
const maxRefused = 10_000

// maxStreams bounds the numbered links of a session, attached or not.
const maxStreams = 4096

// sender is a link of a connection that state knows: it is numbered, or attached to a temporary queue, or both. Of others nothing is kept.
type sender struct {
	object
	conn    *conn
	number  uint32
	stream  *stream  // nil: not numbered
	address *address // the temporary queue that it is attached to, nil: none
}

func (s *stream) find(number uint64) (int, bool) {
	return slices.BinarySearchFunc(s.refused, number, func(r refusedSend, n uint64) int { return compare(r.number, n) })
}

func (m *Machine) checkSenderOpen(c *command.SenderOpen, p *plan) verdict {
	dynamic := c.Dynamic != command.DynamicNone
	if dynamic {
		if no := m.checkDynamic(c.Dynamic, c.Address, p.conn); no != nil {
			return p.refuse(no)
		}
	}
	if no := m.openable(p, c.Link, c.Session, c.Name, c.Address, c.Create && c.Address != "" && !dynamic, c.Routing); no != nil {
		return p.refuse(no)
	}
	if no := checkMaker(p, c.Name, true); no != nil {
		return p.refuse(no)
	}
	if c.Numbered && p.session == nil {
		return p.refuse(refusal(condNotAllowed, "a numbered link needs a resumable session"))
	}
	if c.Numbered && p.session.streams[c.Name] == nil && len(p.session.streams) >= maxStreams {
		return p.refuse(refusal(condLimit, "session %s has %d numbered links; close some", p.session.id, maxStreams))
	}
	return act
}

func (m *Machine) changeSenderOpen(c *command.SenderOpen, p *plan) {
	id := command.IndexPlace(m.index, m.place)
	a := p.address
	switch {
	case c.Dynamic != command.DynamicNone:
		a = m.addTemporary(command.Incarnation(id), p.conn, c.Link)
	case a == nil && c.Address != "":
		a = m.addAddress(command.Incarnation(id), c.Address, c.Routing)
	}
	detail := &command.SenderOpened{}
	if a != nil {
		detail.Incarnation, detail.Address = a.inc, a.name
	}
	var st *stream
	if c.Numbered {
		st = p.session.streams[c.Name]
		if st == nil {
			st = &stream{id: id, session: p.session, name: c.Name}
			m.streams[id] = st
			p.session.streams[c.Name] = st
			m.markStream(st)
		}
		for _, number := range sortedKeys(p.conn.senders) {
			if old := p.conn.senders[number]; old.stream == st {
				m.stolen(p.conn, number)
				m.endMaker(p.conn, number)
				m.dropSender(p.conn, old)
			}
		}
		detail.LastNumber = st.last
		for _, n := range c.Held {
			detail.Held = append(detail.Held, st.outcome(n))
		}
	}
	if c.Resends && !c.Numbered {
		detail.Resent = m.attachWindow(p.conn, c.Link, c.Name, c.Address)
	}
	if temporary := a != nil && a.temporary != nil; st != nil || temporary {
		s := &sender{conn: p.conn, number: c.Link, stream: st}
		p.conn.senders[c.Link] = s
		if temporary {
			s.joinTemporary(a)
		}
		m.markSender(s)
	}
	e := m.tell(p.conn, command.EffectSenderOpened)
	e.Link, e.Request = c.Link, c.Request
	e.Detail = detail
}

// outcome is a number's first outcome, if it has one.
func (s *stream) outcome(n uint64) command.SendOutcome {
	o := command.SendOutcome{Number: n}
	if at, found := s.find(n); found {
		o.Refusal = s.refused[at].refusal
	} else {
		o.Stored = n <= s.last
	}
	return o
}

func (m *Machine) dropSender(c *conn, s *sender) {
	s.leaveTemporary()
	delete(c.senders, s.number)
	s.gone = true
	m.markSender(s)
}

// changeSenderEnd forgets what is kept for a sender link, if it doesn't come back, and the temporary queue that it has made.
func (m *Machine) changeSenderEnd(c *command.SenderEnd, p *plan) {
	if p.attachment != nil {
		m.endAttachment(p.attachment, c.Closed)
	}
	x := p.sender
	if x == nil {
		return
	}
	m.endMaker(x.conn, x.number)
	switch {
	case x.gone: // with the queue that it had made
	case x.stream != nil:
		m.dropStream(x.stream)
	default:
		m.dropSender(x.conn, x)
	}
}

// dropStream forgets a link's numbers.
func (m *Machine) dropStream(st *stream) {
	if c := st.session.conn; c != nil {
		for _, number := range sortedKeys(c.senders) {
			if s := c.senders[number]; s.stream == st {
				m.dropSender(c, s)
			}
		}
	}
	delete(st.session.streams, st.name)
	delete(m.streams, st.id)
	if len(st.refused) < manyKeys {
		for len(st.refused) > 0 {
			m.forgetRefusal(st, len(st.refused)-1)
			m.steps++
		}
	} else {
		m.deleteUnder(keyRefusal, st.id)
		m.kept -= refusalCost * uint64(len(st.refused))
	}
	st.gone = true
	m.markStream(st)
	m.steps++
}

// refuseSend keeps a refusal until the client has settled it.
func (m *Machine) refuseSend(st *stream, number uint64, no *command.Refusal) {
	if len(st.refused) >= maxRefused {
		m.forgetRefusal(st, 0)
	}
	at, found := st.find(number)
	if found {
		return
	}
	st.refused = slices.Insert(st.refused, at, refusedSend{number: number, refusal: no})
	m.kept += refusalCost
	m.dirty.refusals = append(m.dirty.refusals, refusalAt{st, number})
}

func (m *Machine) forgetRefusal(st *stream, at int) {
	if st.refused[at].stored {
		m.deleteNumbered(keyRefusal, st.id, st.refused[at].number)
	}
	st.refused = slices.Delete(st.refused, at, at+1)
	m.kept -= refusalCost
}

func (m *Machine) changeSendForget(c *command.SendForget, p *plan) {
	st := p.sender.stream
	for _, n := range c.Numbers {
		if at, found := st.find(n); found {
			m.forgetRefusal(st, at)
			m.steps++
		}
	}
}

// sender is for what is kept of sender links.
func (m *loader) sender(kind byte, k, v *fields) error {
	if kind == keyWindow || kind == keyStoredID {
		return m.window(kind, k, v)
	}
	return m.stream(kind, k, v)
}

func (m *loader) stream(kind byte, k, v *fields) error {
	switch id := k.be64(); kind {
	case keyStream:
		s := m.sessions[v.session()]
		if s == nil {
			return missing("the session")
		}
		st := &stream{object: object{stored: true}, id: id, session: s, last: v.uint(), name: v.string()}
		s.streams[st.name], m.streams[id] = st, st
	case keyRefusal:
		st := m.streams[id]
		if st == nil {
			return missing("the sender link")
		}
		r := refusedSend{number: k.be64(), refusal: &command.Refusal{Condition: v.string(), Description: v.string()}, stored: true}
		st.refused = append(st.refused, r)
		m.kept += refusalCost
	case keySender:
		return m.senderLink(command.ConnID(id), k, v)
	}
	return nil
}
