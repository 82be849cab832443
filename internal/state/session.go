package state

import (
	"bytes"
	"math"
	"slices"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

// session is what gives transactions and numbered sends their identity (C1, C9): of a
// client that can resume, or a token of wire.md.
type session struct {
	object
	progress  object // the second record: through, unknown, last, retainUntil
	id        command.SessionID
	principal string
	client    *client // nil for tokens
	process   [16]byte
	open      [16]byte
	rollback  bool
	token     bool
	// ended: takes no new number and no commit; kept for its outcomes alone [1.6].
	ended  bool
	former bool // of an earlier history: nothing finds it any more
	conn   *conn
	// graceUntil is when reserved deliveries go back, in running time; 0: none.
	graceUntil int64
	// retainUntil is when the session is forgotten (a token: ended, then forgotten), in
	// civil time; 0 while it is open.
	retainUntil int64
	timer       [2]int // places in the timers' heaps, from 1

	links   map[string]*link // of sessions that resume, by name
	streams map[string]*stream
	results map[string]*results

	through  uint64   // outcomes up to this are known to the client …
	unknown  []uint64 // … but for these
	last     uint64   // highest decided number
	outcomes []outcomeRecord
	reasons  map[uint64]string // of outcomes whose reason has no code
}

func (m *Machine) checkSessionOpen(c *command.SessionOpen, p *plan) verdict {
	if p.conn.nonce == noNonce {
		return p.refuse(refusal(condNotAllowed, "a client without a nonce can't have resumable sessions"))
	}
	if !c.Session.IsZero() {
		s := m.sessions[c.Session]
		if s == nil || s.token || s.ended || s.client != p.conn.client || s.process != p.conn.nonce {
			return p.refuse(refusal(condNotFound, "session %s is gone; open a new one", c.Session))
		}
		p.session = s
	} else if s := p.conn.client.sessions[clientNonce{p.conn.nonce, c.Nonce}]; s != nil {
		if s.ended {
			return p.refuse(refusal(condNotFound, "session %s has ended; open a new one with another nonce", s.id))
		}
		p.session = s
	} else if len(p.conn.sessions) >= maxSessions {
		return p.refuse(refusal(condLimit, "%d sessions are open on this connection; end some", maxSessions))
	} else if no := m.sessionAllowed(p.conn); no != nil {
		return p.refuse(no)
	} else if m.place > lastPlace || !m.founded {
		return p.refuse(refusal(condLimit, "no session can be opened in this entry; try again"))
	}
	return act
}

func (m *Machine) changeSessionOpen(c *command.SessionOpen, p *plan) {
	s := p.session
	resumed := s != nil
	if s == nil {
		s = &session{
			id:        command.NewSessionID(m.history, m.group, m.index, m.place, [4]byte(c.Nonce[:4])),
			principal: p.conn.client.key.principal, client: p.conn.client,
			process: p.conn.nonce, open: c.Nonce, rollback: c.Rollback,
		}
		m.addSession(s)
	}
	if s.conn != p.conn {
		m.attachSession(s, p.conn)
	}
	e := m.tell(p.conn, command.EffectSessionOpened)
	e.Request = c.Request
	e.Detail = &command.SessionOpened{Session: s.id, Resumed: resumed, LastNumber: s.last}
}

// addSession puts a new or loaded session into the tables.
func (m *Machine) addSession(s *session) {
	s.links, s.streams, s.results = make(map[string]*link), make(map[string]*stream), make(map[string]*results)
	m.sessions[s.id] = s
	m.ofUser[s.principal]++
	if s.client != nil {
		if s.client.sessions == nil {
			s.client.sessions = make(map[clientNonce]*session)
		}
		s.client.sessions[clientNonce{s.process, s.open}] = s
	}
	m.markSession(s)
	m.markProgress(s)
}

func compareSessions(a, b *session) int { return bytes.Compare(a.id[:], b.id[:]) }

// attachSession puts a session on a connection: retention stops, and links that wait
// for their client have the full grace once more to be attached again.
func (m *Machine) attachSession(s *session, c *conn) {
	if s.conn != nil { // a client process has one live connection, so this is none
		panic("state: a session is open on two connections")
	}
	s.conn = c
	at, _ := slices.BinarySearchFunc(c.sessions, s, compareSessions)
	c.sessions = slices.Insert(c.sessions, at, s)
	if len(s.links) > 0 {
		m.setGrace(s, m.running+graceLost)
	}
	m.setRetain(s, 0)
	m.markSession(s)
}

// leaveConn takes a session off its connection.
func (m *Machine) leaveConn(s *session) {
	c := s.conn
	c.sessions = slices.DeleteFunc(c.sessions, func(x *session) bool { return x == s })
	s.conn = nil
	m.markSession(s)
}

// setGrace sets when reserved deliveries go back.
func (m *Machine) setGrace(s *session, until int64) {
	if s.graceUntil == until {
		return
	}
	if s.client != nil {
		at, found := slices.BinarySearchFunc(s.client.grace, s, compareSessions)
		switch {
		case until == 0 && found:
			s.client.grace = slices.Delete(s.client.grace, at, at+1)
		case until != 0 && !found:
			s.client.grace = slices.Insert(s.client.grace, at, s)
		}
	}
	s.graceUntil = until
	m.grace.update(s, s.gone)
	m.markSession(s)
}

// setRetain sets when the session is forgotten.
func (m *Machine) setRetain(s *session, until int64) {
	if s.retainUntil == until {
		return
	}
	s.retainUntil = until
	m.retain.update(s, s.gone)
	m.markProgress(s)
}

// loseSession is what the end of its connection means for a session (C6).
func (m *Machine) loseSession(s *session, cause endCause) {
	m.leaveConn(s)
	if cause == endClosed {
		m.finishSession(s)
		return
	}
	if len(s.links) > 0 {
		m.setGrace(s, m.running+cause.grace())
	}
	m.setRetain(s, m.civil.kept()+retention)
}

// endGrace gives back what is reserved for links that wait for their client. The
// session can still resume, without them.
func (m *Machine) endGrace(s *session) {
	m.setGrace(s, 0)
	for _, name := range sortedKeys(s.links) {
		if l := s.links[name]; l.conn == nil {
			m.endLink(l, l.lost)
		}
	}
}

func (m *Machine) changeSessionEnd(c *command.SessionEnd, p *plan) {
	s := p.session
	m.acknowledge(s, &c.Known)
	for _, number := range sortedKeys(s.conn.links) {
		if l := s.conn.links[number]; l != nil && l.session == s { // nil: it went with the temporary queue of one before
			if m.endMaker(s.conn, number); !l.gone {
				m.endLink(l, ruleClosed)
			}
		}
	}
	for _, number := range sortedKeys(s.conn.senders) {
		if x := s.conn.senders[number]; x != nil && x.stream != nil && x.stream.session == s {
			if m.endMaker(s.conn, number); !x.gone {
				m.dropSender(s.conn, x)
			}
		}
	}
	m.leaveConn(s)
	m.finishSession(s)
}

// finishSession ends a session for good: it stays for 24 h with its outcomes, and nothing at
// all stays where a clean close acknowledged everything (C2). That there are no outcomes is no reason to
// forget it: a transaction that never came here may be one that somebody will ask for, and didn't happen.
func (m *Machine) finishSession(s *session) {
	for _, name := range sortedKeys(s.links) {
		m.endLink(s.links[name], ruleClosed)
	}
	for _, name := range sortedKeys(s.streams) {
		m.dropStream(s.streams[name])
	}
	for _, name := range sortedKeys(s.results) {
		m.dropResults(s.results[name])
	}
	m.setGrace(s, 0)
	s.ended = true
	m.markSession(s)
	if s.through == math.MaxUint64 {
		m.forgetSession(s)
		return
	}
	m.setRetain(s, m.civil.kept()+retention)
}

// forgetSession takes a session out of the tables: from now on its transactions are
// Expired (C5).
func (m *Machine) forgetSession(s *session) {
	for _, name := range sortedKeys(s.links) {
		m.endLink(s.links[name], s.links[name].lost)
	}
	for _, name := range sortedKeys(s.streams) {
		m.dropStream(s.streams[name])
	}
	for _, name := range sortedKeys(s.results) {
		m.dropResults(s.results[name])
	}
	for i := range s.outcomes {
		m.deleteOutcome(s, &s.outcomes[i])
	}
	m.setGrace(s, 0)
	s.gone = true
	m.retain.update(s, s.gone)
	m.markSession(s)
	m.markProgress(s)
	delete(m.sessions, s.id)
	if m.ofUser[s.principal]--; m.ofUser[s.principal] == 0 {
		delete(m.ofUser, s.principal)
	}
	if cl := s.client; cl != nil && !s.former {
		delete(cl.sessions, clientNonce{s.process, s.open})
		m.releaseClient(cl)
	}
}

// runTimers does what is due, earliest first, within the entry's work [4.2, 4.5].
func (m *Machine) runTimers() {
	for m.grace.next() <= m.running && m.steps < m.maxSteps/2 && !mutant.On(mutant.GraceForever) {
		m.steps++
		m.endGrace(m.grace.heap[0])
	}
	for m.retain.next() <= m.civil.kept() && m.steps < m.maxSteps/2 {
		m.steps++
		s := m.retain.heap[0]
		if s.token && !s.ended && len(s.outcomes) > 0 {
			s.ended = true // unused for 24 h; its outcomes stay as long again (C2)
			m.markSession(s)
			m.setRetain(s, s.retainUntil+retention)
			continue
		}
		m.counters.Expired++
		m.forgetSession(s)
	}
	m.forgetLost()
	m.runExpiries()
}

func (m *Machine) checkTokenOpen(p *plan) verdict {
	if no := m.sessionAllowed(p.conn); no != nil {
		return p.refuse(no)
	}
	if m.place > lastPlace || !m.founded {
		return p.refuse(refusal(condLimit, "no token can be opened in this entry; try again"))
	}
	return act
}

func (m *Machine) changeTokenOpen(c *command.TokenOpen, p *plan) {
	s := &session{
		id:        command.NewSessionID(m.history, m.group, m.index, m.place, c.Nonce),
		principal: p.conn.client.key.principal, token: true,
	}
	m.addSession(s)
	m.setRetain(s, m.civil.kept()+retention)
	e := m.tell(p.conn, command.EffectTokenOpened)
	e.Request = c.Request
	e.Tx = command.NewTxID(s.id, 0)
}

// Bounds: sessions open on one connection, and sessions and tokens of one user, lost and
// ended ones that are kept for a day included.
const (
	maxSessions     = 2048
	maxUserSessions = 1_000_000
)

// sessionAllowed says that the connection's user may have one more session or token, or
// why not.
func (m *Machine) sessionAllowed(c *conn) *command.Refusal {
	if m.ofUser[c.client.key.principal] < m.maxOfUser {
		return nil
	}
	return refusal(condLimit, "this user has %d sessions and tokens; those of lost clients go a day after their loss", m.maxOfUser)
}
