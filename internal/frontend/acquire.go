package frontend

import (
	"slices"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
)

// propTxnID is the key in a Flow's properties by which a controller has messages acquired in a transaction (4.4.3).
const propTxnID = "txn-id"

// acquire binds what a receiving link is given from now on to the transaction that a Flow names, until that is discharged; null
// ends it before. False: the link is detached. A Flow that says nothing of it leaves it as it is.
func (c *Conn) acquire(k *consumer, txnID any) bool {
	var t *tx
	if txnID != nil {
		id, _ := txnID.([]byte)
		t = c.txOf(id)
		switch {
		case t == nil || t.phase == txDeciding:
			c.detach(k.link, *unknownTx())
			return false
		case t.phase == txDead:
			c.detach(k.link, *refuse(amqp.ErrCondTransactionRollback, t.reason))
			return false
		case k.cursor != nil:
			c.detach(k.link, *refuse(amqp.ErrCondNotAllowed, "a browser (distribution-mode copy) acquires no messages"))
			return false
		case k.presettled:
			// What was sent settled can't be taken back by a rollback.
			c.detach(k.link, *notImplemented("acquisition (a flow with txn-id) on a link that sends settled"))
			return false
		}
		t.used = c.now
	}
	if k.acquires != t {
		c.recall(k) // what has not begun to be sent belongs to the new one
		k.acquires = t
	}
	return true
}

// acquired notes that a delivery, which has just been given to the engine, belongs to its link's transaction.
func (k *consumer) acquired(o *out) {
	if t := k.acquires; t != nil {
		o.acquired = t
		t.acquired = append(t.acquired, o)
	}
}

// state is what a transfer of the link carries: the transaction that its message is acquired in, or nothing.
func (k *consumer) state() amqp.DeliveryState {
	if k.acquires == nil {
		return nil // not a nil pointer in an interface
	}
	return k.acquires.acquisition
}

// forgetAcquired takes a delivery that was withdrawn unsent out of its transaction.
func (o *out) forgetAcquired() {
	if t := o.acquired; t != nil {
		t.acquired = slices.DeleteFunc(t.acquired, func(x *out) bool { return x == o })
		o.acquired = nil
	}
}

// stopAcquiring ends all acquisition in a transaction that is being decided; the links' credit stays (4.4.3).
func (c *Conn) stopAcquiring(t *tx) {
	for _, k := range inOrder(c.consumers) {
		if k.acquires == t {
			c.recall(k)
			k.acquires = nil
		}
	}
}

// closeAcquired ends what a transaction acquired: committed, it stays with its receivers; rolled back, it goes back to its queues, and
// the receivers hear that. What they had settled in the transaction goes its own way.
func (c *Conn) closeAcquired(t *tx, committed bool) {
	c.stopAcquiring(t)
	list := t.acquired
	t.acquired = nil
	aborted := false
	for _, o := range list {
		o.acquired = nil
		if committed || o.k.over || o.proposed || o.tx == t && t.settles[o.place].Settled {
			continue
		}
		if o.d.Sent() {
			o.d.Dispose(&amqp.Released{}, true)
		} else if !o.k.detached {
			c.abort(o)
			aborted = true
		}
		back := command.Disposition{Outcome: command.Modified, Failed: true}
		if o.tx == t {
			back = command.Disposition{Outcome: command.Released} // the rollback, which has it, counts for it (T16)
		}
		c.giveBackAs(o.k, o, back)
	}
	if aborted {
		c.eng.Flush() // the rest of such a delivery is called off before the discharge is answered
	}
}

// abort calls off a delivery that is sent in part.
func (c *Conn) abort(o *out) {
	o.d.Abort()
	k := o.k
	k.sending = slices.DeleteFunc(k.sending, func(x *out) bool { return x == o })
	k.sendingBytes -= int(o.h.size)
	c.recycle(o)
	c.touch(k)
}

// acquiredElsewhere says that another live transaction than t has acquired a delivery, which t therefore can't have (T14).
func (o *out) acquiredElsewhere(t *tx) bool { return o.acquired != nil && o.acquired != t }

// settledOutside is a plain outcome for what a live transaction has acquired: that can't keep its word any more (T14).
func (o *out) settledOutside() bool {
	if o.acquired == nil || o.tx != nil {
		return false
	}
	o.acquired.fail(command.ReasonRefused)
	return true
}
