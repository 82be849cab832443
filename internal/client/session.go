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
	ending   bool // End is sent on the present connection
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
	if ending(err) {
		return
	}
	if err != nil {
		s.fail(err)
		return
	}
	es.Data = s
	s.on = es
}

// ending says that an operation met a connection or session that has just ended: what comes with the bytes in hand tells why, and what was to be
// done is done on the next one. (The answer to Begin and a Close may come in one read.)
func ending(err error) bool {
	return errors.Is(err, engine.ErrEnded) || errors.Is(err, engine.ErrClosed)
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
	s.core.progress = true
	s.core.finish(&s.Opening, nil)
	if s.reopening != nil {
		s.core.finish(s.reopening, nil)
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
	if s.coordinator != nil && s.coordinator.link == nil {
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
	err := &amqp.Error{Condition: amqp.ErrCondInternalError, Description: "the node ended the session"}
	if e != nil {
		err = &e.AMQP
	}
	if wasUp {
		s.core.progress = false // what it answered before is no reason to run into the same End at full speed
		s.core.broken(fmt.Errorf("session ended: %w", err), now)
		return
	}
	s.refusals++
	switch {
	case s.refusals > maxRefusals, final(err.Condition):
		s.fail(refusal(err))
	case err.Condition == amqp.ErrCondNotFound: // the only one that says that it is gone
		s.expire()
		s.begin()
	case err.Condition == amqp.ErrCondResourceLimitExceeded: // not this node's fault, and no reason to take the others' connection away
		if s.refusals == maxRefusals {
			s.fail(refusal(err))
			return
		}
		s.begin()
	default:
		s.refusals = 0
		s.core.broken(fmt.Errorf("session refused: %w", err), now)
	}
}

// lost: the connection is gone. What is not finished waits for the next.
func (s *Session) lost() {
	s.on, s.up, s.ending = nil, false, false
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

// owed says that something which the present connection has been given waits for its answer.
func (s *Session) owed() bool {
	for _, tx := range s.txs {
		if tx.declare != nil || tx.discharge != nil {
			return true
		}
	}
	for _, snd := range s.senders {
		if snd.handed > 0 {
			return true
		}
	}
	return s.settle.open > 0
}

// answerDue says whether the node owes this session anything. What waits here for credit is not owed: nodes are silent about that.
func (s *Session) answerDue() bool {
	if s.on == nil {
		return false
	}
	if !s.up || s.ending || s.owed() || s.coordinator.attaching() {
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
