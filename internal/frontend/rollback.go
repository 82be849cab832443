package frontend

import (
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// rollback puts a discharged transaction's rollback into the log.
func (c *Conn) rollback(t *tx, d *engine.Delivery) {
	r := c.rollbackOf(t, t.reason)
	if t.reason == "" {
		r.Reason = command.ReasonClient
	}
	r.Request = c.expect(answer{kind: answerRollback, tx: t, delivery: d})
	c.gather(r)
	*r = command.Rollback{}
}

func (c *Conn) rollbackOf(t *tx, reason string) *command.Rollback {
	r := &c.scratch.rollback
	*r = command.Rollback{Conn: c.id, Tx: t.record(), Named: t.named, Reason: reason, Known: t.known, Settles: t.settles}
	return r
}

// kill rolls a transaction back that was not discharged (time-out, too large): its deliveries go back at once, and its
// discharge will hear why.
func (c *Conn) kill(t *tx, reason string) {
	if t.phase == txDead || t.phase == txDeciding {
		return
	}
	t.reason = reason
	r := c.rollbackOf(t, reason)
	if t.named {
		// By themselves: what was settled must go back also where the name is no good, and no answer tells of that.
		r.Settles = nil
		c.gather(r)
		*r = command.Rollback{Conn: c.id, Reason: reason, Settles: t.settles}
	}
	if len(r.Settles) > 0 || !r.Tx.IsZero() {
		c.gather(r)
	}
	*r = command.Rollback{}
	c.closeOut(t, false)
	t.phase = txDead
}

// abandon rolls back and forgets the undecided transactions for which match holds: their control link or session is gone
// (T7).
func (c *Conn) abandon(match func(*tx) bool) {
	for _, t := range c.txsInOrder() {
		if !match(t) || t.phase == txDeciding {
			continue
		}
		reason := command.ReasonClient
		if t.tagged {
			reason = command.ReasonSessionEnded
		}
		c.kill(t, reason)
		delete(c.txs, t.id)
	}
}

// expire rolls back the transactions that are idle or open for too long (T20), and says when to look again.
func (c *Conn) expire() (next time.Time) {
	cfg := &c.node.cfg
	for _, t := range c.txsInOrder() {
		if t.phase == txDead || t.phase == txDeciding {
			continue
		}
		due := earliest(t.used.Add(cfg.TxIdle), t.began.Add(cfg.TxTotal))
		if !due.After(c.now) {
			c.kill(t, command.ReasonTimeout)
			continue
		}
		next = earliest(next, due)
	}
	return next
}
