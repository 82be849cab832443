package state

import (
	"fmt"
	"slices"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// clientKey names a client: what outlives a connection belongs to it [1.5].
type clientKey struct{ principal, container string }

// client is what a client has here. It is derived: nothing of it is stored.
type client struct {
	key      clientKey
	conns    []*conn // live, by id
	sessions map[clientNonce]*session
	windows  map[windowKey]*window
	grace    []*session // without a connection, deliveries reserved; by id
}

// clientNonce is a session's key within its client: nonce of the client process, and
// of the opening.
type clientNonce struct{ process, open [16]byte }

// conn is a live connection [1.4].
type conn struct {
	object
	id       command.ConnID
	node     command.NodeID
	epoch    command.Epoch
	local    uint64
	client   *client
	nonce    [16]byte
	attempt  uint32
	sole     bool
	links    map[uint32]*link
	senders  map[uint32]*sender
	attached map[uint32]*attachment // of links with resend windows
	sessions []*session             // open on it, by id
	// temporary are its temporary queues, by incarnation.
	temporary []*address
}

// Conditions of refusals (AMQP 1.0 section 2.8.15 and part 4).
const (
	condInternal       = "amqp:internal-error"
	condNotImplemented = "amqp:not-implemented"
	condNotFound       = "amqp:not-found"
	condUnauthorized   = "amqp:unauthorized-access"
	condNotAllowed     = "amqp:not-allowed"
	condPrecondition   = "amqp:precondition-failed"
	condInvalid        = "amqp:invalid-field"
	condIllegal        = "amqp:illegal-state"
	condLimit          = "amqp:resource-limit-exceeded"
	condDeleted        = "amqp:resource-deleted"
	condLocked         = "amqp:resource-locked"
	condForced         = "amqp:connection:forced"
	condStolen         = "amqp:link:stolen"
	condTooLarge       = "amqp:link:message-size-exceeded"
)

func refusal(condition, format string, args ...any) *command.Refusal {
	return &command.Refusal{Condition: condition, Description: fmt.Sprintf(format, args...)}
}

var noNonce [16]byte

// checkConnOpen [1.4, 1.5].
func (m *Machine) checkConnOpen(c *command.ConnOpen, p *plan) verdict {
	if m.place > lastPlace {
		return p.refuse(refusal(condLimit, "too many commands in one entry; open the connection again"))
	}
	if len(c.Principal) > 1024 || len(c.ContainerID) > 4096 {
		return p.refuse(refusal(condInvalid, "container-id or user name of %d bytes is too long",
			max(len(c.Principal), len(c.ContainerID))))
	}
	if !m.mayOpen(c.Principal) {
		return p.refuse(refusal(condUnauthorized, "there is no user %.300q any more", c.Principal))
	}
	cl := m.clients[clientKey{c.Principal, c.ContainerID}]
	if cl == nil {
		return act
	}
	for _, old := range cl.conns {
		same := c.Nonce != noNonce && old.nonce == c.Nonce
		switch {
		case same && c.Attempt < old.attempt:
			return p.refuse(refusal(condForced,
				"attempt %d of this client comes behind its attempt %d, which is connected", c.Attempt, old.attempt))
		case !same && c.SoleConnection && old.sole:
			p.clash = old
			return p.refuse(refusal(condInvalid, "container-id %.300q is in use by another connection", c.ContainerID))
		}
	}
	return act
}

func (m *Machine) changeConnOpen(c *command.ConnOpen) {
	cl := m.client(clientKey{c.Principal, c.ContainerID})
	if c.Nonce != noNonce {
		m.supersede(cl, c.Nonce)
	}
	n := &conn{
		id: command.ConnID(command.IndexPlace(m.index, m.place)), node: m.record.Node, epoch: m.record.Epoch, local: c.Local,
		client: cl, nonce: c.Nonce, attempt: c.Attempt, sole: c.SoleConnection,
	}
	m.addConn(n)
	m.markConn(n)
	e := m.tell(n, command.EffectConnOpened)
	e.Detail = &command.ConnOpened{Conn: n.id}
}

// supersede ends the former connection of the same client process, without a report
// of its home (C8: all that was computed for it counts), and the grace of the
// client's former processes (C6).
func (m *Machine) supersede(cl *client, nonce [16]byte) {
	for _, old := range slices.Clone(cl.conns) {
		if old.nonce == nonce && !mutant.On(mutant.FormerConnLives) {
			e := m.tell(old, command.EffectConnEnded)
			e.Refusal = refusal(condForced, "the client has opened a later connection")
			m.endConn(old, endHomeLost)
		}
	}
	for _, s := range slices.Clone(cl.grace) {
		if s.process != nonce && s.conn == nil {
			m.endGrace(s)
		}
	}
}

// client finds or makes a client.
func (m *Machine) client(k clientKey) *client {
	cl := m.clients[k]
	if cl == nil {
		cl = &client{key: k}
		m.clients[k] = cl
	}
	return cl
}

// releaseClient forgets a client that has nothing here.
func (m *Machine) releaseClient(cl *client) {
	if len(cl.conns) == 0 && len(cl.sessions) == 0 && len(cl.windows) == 0 {
		delete(m.clients, cl.key)
	}
}

func (m *Machine) addConn(c *conn) {
	c.links, c.senders = make(map[uint32]*link), make(map[uint32]*sender)
	m.conns[c.id] = c
	m.clients[c.client.key] = c.client         // supersede may have released it
	c.client.conns = append(c.client.conns, c) // ids rise
}

func (m *Machine) changeConnEnd(c *command.ConnEnd, p *plan) {
	for i := range c.Links {
		if l := p.conn.links[c.Links[i].Link]; l != nil {
			m.giveUnwritten(l, c.Links[i].Unwritten)
			m.giveUnreceived(l, c.Links[i].Received)
		}
	}
	cause := endLost
	switch c.Cause {
	case command.EndClosed:
		cause = endClosed
		m.endAttachments(p.conn, true)
	case command.EndFailed: // the client may come again, and say again what it sent
		cause = endClosed
	case command.EndReset:
		cause = endReset
	case command.EndForced:
		cause = endForced
	case command.EndSilent:
	}
	m.endConn(p.conn, cause)
}

// giveUnwritten returns, untouched, what a home has not written (C8).
func (m *Machine) giveUnwritten(l *link, refs []command.DeliveryRef) {
	for _, ref := range refs {
		if di := m.held(l, ref); di != 0 {
			m.giveBack(l, di, giveUntouched)
		}
	}
}

// giveUnreceived returns, untouched, what was handed out while its home was ending the
// link or the connection: those behind the first received ones (C8).
func (m *Machine) giveUnreceived(l *link, received uint64) {
	for di := l.last; di != 0; {
		d := m.deliveries.at(di)
		before := d.prev
		switch {
		case d.told > received:
			m.giveBack(l, di, giveUntouched)
		case d.told != 0:
			return // they rise
		}
		di = before
	}
}

// endCause says how a connection ended, as state sees it.
type endCause uint8

const (
	endClosed   endCause = 1 + iota // the client closed it
	endReset                        // the client's side broke it: grace 5 s
	endLost                         // silence: grace 60 s
	endForced                       // its home's decision: grace 60 s
	endHomeLost                     // its home, or any report of it, is lost
)

// Grace periods in ms of running time (C6), and the retention of outcomes and results
// in ms of civil time (C2).
const (
	graceLost  = 60_000
	graceReset = 5_000
	retention  = 24 * 60 * 60 * 1000
)

func (c endCause) rule() endRule {
	switch c {
	case endClosed:
		return ruleClosed
	case endHomeLost:
		return ruleHomeLost
	case endForced:
		return ruleForced
	default:
		return ruleConnLost
	}
}

func (c endCause) grace() int64 {
	switch c {
	case endClosed:
		return 0
	case endReset:
		return graceReset
	default:
		return graceLost
	}
}

// endConn ends a connection: links of sessions that can resume wait for them, the
// others end; sessions stay without a connection.
func (m *Machine) endConn(c *conn, cause endCause) {
	m.steps++
	m.endTemporaries(c)
	for _, number := range sortedKeys(c.links) {
		l := c.links[number]
		if l.session != nil && !l.session.rollback && !l.presettled && cause != endClosed && l.session.links[l.name] == l {
			m.detachLink(l, cause.rule())
		} else {
			m.endLink(l, cause.rule())
		}
	}
	for _, number := range sortedKeys(c.senders) {
		m.dropSender(c, c.senders[number])
	}
	m.endAttachments(c, false)
	for _, s := range slices.Clone(c.sessions) {
		m.loseSession(s, cause)
	}
	delete(m.conns, c.id)
	cl := c.client
	cl.conns = slices.DeleteFunc(cl.conns, func(x *conn) bool { return x == c })
	m.releaseClient(cl)
	c.gone = true
	m.markConn(c)
}
