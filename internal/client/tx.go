package client

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// TxID is session ‖ number (8 bytes, big-endian): the AMQP txn-id (C1, wire.md).
type TxID [24]byte

// String is "token/n" as in wire.md.
func (id TxID) String() string {
	return hex.EncodeToString(id[:16]) + "/" + strconv.FormatUint(binary.BigEndian.Uint64(id[16:]), 10)
}

// TxOutcome answers "did it happen?".
type TxOutcome uint8

// The outcomes.
const (
	TxUnknown TxOutcome = iota
	TxCommitted
	TxRolledBack
)

type txState uint8

const (
	txOpen        txState = iota
	txCommitting          // a discharge that commits is asked for
	txRollingBack         // it will never commit: decided for its caller, to be told to the broker
	txAsking              // its session is gone: $oncemq.outcome is asked
	txDecided
)

// Tx is a transaction. It is undecided exactly while it stands in its session's txs.
type Tx struct {
	// Op ends when the outcome is known; Outcome and Reason then hold.
	Op

	session *Session
	id      TxID
	number  uint64
	state   txState
	work    amqp.TransactionalState // what binds transfers to it

	// declare and discharge are under way on the present connection. declared: the broker said so. resumed: a connection was lost since
	// it began, so that nothing is replayed before the answer to the declare.
	declare, discharge *engine.Delivery
	declared, resumed  bool
	ever               bool // declared on any connection

	// told: a discharge that commits may have been on a wire. Invariant: without it the transaction can't be committed.
	told bool

	enlisted   []*Delivery // settled in it, in order
	disposed   int         // how many of them were told to the present connection
	unhanded   int         // sends that the present connection hasn't got
	operations uint32

	outcome TxOutcome
	reason  error // why not committed
	spoilt  error // an operation failed: it can't commit
	seen    bool  // a caller has the definite result
	waiting int   // callers of Commit or Rollback that wait
	undo    bool  // Rollback was called: not to be committed if it turns out undecided
}

// Begin begins a transaction. Its session must be open (Opening done without error).
func (s *Session) Begin() (*Tx, error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case s.id == SessionID{}:
		return nil, ErrExpired // between two lives of the session
	case s.unknown() >= maxUnknown:
		return nil, ErrTooManyUnknown
	}
	s.number++
	tx := &Tx{session: s, number: s.number}
	copy(tx.id[:], s.id[:])
	binary.BigEndian.PutUint64(tx.id[16:], tx.number)
	tx.work.TxnID = tx.id[:]
	s.txs = append(s.txs, tx)
	if s.coordinator == nil {
		s.coordinator = &coordinator{session: s}
		if s.up {
			s.coordinator.attachNow()
		}
	}
	return tx, nil
}

// unknown counts transactions whose result no caller has and none waits for.
func (s *Session) unknown() int {
	n := s.known.open()
	for _, tx := range s.txs {
		if tx.state == txCommitting && tx.waiting == 0 {
			n++
		}
	}
	return n
}

// ID is the transaction's identity.
func (tx *Tx) ID() TxID { return tx.id }

// Outcome is how it ended and why; TxUnknown while it is undecided.
func (tx *Tx) Outcome() (TxOutcome, error) { return tx.outcome, tx.reason }

// usable says why nothing can be added to the transaction, or nil.
func (tx *Tx) usable() error {
	if tx.state != txOpen {
		return ErrTxDone
	}
	return nil
}

// Ended is nil while operations may be added; ErrTxDone after Commit or Rollback, or when it was rolled back meanwhile (see Outcome).
func (tx *Tx) Ended() error { return tx.usable() }

// Send queues a message in the transaction.
func (tx *Tx) Send(snd *Sender, payload []byte) (*Send, error) {
	if err := tx.usable(); err != nil {
		return nil, err
	}
	if snd.session != tx.session {
		return nil, ErrForeign
	}
	if err := snd.refusing(); err != nil {
		return nil, err
	}
	x := &Send{sender: snd, tx: tx}
	x.payload[0] = payload
	tx.unhanded++
	tx.operations++
	snd.put(x)
	return x, nil
}

// WithdrawSend takes back a transacted send that was never handed over: true; it is no part of the transaction then.
func (tx *Tx) WithdrawSend(x *Send, cause error) bool {
	if x.queued || !x.listed || tx.state != txOpen {
		return false
	}
	tx.operations--
	x.sender.end(x, cause)
	return true
}

// ready says that operations may be handed over: the declare is on its way before them, or, after a failover, answered.
func (tx *Tx) ready() bool {
	if tx.state != txOpen && tx.state != txCommitting {
		return false
	}
	return tx.declared || tx.declare != nil && !tx.resumed && tx.declare.Sent()
}

// start declares the transaction if that is due, and tells its settlements.
func (tx *Tx) start() {
	switch tx.state {
	case txOpen:
		if tx.operations == 0 {
			return // the declare goes with the first operation or the discharge
		}
	case txCommitting, txRollingBack:
	default:
		return
	}
	if tx.declare == nil && !tx.declared && !tx.session.coordinator.sendDeclare(tx) {
		return
	}
	if tx.ready() {
		tx.settle()
	}
}

// end discharges the transaction if that is due and everything before it was handed over.
func (tx *Tx) end() {
	if tx.discharge != nil {
		return
	}
	switch tx.state {
	case txCommitting:
		if !tx.ready() || tx.disposed < len(tx.enlisted) || tx.unhanded > 0 {
			return
		}
	case txRollingBack:
		if !tx.declared && (tx.declare == nil || tx.resumed || !tx.declare.Sent()) {
			return
		}
	default:
		return
	}
	tx.session.coordinator.sendDischarge(tx, tx.state == txRollingBack)
}

// answered: the broker said what becomes of a transacted send. A refusal shows at Commit; the broker refuses the commit by itself.
func (tx *Tx) answered(state amqp.DeliveryState) {
	if ts, ok := state.(*amqp.TransactionalState); ok {
		state = ts.Outcome
	}
	if r, ok := state.(*amqp.Rejected); ok && tx.spoilt == nil {
		tx.spoilt = refusal(r.Error)
	}
}

// spoil: an operation failed here, so that the transaction can't commit.
func (tx *Tx) spoil(err error) {
	if tx.spoilt == nil {
		tx.spoilt = err
	}
	if tx.state == txCommitting && !tx.withdrawDischarge() {
		return // the broker decides: it knows how many operations there are
	}
	if tx.state == txOpen || tx.state == txCommitting {
		tx.rollback(err)
	}
}

// Commit asks for the commit. Op tells the outcome. Called again it only waits.
func (tx *Tx) Commit() {
	tx.waiting++
	if tx.state != txOpen {
		tx.undo = false
		return
	}
	if tx.spoilt != nil {
		tx.rollback(tx.spoilt)
		return
	}
	tx.state = txCommitting
	tx.session.pump()
}

// Rollback ends the transaction without effect, unless a commit may have been on a wire: then it waits for that outcome (C10).
func (tx *Tx) Rollback() {
	tx.waiting++
	tx.undo = true
	if tx.state == txOpen || tx.state == txCommitting && tx.withdrawDischarge() {
		tx.rollback(nil)
	}
}

// rollback decides for the caller, which is true at once since no commit was on a wire; the broker is told in the background, and Op
// ends with its answer or the loss of the connection.
func (tx *Tx) rollback(reason error) {
	tx.state, tx.reason = txRollingBack, reason
	tx.dropSends()
	if tx.declare == nil && !tx.declared {
		// This connection's node has nothing of it, and what an earlier one collected is gone with that.
		tx.decide(TxRolledBack, reason)
		return
	}
	tx.session.pump()
}

// release lets the caller of a rollback go on before the broker has answered.
func (tx *Tx) release() {
	tx.outcome = TxRolledBack
	tx.session.core.finish(&tx.Op, nil)
}

// withdrawDischarge takes back a commit that can't have been on a wire: true.
func (tx *Tx) withdrawDischarge() bool {
	if tx.told {
		return false
	}
	if tx.discharge != nil && !tx.discharge.Abort() {
		return false
	}
	tx.discharge = nil
	return true
}

// Abandon is called when a caller of Commit or Rollback no longer waits. It gives the outcome as known now: a commit that was not on a
// wire is taken back, and rolled back for certain; afterwards it is unknown, and the core goes on to learn it.
func (tx *Tx) Abandon() (TxOutcome, error) {
	tx.waiting--
	if tx.state == txCommitting && tx.withdrawDischarge() {
		tx.rollback(nil)
	}
	if tx.state == txRollingBack {
		tx.release()
	}
	if tx.outcome != TxUnknown {
		tx.Seen()
	}
	return tx.outcome, tx.reason
}

// Result is for a caller of Commit or Rollback whose wait has ended with Op: how the transaction ended, and why not committed.
func (tx *Tx) Result() (TxOutcome, error) {
	tx.waiting--
	if tx.outcome != TxUnknown {
		tx.Seen()
	}
	return tx.outcome, tx.reason
}

// Seen says that a caller has the definite result: it may be acknowledged (C2).
func (tx *Tx) Seen() {
	if !tx.seen {
		tx.seen = true
		if tx.ofPresent() {
			tx.session.known.seen(tx.number)
		}
	}
}

// ofPresent says that the session still has the identity that the transaction was begun under.
func (tx *Tx) ofPresent() bool { return SessionID(tx.id[:16]) == tx.session.id }

// decide ends the transaction with what is true for ever.
func (tx *Tx) decide(outcome TxOutcome, reason error) {
	if tx.state == txDecided {
		return
	}
	s := tx.session
	tx.state = txDecided
	if !tx.done { // else a rollback that its caller knows already
		tx.outcome = outcome
		if outcome != TxCommitted && (tx.reason == nil || reason != nil) {
			tx.reason = reason
		}
	}
	tx.dropSends()
	for _, d := range tx.enlisted {
		if outcome == TxRolledBack {
			d.giveBack()
		} else {
			d.drop()
		}
	}
	tx.enlisted, tx.disposed = nil, 0
	tx.delist()
	switch {
	case outcome == TxUnknown || tx.seen:
	case tx.waiting == 0 && tx.ever && tx.ofPresent():
		s.known.add(tx.number)
	default:
		tx.seen = true
	}
	s.dirty = true
	s.core.finish(&tx.Op, nil)
}

// delist takes the transaction off its session's list.
func (tx *Tx) delist() {
	s := tx.session
	for i, other := range s.txs {
		if other == tx {
			s.txs = append(s.txs[:i], s.txs[i+1:]...)
			return
		}
	}
}

// dropSends takes the transaction's sends off their links' lists.
func (tx *Tx) dropSends() {
	if tx.operations == 0 {
		return
	}
	for _, snd := range tx.session.senders {
		for x := snd.first; x != nil; {
			succ := x.succ
			if x.tx == tx {
				x.Op.done, x.Op.err = true, ErrTxDone
				if !x.queued {
					tx.session.core.queued(x)
				}
				snd.unlist(x)
			}
			x = succ
		}
	}
}

// lost: the connection is gone, and with it what its node had collected.
func (tx *Tx) lost() {
	if tx.discharge != nil && tx.discharge.Written() && tx.state == txCommitting {
		tx.told = true
	}
	tx.declare, tx.discharge, tx.declared = nil, nil, false
	tx.resumed, tx.disposed = true, 0
	switch {
	case tx.state == txRollingBack:
		tx.decide(TxRolledBack, tx.reason)
	case tx.session.Rollback && !tx.told:
		tx.decide(TxRolledBack, errFailover) // S1
	case tx.session.Rollback:
		tx.dropSends() // nothing is replayed; its outcome is asked for
	}
}

// errFailover is the reason of a transaction under OnFailover Rollback whose connection was lost.
var errFailover = errors.New("oncemq: the connection was lost, and the session rolls back then")

// expire: the session is gone. Without a commit on a wire it is rolled back; else only $oncemq.outcome knows (C5).
func (tx *Tx) expire(cause error) {
	tx.delist()
	switch {
	case tx.state == txAsking:
	case !tx.told:
		tx.decide(TxRolledBack, cause)
	case errors.Is(cause, ErrExpired):
		tx.resolve()
	default:
		tx.decide(TxUnknown, cause)
	}
}

// resolve asks for the outcome of a transaction that this session can't learn by itself.
func (tx *Tx) resolve() {
	tx.state = txAsking
	tx.discharge, tx.declare = nil, nil
	tx.dropSends()
	for _, d := range tx.enlisted {
		d.drop()
	}
	tx.enlisted, tx.disposed = nil, 0
	tx.ask()
}

// ask resolves the transaction through $oncemq.outcome.
func (tx *Tx) ask() {
	q := &Query{ID: tx.id, Decide: true}
	q.then = func() {
		switch {
		case q.err != nil:
			tx.decide(TxUnknown, q.err)
		case q.State == "committed":
			tx.decide(TxCommitted, nil)
		case q.State == "rolled-back":
			tx.decide(TxRolledBack, reasonError(q.Reason))
		case q.State == "expired":
			tx.decide(TxUnknown, ErrExpired)
		default:
			tx.decide(TxUnknown, fmt.Errorf("%w: outcome %q", ErrBadReply, q.State))
		}
	}
	tx.session.core.Ask(q)
}

// reasonError is a broker's reason for a rollback as an error, nil if it gave none.
func reasonError(reason string) error {
	if reason == "" {
		return nil
	}
	return errors.New("oncemq: " + reason)
}

// Standing is the outcome as far as it is certain now, without a wait: also TxRolledBack where that is still to be told to the broker. It counts as seen.
func (tx *Tx) Standing() (TxOutcome, error) {
	switch {
	case tx.state == txRollingBack:
		return TxRolledBack, tx.reason
	case tx.outcome != TxUnknown:
		tx.Seen()
	}
	return tx.outcome, tx.reason
}
