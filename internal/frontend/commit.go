package frontend

import (
	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
	"github.com/oncemq/oncemq/internal/mutant"
)

// onDischarge ends a transaction: commit, or rollback where fail is set.
func (c *Conn) onDischarge(k *coordinator, d *engine.Delivery, x *amqp.Discharge, notes amqp.Map) {
	var id command.TxID
	if len(x.TxnID) != len(id) {
		c.reject(k, d, refuse(amqp.ErrCondTransactionUnknownID, "no txn-id of ours"))
		return
	}
	copy(id[:], x.TxnID)
	operations := int64(-1)
	if v, ok := notes.Lookup(string(amqp.AnnotationOperations)); ok {
		if n, fine := unsigned(v); fine {
			operations = int64(min(n, 1<<31))
		}
	}
	t := c.txs[id]
	if t == nil && k.tagged && c.sessionOf(id.Session()) != nil && id.Number() > 0 {
		// A discharge said again after a failover, without its declare: the first result, or one that is not whole.
		t = c.newTx(k, id, true)
		if operations < 0 {
			t.fail(command.ReasonIncomplete)
		}
	}
	if t == nil || t.phase == txDeciding {
		c.reject(k, d, refuse(amqp.ErrCondTransactionUnknownID, "there is no such transaction, or it was discharged before"))
		return
	}
	if known, ok := knownOf(notes); ok {
		t.known = known
	}
	if operations >= 0 {
		t.operations = operations
	}
	t.coordinator = k
	if t.phase == txAsking {
		t.discharge, t.failing = d, x.Fail
		return
	}
	c.discharge(t, d, x.Fail)
}

// discharge puts the decision into the log; the answer comes when it is applied.
func (c *Conn) discharge(t *tx, d *engine.Delivery, fail bool) {
	if !fail && c.partial(t) {
		t.fail(command.ReasonRefused)
		k := t.coordinator
		c.terminate(k, "a delivery of the transaction was not complete at its discharge")
		if t.tagged {
			c.kill(t, command.ReasonRefused)
		}
		return
	}
	if !t.tagged && !t.named && t.count() == 0 && t.reason == "" {
		c.closeOut(t, !fail)
		delete(c.txs, t.id) // nothing to decide, and nobody to ask about it
		d.Dispose(accepted, true)
		return
	}
	c.stopAcquiring(t)
	dead := t.phase == txDead
	t.phase, t.failing = txDeciding, fail
	c.deciding++
	if fail || t.reason != "" || dead {
		c.rollback(t, d)
		return
	}
	commit := &c.scratch.commit
	*commit = command.Commit{
		Conn: c.id, Tx: t.record(), Named: t.named, Operations: t.operations, Counted: uint32(t.count()),
		Known: t.known, Sends: t.sends, Settles: t.settles,
	}
	commit.Request = c.expect(answer{kind: answerCommit, tx: t, delivery: d})
	c.gather(commit)
	*commit = command.Commit{}
	if mutant.On(mutant.EarlyAnswer) {
		d.Dispose(accepted, true)
	}
}

// partial says that a message of the transaction has begun to arrive and isn't complete (T10).
func (c *Conn) partial(t *tx) bool {
	for _, p := range c.producers {
		state, ok := p.link.Partial()
		if x, transacted := state.(*amqp.TransactionalState); ok && transacted && string(x.TxnID) == string(t.id[:]) {
			return true
		}
	}
	return false
}

// onDecided answers a discharge.
func (c *Conn) onDecided(e *command.Effect) {
	a, ok := c.take(e.Request, answerCommit, answerRollback)
	if !ok {
		return
	}
	t := a.tx
	c.deciding--
	delete(c.txs, t.id)
	if t.tagged {
		t.home.last = max(t.home.last, t.id.Number())
	}
	committed := e.Refusal == nil && e.Outcome == command.TxCommitted
	if e.Refusal != nil && len(t.settles) > 0 {
		// The name was no good, so nothing was decided under it: what was settled goes back as from any rollback.
		c.gather(&command.Rollback{Conn: c.id, Reason: command.ReasonRefused, Settles: t.settles})
	}
	c.closeOut(t, committed)
	c.answerDischarge(t, a.delivery, e)
	if c.stopping != "" && c.deciding == 0 {
		c.leave(c.stopping)
	}
}

// closeOut settles the enlisted deliveries that their receiver had left unsettled, once they are committed (T17); rolled
// back they stay with it (T16), unless it has settled them since.
func (c *Conn) closeOut(t *tx, committed bool) {
	c.closeAcquired(t, committed)
	for _, o := range t.outs {
		e := &t.settles[o.place]
		switch {
		case e.Settled:
		case committed:
			o.proposed = true
			state := o.d.State
			if x, ok := state.(*amqp.TransactionalState); ok {
				state = x.Outcome
			}
			o.d.Dispose(state, true)
		case o.d.Settled:
			o.tx = nil
			c.giveBack(o.k, o, true)
		}
	}
	c.release(t)
}

// answerDischarge gives the result in the words of AMQP, and of the client's product.
func (c *Conn) answerDischarge(t *tx, d *engine.Delivery, e *command.Effect) {
	switch {
	case e.Refusal != nil && t.failing && !t.tagged:
		d.Dispose(accepted, true) // T6: there is nothing of it that could commit
	case e.Refusal != nil:
		err := amqpError(e.Refusal)
		c.reject(t.coordinator, d, &err)
	case t.failing && e.Outcome == command.TxRolledBack, !t.failing && e.Outcome == command.TxCommitted:
		d.Dispose(accepted, true)
	case !t.failing && e.Outcome == command.TxRolledBack:
		reason := e.Reason
		if reason == "" {
			reason = t.reason
		}
		condition := c.quirks.rollback()
		if reason == command.ReasonTimeout {
			condition = amqp.ErrCondTransactionTimeout
		}
		c.reject(t.coordinator, d, &amqp.Error{
			Condition: condition, Description: "the transaction is rolled back: " + reason,
			Info: amqp.Map{{Key: amqp.InfoReason, Value: reason}},
		})
	default: // committed although a rollback was asked for (C10), expired, prepared
		c.reject(t.coordinator, d, decided(e))
	}
}
