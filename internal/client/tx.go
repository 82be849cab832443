package client

import (
	"encoding/binary"
	"encoding/hex"
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
		if (tx.state == txCommitting || tx.state == txAsking) && tx.waiting == 0 {
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

// lostOne says that a delivery settled in the transaction was lost: the broker then counts too few operations.
func (tx *Tx) lostOne() bool {
	for _, d := range tx.enlisted {
		if d.state == dLost {
			return true
		}
	}
	return false
}
