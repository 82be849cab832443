package client

import (
	"errors"
	"fmt"

	"github.com/oncemq/oncemq/internal/mutant"
)

// lost: the connection is gone, and with it what its node had collected.
func (tx *Tx) lost() {
	if tx.discharge != nil && tx.discharge.Written() && tx.state == txCommitting {
		tx.told = true
	}
	tx.declare, tx.discharge, tx.declared = nil, nil, false
	tx.resumed, tx.disposed = true, 0
	switch {
	case tx.state == txRollingBack, tx.told && mutant.On(mutant.UnknownRolledBack):
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
	default: // also where only this session failed: another one can ask. A client that is closed can't, and says so
		tx.resolve()
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

// askAgain: the outcome could not be learned before, so that a further call asks anew (C10). What expired stays so.
func (tx *Tx) askAgain() {
	if tx.state != txDecided || tx.outcome != TxUnknown || errors.Is(tx.reason, ErrExpired) {
		return
	}
	tx.Op, tx.state, tx.reason = Op{}, txAsking, nil
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
