package client

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// SessionID is the identity that the log gave a session (C1).
type SessionID [16]byte

// maxRefusals is how often in a row a session may be refused before it fails.
const maxRefusals = 3

// Session is one session: it has a life on the present connection, if it is up, and an identity that survives it.
type Session struct {
	// Opening ends when the session is open first, Closing when it is closed.
	Opening, Closing Op
	// Rollback is OnFailover Rollback: nothing is replayed (S1).
	Rollback bool

	core  *Core
	id    SessionID // zero until opened
	nonce [16]byte
	on    *engine.Session // on the present connection
	up    bool            // begun on it: links may be attached
	dirty bool            // pump has something to look at

	refusals int
	err      error // failed for good
	closing  bool
	over     bool

	senders     []*Sender
	receivers   []*Receiver
	coordinator *coordinator
	links       int // names made
	reopening   *Op

	// txs are undecided, by rising number. number is the last one taken.
	txs    []*Tx
	number uint64
	known  known
	settle settlements
}

// OpenSession begins to open a session; Opening tells how it ended.
func (c *Core) OpenSession(rollback bool) *Session {
	s := &Session{core: c, Rollback: rollback, nonce: c.uuid()}
	if c.phase == phaseOver || c.closing {
		s.err = c.overErr()
		c.finish(&s.Opening, s.err)
		return s
	}
	c.sessions = append(c.sessions, s)
	if c.live() {
		s.begin()
	}
	return s
}

func (c *Core) overErr() error {
	if c.closeErr != nil {
		return fmt.Errorf("%w: %w", ErrClosed, c.closeErr)
	}
	return ErrClosed
}

// ID is the session's identity, zero until Opening is done.
func (s *Session) ID() SessionID { return s.id }

// Err is why the session failed for good, or nil.
func (s *Session) Err() error { return s.err }

// begin opens or resumes the session on the present connection.
func (s *Session) begin() {
	b := *amqp.NewBegin()
	b.HandleMax = 0
	b.DesiredCapabilities = []amqp.Symbol{amqp.CapOncemqSession}
	var id any
	if s.id != (SessionID{}) {
		id = s.id[:]
	}
	b.Properties = amqp.Map{
		{Key: amqp.PropSession, Value: id},
		{Key: amqp.PropNonce, Value: amqp.UUID(s.nonce)},
		{Key: amqp.PropRollback, Value: s.Rollback},
	}
	es, err := s.core.conn.Begin(b)
	if err != nil {
		s.fail(err)
		return
	}
	es.Data = s
	s.on = es
}

// begun: the broker's Begin is there. It is the identity's proof that the session goes on.
func (s *Session) begun(b *amqp.Begin) {
	if b == nil || s.over {
		return
	}
	v, _ := b.Properties.Lookup(string(amqp.PropSession))
	raw, _ := v.([]byte)
	if len(raw) != len(s.id) {
		if s.core.conn.Remote() == nil || !slices.Contains(s.core.conn.Remote().OfferedCapabilities, amqp.CapOncemqClient) {
			s.fail(ErrNotOncemq)
		}
		return // a refusal: End follows
	}
	id := SessionID(raw)
	if s.id != (SessionID{}) && s.id != id {
		s.expire()
	}
	fresh := s.id == (SessionID{})
	s.id = id
	if fresh {
		v, _ := b.Properties.Lookup(string(amqp.PropLastNumber))
		last, _ := v.(uint64)
		s.number = max(s.number, last)
		s.known.through = s.number
	}
	s.up, s.refusals = true, 0
	s.core.finish(&s.Opening, nil)
	if s.reopening != nil {
		s.core.finish(s.reopening, nil)
	}
	if s.closing {
		return // pump ends it
	}
	for _, r := range s.receivers {
		if r.link == nil { // else it was made by who waited for Opening
			r.attachNow()
		}
	}
	for _, snd := range s.senders {
		if snd.link == nil {
			snd.attachNow()
		}
	}
	if s.coordinator != nil {
		s.coordinator.attachNow()
	}
}

// ended: the broker ended the session. While it is being resumed this says that the session is gone; otherwise something
// went wrong that only a new connection heals.
func (s *Session) ended(e *engine.Error, now time.Time) {
	_ = s.on.End(nil)
	wasUp := s.up
	s.lost()
	if s.closing {
		s.finishClosing()
		return
	}
	err := error(errors.New("oncemq: the node ended the session"))
	if e != nil {
		err = &e.AMQP
	}
	if wasUp {
		s.core.broken(fmt.Errorf("session ended: %w", err), now)
		return
	}
	s.refusals++
	if s.refusals >= maxRefusals || s.id == (SessionID{}) && e != nil && final(e.AMQP.Condition) {
		s.fail(err)
		return
	}
	if s.id == (SessionID{}) {
		s.core.broken(fmt.Errorf("session refused: %w", err), now)
		return
	}
	s.expire()
	s.begin()
}

// lost: the connection is gone. What is not finished waits for the next.
func (s *Session) lost() {
	s.on, s.up = nil, false
	for _, snd := range s.senders {
		snd.lost()
	}
	if s.coordinator != nil {
		s.coordinator.lost()
	}
	// The receivers before the transactions, so that a transaction which ends here knows that its deliveries stand in no table any more.
	for _, r := range s.receivers {
		r.lost()
	}
	for _, tx := range append([]*Tx(nil), s.txs...) {
		tx.lost()
	}
}

// expire: the broker no longer knows the session. What it may have done is unknown, or asked for; what it can't have done goes on in a new one.
func (s *Session) expire() {
	for _, snd := range s.senders {
		snd.expire(ErrExpired)
	}
	for _, tx := range append([]*Tx(nil), s.txs...) {
		tx.expire(ErrExpired)
	}
	for _, r := range s.receivers {
		r.expire(ErrExpired)
	}
	s.id, s.nonce = SessionID{}, s.core.uuid()
	s.number, s.known = 0, known{}
}

// fail ends the session for good.
func (s *Session) fail(err error) {
	if s.over {
		return
	}
	s.over, s.up = true, false
	if s.err == nil {
		s.err = err
	}
	c := s.core
	for _, snd := range s.senders {
		snd.expire(err)
		snd.fail(err)
	}
	for _, tx := range append([]*Tx(nil), s.txs...) {
		tx.expire(err)
	}
	for _, r := range s.receivers {
		r.expire(err)
		r.fail(err)
	}
	c.finish(&s.Opening, err)
	if s.reopening != nil {
		c.finish(s.reopening, err)
	}
	c.finish(&s.Closing, nil)
}

// Close begins to end the session, once what is sent is answered; open transactions are rolled back.
func (s *Session) Close() {
	if s.closing || s.over {
		if s.over {
			s.core.finish(&s.Closing, nil)
		}
		return
	}
	s.closing = true
	for _, tx := range append([]*Tx(nil), s.txs...) {
		if tx.state == txOpen {
			tx.rollback(ErrClosed)
		}
	}
	for _, snd := range s.senders {
		snd.dropWaiting(ErrClosed)
	}
	if s.err == nil {
		s.err = ErrClosed
	}
	s.pump()
	s.core.dropEnded()
}

// endWhenQuiet ends a closing session that waits for no answer any more.
func (s *Session) endWhenQuiet() {
	if !s.closing || !s.up || s.pending() {
		return
	}
	s.endNow()
}

// endNow sends End: without an error it acknowledges all outcomes, with outcomes-unknown the broker keeps them (C2).
func (s *Session) endNow() {
	if s.on == nil || s.on.Ended() {
		return
	}
	var e *amqp.Error
	if s.known.open() > 0 || len(s.txs) > 0 {
		e = &amqp.Error{Condition: amqp.ErrCondOutcomesUnknown, Description: "the client holds outcomes that no caller has seen"}
	}
	_ = s.on.End(e)
}

func (s *Session) finishClosing() {
	s.fail(ErrClosed)
}

// pending says that something sent on the session waits for an answer.
func (s *Session) pending() bool {
	for _, tx := range s.txs {
		if tx.declare != nil || tx.discharge != nil || tx.state != txOpen {
			return true
		}
	}
	for _, snd := range s.senders {
		if snd.pending() {
			return true
		}
	}
	return s.settle.open > 0
}

// answerDue says whether the node owes this session anything.
func (s *Session) answerDue() bool {
	if s.on == nil {
		return false
	}
	if !s.up || s.closing || s.pending() {
		return true
	}
	for _, snd := range s.senders {
		if snd.attaching() {
			return true
		}
	}
	for _, r := range s.receivers {
		if r.attaching() {
			return true
		}
	}
	return false
}

// pump hands over what can be: declares, settlements, sends, discharges, in this order.
func (s *Session) pump() {
	s.dirty = false
	if !s.up {
		return
	}
	for i := 0; i < len(s.txs); i++ {
		s.txs[i].start()
	}
	for _, r := range s.receivers {
		r.pump()
	}
	for _, snd := range s.senders {
		snd.pump()
	}
	for i := 0; i < len(s.txs); {
		tx := s.txs[i]
		tx.end()
		if i < len(s.txs) && s.txs[i] == tx {
			i++
		}
	}
	s.endWhenQuiet()
}

// dropEnded forgets sessions that are over.
func (c *Core) dropEnded() {
	kept := c.sessions[:0]
	for _, s := range c.sessions {
		if !s.over {
			kept = append(kept, s)
		}
	}
	clear(c.sessions[len(kept):])
	c.sessions = kept
}

// linkName makes a name that is unique in the client and stays over failovers.
func (s *Session) linkName(kind, address string) string {
	s.links++
	return fmt.Sprintf("%s:%x:%d:%s", kind, s.nonce[:8], s.links, address)
}

// Reopened is an operation that ends when the session has an identity again, or has failed.
func (s *Session) Reopened() *Op {
	if s.reopening == nil || s.reopening.done {
		s.reopening = &Op{}
		if s.over || s.id != (SessionID{}) {
			s.core.finish(s.reopening, s.err)
		}
	}
	return s.reopening
}
