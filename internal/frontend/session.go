package frontend

import (
	"math"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// session is one AMQP session. With an id it outlives the connection (wire.md).
type session struct {
	eng *engine.Session
	id  command.SessionID
	// last is the highest number known to be decided: a Declare at or below it asks first.
	last uint64
	// opening: SessionOpen is not applied yet; attaches wait in deferred.
	opening  bool
	deferred []*engine.Link
	over     bool
}

// onBegin answers a generic session at once: it needs no state. One of our client's is opened or resumed first.
func (c *Conn) onBegin(s *engine.Session, b *amqp.Begin) {
	x := &session{eng: s}
	s.Data = x
	c.sessions = append(c.sessions, x)
	nonce, _ := b.Properties.Lookup(string(amqp.PropNonce))
	id, ok := nonce.(amqp.UUID)
	if !c.ours || !ok || !symbolIn(b.DesiredCapabilities, amqp.CapOncemqSession) {
		_ = s.Begin(amqp.Begin{})
		return
	}
	open := command.SessionOpen{Conn: c.id, Nonce: id}
	if v, _ := b.Properties.Lookup(string(amqp.PropSession)); v != nil {
		old, ok := v.([]byte)
		if !ok || len(old) != len(open.Session) {
			x.over = true
			_ = s.End(&amqp.Error{Condition: amqp.ErrCondInvalidField, Description: "oncemq:session is not a binary of 16 bytes"})
			return
		}
		copy(open.Session[:], old)
	}
	v, _ := b.Properties.Lookup(string(amqp.PropRollback))
	open.Rollback, _ = v.(bool)
	x.opening = true
	open.Request = c.expect(answer{kind: answerSession, session: x})
	c.gather(&open)
}

// onSessionOpened answers the Begin and the attaches behind it.
func (c *Conn) onSessionOpened(e *command.Effect) {
	a, ok := c.take(e.Request, answerSession)
	if !ok {
		return
	}
	s := a.session
	s.opening = false
	detail, ok := e.Detail.(*command.SessionOpened)
	if s.over {
		if ok {
			c.gather(&command.SessionEnd{Conn: c.id, Session: detail.Session})
		}
		return
	}
	if e.Refusal != nil || !ok {
		s.over = true
		c.dropSession(s)
		err := amqp.Error{Condition: amqp.ErrCondInternalError, Description: "the session can't be opened"}
		if e.Refusal != nil {
			err = amqpError(e.Refusal)
		}
		_ = s.eng.End(&err)
		return
	}
	s.id, s.last = detail.Session, detail.LastNumber
	_ = s.eng.Begin(amqp.Begin{
		OfferedCapabilities: []amqp.Symbol{amqp.CapOncemqSession},
		Properties: amqp.Map{
			{Key: amqp.PropSession, Value: append([]byte(nil), s.id[:]...)},
			{Key: amqp.PropResumed, Value: detail.Resumed},
			{Key: amqp.PropLastNumber, Value: detail.LastNumber},
		},
	})
	links := s.deferred
	s.deferred = nil
	for _, l := range links {
		if !l.Detached() {
			c.attach(s, l, l.Remote())
		}
	}
}

// onEnd ends a session's work: its untagged transactions are rolled back (T7), its consumers' deliveries return with their
// counts left.
func (c *Conn) onEnd(s *engine.Session, err *engine.Error) {
	x, ok := s.Data.(*session)
	if !ok {
		_ = s.End(nil)
		return
	}
	x.over = true
	c.abandon(func(t *tx) bool { return t.home == x })
	for _, k := range inOrder(c.consumers) {
		if k.s == x {
			c.endConsumer(k, true)
		}
	}
	for _, p := range inOrder(c.producers) {
		if p.s == x {
			p.ousted = err != nil && !err.Remote
			c.endProducer(p, true)
		}
	}
	if !x.id.IsZero() {
		end := command.SessionEnd{Conn: c.id, Session: x.id}
		if err == nil || err.AMQP.Condition != amqp.ErrCondOutcomesUnknown {
			end.Known.Through = math.MaxUint64 // a clean close acknowledges everything (C2)
		}
		c.gather(&end)
	}
	c.dropSession(x)
	_ = s.End(nil)
}

func (c *Conn) dropSession(x *session) {
	for i, s := range c.sessions {
		if s == x {
			c.sessions = append(c.sessions[:i], c.sessions[i+1:]...)
			return
		}
	}
}

// sessionOf is the resumable session with that id on this connection, nil if there is none.
func (c *Conn) sessionOf(id command.SessionID) *session {
	for _, s := range c.sessions {
		if s.id == id && !id.IsZero() {
			return s
		}
	}
	return nil
}
