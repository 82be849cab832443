package frontend

import (
	"fmt"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// The bounds of what an outcome may carry into the log ([3.9], command.Disposition).
const (
	maxReason      = 1024
	maxAnnotations = 4 << 10
)

// onDisposition takes a receiver's outcome for a run of deliveries.
func (c *Conn) onDisposition(k *consumer, ev *engine.Event) {
	if k.over || k.presettled {
		return
	}
	if k.cursor != nil {
		c.passOver(k, ev)
		return
	}
	if ev.State != nil {
		state := ev.State
		if _, partly := state.(*amqp.Received); partly {
			if !ev.Settled {
				return
			}
			state = k.byDefault
		}
		c.settle(k, ev.Deliveries, state, ev.Settled)
		return
	}
	// Settled without a word: what the receiver said before holds, for each run of deliveries of which it said the same.
	for ds := ev.Deliveries; len(ds) > 0; {
		n := 1
		for n < len(ds) && sameWord(ds[n].State, ds[0].State) {
			n++
		}
		c.settle(k, ds[:n], c.meant(k, ds[0].State), ev.Settled)
		ds = ds[n:]
	}
}

// meant is the outcome that an earlier state stands for: the link's default where it is none (checklist 70), or where it was
// bound to a transaction that is over (T16).
func (c *Conn) meant(k *consumer, state amqp.DeliveryState) amqp.DeliveryState {
	switch x := state.(type) {
	case nil, *amqp.Received:
		return k.byDefault
	case *amqp.TransactionalState:
		if c.txOf(x.TxnID) == nil {
			return k.byDefault
		}
	}
	return state
}

func sameWord(a, b amqp.DeliveryState) bool {
	switch a.(type) {
	case nil:
		return b == nil
	case *amqp.Accepted:
		_, ok := b.(*amqp.Accepted)
		return ok
	}
	return a == b
}

func (c *Conn) settle(k *consumer, deliveries []*engine.Delivery, state amqp.DeliveryState, settled bool) {
	if tx, ok := state.(*amqp.TransactionalState); ok {
		c.settleInTx(k, deliveries, tx, settled)
		return
	}
	c.settlePlain(k, deliveries, state, settled)
}

// settlePlain puts one outcome for deliveries into the record: one command for all of them. Where the receiver hasn't settled
// yet, it is told once that is applied; on a resumable link the result stays until it settles [3.3].
func (c *Conn) settlePlain(k *consumer, deliveries []*engine.Delivery, state amqp.DeliveryState, settled bool) {
	disposition, err := dispositionOf(state)
	if err != nil {
		c.detach(k.link, *err)
		return
	}
	s := &c.scratch.settle
	*s = command.Settle{Conn: c.id, Link: k.num, Disposition: disposition, Refs: c.scratch.refs[:0]}
	var outs []*out
	var forget []command.DeliveryRef
	for _, d := range deliveries {
		o, ok := d.Data.(*out)
		switch {
		case !ok:
		case o.tx != nil && o.tx.phase != txDead:
			// A plain outcome for what a live transaction has: the transaction can't keep its word (T14).
			// One that is being decided has it as it was.
			if o.tx.phase != txDeciding {
				o.tx.fail(command.ReasonRefused)
				o.tx.settles[o.place].Settled = o.tx.settles[o.place].Settled || settled
			}
		case o.settledOutside():
		case o.proposed:
			if settled && k.keeps {
				forget = append(forget, o.h.ref)
			}
		default:
			o.proposed = true
			s.Refs = append(s.Refs, o.h.ref)
			if !settled {
				outs = append(outs, o)
			}
		}
	}
	c.scratch.refs = s.Refs
	if len(s.Refs) > 0 {
		if len(outs) > 0 {
			s.Keep = k.keeps
			s.Request = c.expect(answer{kind: answerSettle, consumer: k, outs: outs})
		}
		c.gather(s)
	}
	if len(forget) > 0 {
		c.gather(&command.Forget{Conn: c.id, Link: k.num, Refs: forget})
	}
	c.ready1(k) // it may have had too many unsettled
	c.touch(k)
}

// onSettled tells the receiver that its outcome is applied, or that the delivery had gone elsewhere.
func (c *Conn) onSettled(e *command.Effect) {
	a, ok := c.take(e.Request, answerSettle, answerFence)
	if !ok {
		return
	}
	k := a.consumer
	if a.kind == answerFence && k.cursor != nil {
		c.confirmed = max(c.confirmed, k.cursor.fence)
		c.assured(k, true, a.drain)
		return
	}
	if a.kind == answerFence {
		k.drain.asked = false
		k.drain.sure = k.drain.on && a.size == k.allows && a.drain == k.drain.turn
		k.confirmed = max(k.confirmed, a.size)
		c.touch(k)
		return
	}
	for _, o := range a.outs {
		if lost(e.Refs, o.h.ref) {
			o.d.Dispose(&amqp.Rejected{Error: refuse(amqp.ErrCondDeliveryLost, "the delivery had been given up and went elsewhere")}, true)
			continue
		}
		o.d.Dispose(o.d.State, !k.keeps)
	}
	c.touch(k)
}

func lost(refs []command.DeliveryRef, ref command.DeliveryRef) bool {
	for _, r := range refs {
		if r == ref {
			return true
		}
	}
	return false
}

// dispositionOf is an outcome as it travels in commands.
func dispositionOf(state amqp.DeliveryState) (command.Disposition, *amqp.Error) {
	switch x := state.(type) {
	case *amqp.Accepted:
		return command.Disposition{Outcome: command.Accepted}, nil
	case *amqp.Released:
		return command.Disposition{Outcome: command.Released}, nil
	case *amqp.Rejected:
		d := command.Disposition{Outcome: command.Rejected}
		if x.Error != nil {
			d.Reason = string(x.Error.Condition)
			if x.Error.Description != "" {
				d.Reason = fmt.Sprintf("%s: %s", x.Error.Condition, x.Error.Description)
			}
			if len(d.Reason) > maxReason {
				d.Reason = d.Reason[:maxReason]
			}
		}
		return d, nil
	case *amqp.Modified:
		d := command.Disposition{Outcome: command.Modified, Failed: x.DeliveryFailed, UndeliverableHere: x.UndeliverableHere}
		if len(x.MessageAnnotations) > 0 {
			d.Annotations = amqp.AppendValue(nil, x.MessageAnnotations)
			if len(d.Annotations) > maxAnnotations {
				return d, refuse(amqp.ErrCondResourceLimitExceeded, "annotations of modified have at most 4 KiB")
			}
		}
		return d, nil
	}
	return command.Disposition{}, refuse(amqp.ErrCondNotAllowed, "that is no outcome of a received message")
}
