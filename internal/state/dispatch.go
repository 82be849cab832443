package state

import "github.com/oncemq/oncemq/internal/command"

// check finds what a command is about and whether it may happen. It reads only.
func (m *Machine) check(c command.Command, p *plan) verdict {
	if m.record.Node == 0 {
		return m.checkSystem(c)
	}
	switch c := c.(type) {
	case *command.ConnOpen:
		return m.checkConnOpen(c, p)
	case *command.ConnEnd:
		return m.onConn(c.Conn, p)
	case *command.SessionOpen:
		return m.onConn(c.Conn, p).then(func() verdict { return m.checkSessionOpen(c, p) })
	case *command.SessionEnd:
		return m.onConn(c.Conn, p).then(func() verdict { return m.onSession(c.Session, p) })
	case *command.TokenOpen:
		return m.onConn(c.Conn, p).then(func() verdict { return m.checkTokenOpen(p) })
	case *command.Outcome:
		return m.onConnOrNode(c.Conn, p).then(func() verdict { return m.checkOutcome(c, p) })
	case *command.Commit:
		return m.onConn(c.Conn, p).then(func() verdict { return m.checkCommit(c, p) })
	case *command.Rollback:
		return m.onConn(c.Conn, p).then(func() verdict { return m.checkRollback(c, p) })
	case *command.QueueCreate:
		return m.onConnOrNode(c.Conn, p).then(func() verdict { return m.checkQueueCreate(c, p) })
	case *command.QueueDelete:
		return m.onConnOrNode(c.Conn, p).then(func() verdict { return m.checkQueue(c.Name, p) })
	case *command.QueuePurge:
		return m.onConnOrNode(c.Conn, p).then(func() verdict { return m.checkQueue(c.Name, p) })
	case *command.UserPut:
		return m.checkUserPut(c, p)
	case *command.UserDelete:
		return m.checkUserDelete(c, p)
	case *command.TokenPut:
		return m.checkTokenPut(c, p)
	case *command.MemberAdd:
		return m.checkMemberAdd(c, p)
	case *command.MemberRemove:
		return m.checkMemberRemove(c, p)
	case *command.Finalize:
		return m.checkFinalize(c, p)
	case *command.SetTime:
		return m.checkSetTime(c, p)
	}
	return m.checkLinks(c, p)
}

// checkLinks is check for the commands of links.
func (m *Machine) checkLinks(c command.Command, p *plan) verdict {
	switch c := c.(type) {
	case *command.LinkOpen:
		return m.onConn(c.Conn, p).then(func() verdict { return m.checkLinkOpen(c, p) })
	case *command.SenderOpen:
		return m.onConn(c.Conn, p).then(func() verdict { return m.checkSenderOpen(c, p) })
	case *command.LinkEnd:
		return m.onLink(c.Conn, c.Link, p)
	case *command.Allow:
		return m.onLink(c.Conn, c.Link, p)
	case *command.Forget:
		return m.onLink(c.Conn, c.Link, p)
	case *command.Withdraw:
		if v := m.onConn(c.Conn, p); v != act {
			return v
		}
		p.link = p.conn.links[c.Link]
		return act
	case *command.Settle:
		if v := m.onConn(c.Conn, p); v != act {
			return v
		}
		p.link = p.conn.links[c.Link]
		return act
	case *command.Send:
		if v := m.onConn(c.Conn, p); v != act {
			return v
		}
		p.sender = p.conn.senders[c.Link]
		return m.checkSend(c, p)
	case *command.SendForget:
		return m.onSender(c.Conn, c.Link, p).then(func() verdict { return numbered(p) })
	case *command.SenderEnd:
		return m.onSenderEnd(c, p)
	}
	return ignore // a system command in a node's record
}

// then goes on where a check has found nothing in its way.
func (v verdict) then(next func() verdict) verdict {
	if v != act {
		return v
	}
	return next()
}

// onConn finds the living connection of a command; what an ended one asks for doesn't
// happen [1.4].
func (m *Machine) onConn(id command.ConnID, p *plan) verdict {
	c := m.conns[id]
	if c == nil || c.node != m.record.Node || c.epoch != m.record.Epoch {
		return ignore
	}
	p.conn = c
	return act
}

// onConnOrNode is onConn for commands that the node itself may give, with connection
// 0.
func (m *Machine) onConnOrNode(id command.ConnID, p *plan) verdict {
	if id == 0 {
		return act
	}
	return m.onConn(id, p)
}

func (m *Machine) onLink(id command.ConnID, number uint32, p *plan) verdict {
	if v := m.onConn(id, p); v != act {
		return v
	}
	if p.link = p.conn.links[number]; p.link == nil {
		return ignore
	}
	return act
}

func (m *Machine) onSender(id command.ConnID, number uint32, p *plan) verdict {
	if v := m.onConn(id, p); v != act {
		return v
	}
	if p.sender = p.conn.senders[number]; p.sender == nil {
		return ignore
	}
	return act
}

// numbered passes over what only a link with numbers can ask for.
func numbered(p *plan) verdict {
	if p.sender.stream == nil {
		return ignore
	}
	return act
}

// onSenderEnd finds what is kept for a sender link; for most nothing is.
func (m *Machine) onSenderEnd(c *command.SenderEnd, p *plan) verdict {
	if v := m.onConn(c.Conn, p); v != act {
		return v
	}
	p.sender, p.attachment = p.conn.senders[c.Link], p.conn.attached[c.Link]
	if p.sender == nil && p.attachment == nil {
		return ignore
	}
	return act
}

func (m *Machine) onSession(id command.SessionID, p *plan) verdict {
	if s := m.sessions[id]; s != nil && s.conn == p.conn {
		p.session = s
		return act
	}
	return ignore
}

// change carries out a command that its check has let through.
func (m *Machine) change(c command.Command, p *plan) {
	switch c := c.(type) {
	case *command.ConnOpen:
		m.changeConnOpen(c)
	case *command.ConnEnd:
		m.changeConnEnd(c, p)
	case *command.SessionOpen:
		m.changeSessionOpen(c, p)
	case *command.SessionEnd:
		m.changeSessionEnd(c, p)
	case *command.TokenOpen:
		m.changeTokenOpen(c, p)
	case *command.Outcome:
		m.changeOutcome(c, p)
	case *command.Commit:
		m.changeCommit(c, p)
	case *command.Rollback:
		m.changeRollback(c, p)
	case *command.QueueCreate:
		m.changeQueueCreate(c, p)
	case *command.QueueDelete:
		m.changeQueueDelete(c, p)
	case *command.QueuePurge:
		m.changeQueuePurge(c, p)
	case *command.UserPut:
		m.changeUserPut(c)
	case *command.UserDelete:
		m.changeUserDelete(c)
	case *command.TokenPut:
		m.changeTokenPut(c)
	case *command.MemberAdd:
		m.changeMemberAdd(c)
	case *command.MemberRemove:
		m.changeMemberRemove(c)
	case *command.Finalize:
		m.changeFinalize(c)
	case *command.SetTime:
		m.changeSetTime(c)
	default:
		m.changeLinks(c, p)
	}
}

// changeLinks is change for the commands of links, and the system's.
func (m *Machine) changeLinks(c command.Command, p *plan) {
	switch c := c.(type) {
	case *command.LinkOpen:
		m.changeLinkOpen(c, p)
	case *command.LinkEnd:
		m.changeLinkEnd(c, p)
	case *command.SenderOpen:
		m.changeSenderOpen(c, p)
	case *command.SenderEnd:
		m.changeSenderEnd(c, p)
	case *command.Allow:
		m.changeAllow(c, p)
	case *command.Withdraw:
		m.changeWithdraw(c, p)
	case *command.Send:
		m.changeSend(c, p)
	case *command.SendForget:
		m.changeSendForget(c, p)
	case *command.Settle:
		m.changeSettle(c, p)
	case *command.Forget:
		m.changeForget(c, p)
	default:
		m.changeSystem(c)
	}
}

// refuse answers a refused command.
func (m *Machine) refuse(c command.Command, p *plan) {
	var e *command.Effect
	switch c := c.(type) {
	case *command.ConnOpen:
		m.refuseConn(c, p)
		return
	case *command.SessionOpen:
		e = m.tell(p.conn, command.EffectSessionOpened)
		e.Request = c.Request
	case *command.LinkOpen:
		e = m.tell(p.conn, command.EffectLinkOpened)
		e.Request, e.Link = c.Request, c.Link
	case *command.SenderOpen:
		e = m.tell(p.conn, command.EffectSenderOpened)
		e.Request, e.Link = c.Request, c.Link
	case *command.Send:
		e = m.tell(p.conn, command.EffectSent)
		e.Request, e.Link, e.Number = c.Request, c.Link, c.Number
	case *command.Settle:
		e = m.tell(p.conn, command.EffectSettled)
		e.Request, e.Link, e.Refs = c.Request, c.Link, append(e.Refs, c.Refs...)
	case *command.Withdraw:
		e = m.tell(p.conn, command.EffectWithdrawn)
		e.Request, e.Link = c.Request, c.Link
	case *command.Commit:
		e = m.tell(p.conn, command.EffectDecided)
		e.Request, e.Tx = c.Request, c.Tx
	case *command.Rollback:
		e = m.tell(p.conn, command.EffectDecided)
		e.Request, e.Tx = c.Request, c.Tx
	case *command.Outcome:
		e = m.tellAsker(p.conn, command.EffectOutcome)
		e.Request, e.Tx = c.Request, c.Tx
	case *command.TokenOpen:
		e = m.tell(p.conn, command.EffectTokenOpened)
		e.Request = c.Request
	case *command.QueueCreate:
		e = m.refuseQueue(c.Request, p)
	case *command.QueueDelete:
		e = m.refuseQueue(c.Request, p)
	case *command.QueuePurge:
		e = m.refuseQueue(c.Request, p)
	case *command.Finalize:
		e = m.tellAsker(nil, command.EffectCluster)
		e.Request = c.Request
	case *command.SetTime:
		e = m.tellAsker(nil, command.EffectCluster)
		e.Request = c.Request
	default:
		if e = m.refuseOwn(c); e == nil {
			return // commands without an answer
		}
	}
	e.Refusal = p.refusal
}

// refuseOwn answers a refused command of a node itself.
func (m *Machine) refuseOwn(c command.Command) *command.Effect {
	kind, request := command.EffectMember, uint64(0)
	switch c := c.(type) {
	case *command.UserPut:
		kind, request = command.EffectUser, c.Request
	case *command.UserDelete:
		kind, request = command.EffectUser, c.Request
	case *command.TokenPut:
		request = c.Request
	case *command.MemberAdd:
		request = c.Request
	case *command.MemberRemove:
		request = c.Request
	default:
		return nil
	}
	e := m.tellAsker(nil, kind)
	e.Request = request
	return e
}

func (m *Machine) refuseQueue(request uint64, p *plan) *command.Effect {
	e := m.tellAsker(p.conn, command.EffectQueue)
	e.Request = request
	return e
}

// refuseConn answers a newcomer; the home of the one it clashes with is told to look
// whether that lives [1.5].
func (m *Machine) refuseConn(c *command.ConnOpen, p *plan) {
	m.effects = append(m.effects, command.Effect{
		Kind: command.EffectConnOpened, Node: m.record.Node, Epoch: m.record.Epoch,
		Local: c.Local, Refusal: p.refusal,
	})
	if p.clash != nil {
		m.tell(p.clash, command.EffectProbe)
	}
}
