package client

import "errors"

// Commit asks for the commit. Op tells the outcome. Called again it only waits.
func (tx *Tx) Commit() {
	tx.waiting++
	if tx.state != txOpen {
		tx.undo = false
		tx.askAgain()
		return
	}
	if tx.spoilt != nil {
		tx.rollback(tx.spoilt)
		return
	}
	tx.state = txCommitting
	tx.session.pump()
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
		switch {
		case outcome == TxCommitted:
			tx.reason = nil
		case tx.reason == nil || reason != nil:
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
	case tx.seen:
	case outcome == TxUnknown || tx.waiting == 0 && tx.ever:
		// Nobody has its result: its record must stay, or whoever asks later is told "expired" [2.3].
		if tx.ofPresent() && !errors.Is(reason, ErrExpired) {
			s.known.add(tx.number)
		}
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

// RolledBack says that the transaction is known to be rolled back, without a wait: also where that is still to be told to the broker. Then it
// counts as seen.
func (tx *Tx) RolledBack() (reason error, ok bool) {
	switch {
	case tx.state == txRollingBack:
		return tx.reason, true
	case tx.outcome == TxRolledBack:
		tx.Seen()
		return tx.reason, true
	}
	return nil, false
}
