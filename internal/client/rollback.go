package client

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

// Rollback ends the transaction without effect, unless a commit may have been on a wire: then it waits for that outcome (C10).
func (tx *Tx) Rollback() {
	tx.waiting++
	tx.undo = true
	tx.askAgain()
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
