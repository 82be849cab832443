package frontend

import (
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// drain is a receiver's wish to have all that there is now, up to its credit, and the rest of its credit back [4.6].
type drain struct {
	on bool
	// asked: a fence or a barrier is under way. sure: one has come back since the drain began (or since the allowance was
	// last raised), so that everything accepted before the drain, anywhere, has been handed out if the allowance sufficed.
	asked, sure bool
	// turn tells drains apart: what was asked for one says nothing about what was accepted before the next.
	turn uint32
}

// onCredit: a receiver has changed its credit.
func (c *Conn) onCredit(ev *engine.Event) {
	k, ok := ev.Link.Data.(*consumer)
	if !ok || k.detached {
		return
	}
	if id, named := ev.Properties.Lookup(propTxnID); named && !c.acquire(k, id) {
		return
	}
	if ev.Drain {
		if !k.drain.on {
			c.awaited()
		}
		k.drain.on, k.drain.sure = true, false
		k.drain.turn++
	} else if k.drain.on {
		c.due--
		k.drain.on, k.drain.sure = false, false
	}
	c.ready1(k)
	c.touch(k)
}

// drained ends a drain, or does its next step: hand over what was handed out, be sure that there is nothing more, give
// the credit back.
func (c *Conn) drained(k *consumer) {
	if !k.drain.on {
		return
	}
	credit := int(k.link.Credit())
	switch {
	case credit == 0:
		c.endDrain(k)
	case k.queue.len() > 0 || k.drain.asked || k.withdrawing:
		// What waits goes first; the pump touches the consumer again.
	case k.allowed == 0 && k.full():
		c.endDrain(k) // it can't take more
	case k.allowed == 0 || k.allowedBytes == 0:
		// The allowance is used up, or there never was one: allow raises it, with a fence, as soon as it may.
		k.drain.sure = false
	case k.drain.sure:
		c.endDrain(k)
	case k.confirmed < k.allows:
		c.fence(k) // a barrier could be over before the allowance is applied
	default:
		c.barrier(k)
	}
}

// full says that the link has as many deliveries as it may have, or has credit for.
func (k *consumer) full() bool {
	return k.room() <= 0 || int(k.link.Credit()) <= k.queue.len()
}

func (c *Conn) endDrain(k *consumer) {
	k.link.Drained()
	k.drain.on, k.drain.sure = false, false
	c.due--
}

// fence asks, behind an Allow in the same record, for an answer that comes once both are applied: the log itself is the
// barrier then.
func (c *Conn) fence(k *consumer) {
	k.drain.asked, k.drain.sure = true, false
	s := &c.scratch.settle
	*s = command.Settle{Conn: c.id, Link: k.num, Disposition: command.Disposition{Outcome: command.Accepted}}
	s.Request = c.expect(answer{kind: answerFence, consumer: k, size: k.allows, drain: k.drain.turn})
	c.gather(s)
}

// barrier is one that is under way, and for which turn of the consumer's drains.
type barrier struct {
	consumer *consumer
	turn     uint32
}

// barrier asks whether this replica has applied all that was committed before now.
func (c *Conn) barrier(k *consumer) {
	k.drain.asked = true
	c.lastBarrier++
	id := c.lastBarrier
	c.barriers[id] = barrier{k, k.drain.turn}
	done := c.opts.Barrier
	c.log.Barrier(func(ok bool) { done(id, ok) })
}

// BarrierDone brings the answer of a barrier that was announced through ConnOptions.Barrier.
func (c *Conn) BarrierDone(id uint64, ok bool, _ time.Time) {
	b, known := c.barriers[id]
	delete(c.barriers, id)
	if !known || c.phase == phaseOver {
		return
	}
	k := b.consumer
	if k.cursor != nil {
		c.assured(k, ok, b.turn)
		return
	}
	k.drain.asked = false
	if k.drain.on {
		k.drain.sure = ok && b.turn == k.drain.turn
	}
	c.touch(k)
}
