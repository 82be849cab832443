package frontend

import (
	"encoding/binary"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// cursor makes a consumer a browser (distribution-mode copy): where it stands in its queue. The state knows nothing of it: it reads this
// node's replica, a slice at a time, and takes nothing [4.7]. It gets every message of the queue, also those that others hold: they are in
// the queue until they are settled, and one that came back behind the cursor would never be seen.
type cursor struct {
	// ask is the question as it stands: After is behind all that was put into the consumer's queue.
	ask command.Browse
	// sure: a barrier or fence has come back since the attach. made: the queue is being made.
	sure, made bool
	// asked: an answer is due now. waits: one is due once there is a message.
	asked, waits bool
	// drain is the turn of the drain that the present question is for, ended that of the one which has found the queue's end.
	drain, ended uint32
	// fence is the number of the record with the fence that is under way.
	fence uint64
}

// attachBrowser begins a browser: first the queue is looked for, behind all that was committed before.
func (c *Conn) attachBrowser(s *session, l *engine.Link, a *amqp.Attach, queue string, f filters) {
	k := &consumer{s: s, link: l, filters: f, num: c.nextLink(), byDefault: &amqp.Released{}}
	if amqp.IsOutcome(a.Source.DefaultOutcome) {
		k.byDefault = a.Source.DefaultOutcome // it is echoed, no more
	}
	k.cursor = &cursor{ask: command.Browse{Local: c.opts.Local, Link: k.num, Queue: queue, Filter: f.parsed}}
	l.Data = k
	c.consumers[k.num] = k
	c.awaited()
	c.touch(k)
}

// browse does a browser's next step.
func (c *Conn) browse(k *consumer) {
	b := k.cursor
	switch {
	case b.asked || b.made || k.drain.asked:
		// An answer is on its way.
	case !k.open && !b.sure:
		c.assure(k)
	case !k.open:
		c.question(k, 1, false)
	case k.queue.len() > 0:
		// What waits goes first; the pump touches the consumer again.
	case !k.drain.on:
		if n := k.copies(); n > 0 && !b.waits {
			c.question(k, n, true)
		}
	case k.link.Credit() == 0 || k.room() <= 0 || b.ended == k.drain.turn:
		c.endDrain(k)
	case !k.drain.sure:
		c.assure(k)
	default:
		if n := k.copies(); n > 0 {
			c.question(k, n, false)
		}
	}
}

// copies is how many messages a browser takes now.
func (k *consumer) copies() int { return min(k.takes(), k.room(), command.MaxBrowsed) }

// assure has the question that follows see all that was committed before now, and what this connection has proposed: a barrier, or
// where something is on its way through the log, a fence behind it.
func (c *Conn) assure(k *consumer) {
	if len(c.batch) == 0 && c.proposed == c.confirmed {
		c.barrier(k)
		return
	}
	c.fence(k)
	k.cursor.fence = c.proposed + 1
}

// assured is the answer; turn is that of the drain it was asked for.
func (c *Conn) assured(k *consumer, ok bool, turn uint32) {
	k.drain.asked = false
	if k.detached {
		return
	}
	k.cursor.sure = k.cursor.sure || ok
	k.drain.sure = k.drain.on && ok && turn == k.drain.turn
	c.touch(k)
}

// question asks for a slice; it takes the place of one that waits.
func (c *Conn) question(k *consumer, most int, wait bool) {
	b := k.cursor
	b.ask.Turn++
	b.ask.Most, b.ask.Wait = most, wait
	b.asked, b.waits = !wait, wait
	b.drain = 0
	if k.drain.on && k.drain.sure {
		b.drain = k.drain.turn
	}
	done := c.opts.Browsed
	if err := c.log.Browse(b.ask, func(s *command.BrowseSlice) { done(s) }); err != nil {
		b.asked, b.waits = false, false
		c.notBrowsed(k, &amqp.Error{Condition: amqp.ErrCondInternalError, Description: err.Error()})
	}
}

// BrowseDone brings the answer to a browser's question that was announced through ConnOptions.Browsed. It owns s.
func (c *Conn) BrowseDone(s *command.BrowseSlice, now time.Time) {
	c.now = now
	k := c.consumers[s.Link]
	if k == nil || k.cursor == nil || k.detached || k.cursor.ask.Turn != s.Turn || c.phase == phaseOver {
		return
	}
	b := k.cursor
	b.asked, b.waits = false, false
	switch {
	case !k.open:
		c.browserFound(k, s.Incarnation)
		return
	case s.Incarnation == 0:
		c.notBrowsed(k, refuse(amqp.ErrCondResourceDeleted, "the queue was deleted"))
		return
	}
	for i := range s.Messages {
		x := &s.Messages[i]
		k.queue.push(handed{ref: command.DeliveryRef{Message: x.Position}, inc: s.Incarnation, count: x.Count, overlay: x.Overlay})
	}
	b.ask.After = s.Next
	if !s.More && b.drain != 0 {
		b.ended = b.drain
	}
	c.ready1(k)
	c.touch(k)
}

// browserFound goes on with an attach: the queue is there; or it is made as for any receiver, where the user may do that.
func (c *Conn) browserFound(k *consumer, inc command.Incarnation) {
	b := k.cursor
	switch {
	case inc != 0:
		b.ask.Incarnation = inc
		c.due--
		c.acceptConsumer(k, k.source(command.Anycast), nil)
	case c.node.Allow(c.opts.Principal, RightCreate, b.ask.Queue):
		b.made = true
		create := command.QueueCreate{Conn: c.id, Name: b.ask.Queue, Routing: command.Anycast}
		create.Request = c.expect(answer{kind: answerQueue, consumer: k})
		c.gather(&create)
	default:
		c.notBrowsed(k, refuse(amqp.ErrCondNotFound, "there is no such queue, and the user may not create it"))
	}
}

// onQueueMade is the answer to browserFound's command.
func (c *Conn) onQueueMade(e *command.Effect) {
	a, ok := c.take(e.Request, answerQueue)
	if !ok || a.consumer.detached {
		return
	}
	a.consumer.cursor.made = false
	if e.Refusal != nil {
		err := amqpError(e.Refusal)
		c.notBrowsed(a.consumer, &err)
		return
	}
	c.browserFound(a.consumer, e.Incarnation)
}

// notBrowsed ends a browser with an error.
func (c *Conn) notBrowsed(k *consumer, err *amqp.Error) {
	if k.open {
		c.detach(k.link, *err)
		return
	}
	c.endConsumer(k, true)
	c.forgetName(k.link)
	_ = k.link.Refuse(*err)
}

// endBrowser lets go of what a browser waits for.
func (c *Conn) endBrowser(k *consumer) {
	if !k.open {
		c.due--
	}
	if b := k.cursor; b.waits {
		b.waits = false
		b.ask.Most = 0
		_ = c.log.Browse(b.ask, nil)
	}
}

// passOver takes dispositions about a browser's copies: they do nothing, whatever they say. Where the receiver hasn't settled, we do,
// so that it is done with them too.
func (c *Conn) passOver(k *consumer, ev *engine.Event) {
	if !ev.Settled {
		for _, d := range ev.Deliveries {
			d.Dispose(ev.State, true)
		}
	}
	c.ready1(k)
	c.touch(k) // it may have had too many unsettled
}

// appendCopyTag makes the delivery-tag of a browser's copy: incarnation ‖ message, without the attempt that those of hand-outs end with. So
// it is shorter than they are, and never taken for one (wire.md).
func appendCopyTag(dst []byte, inc command.Incarnation, message uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(inc))
	return binary.BigEndian.AppendUint64(dst, message)
}
