package sim

import (
	"errors"
	"fmt"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
)

// churner sends to and consumes from a queue that administrators delete, purge and make again, by itself and in transactions:
// what it is told must hold, its links must end with the reason, and with new ones it goes on.
type churner struct {
	*goClient
	queue  string
	snd    *client.Sender
	r      *client.Receiver
	left   int
	number int
	open   int  // operations without an answer
	tx     bool // one of them is a transaction
}

func (w *world) newChurner(name, queue string, operations int) *churner {
	c := &churner{queue: queue, left: operations}
	c.goClient = w.newGoClient(name, w.chance(20), func() {
		c.attach()
		c.think()
	})
	return c
}

func (c *churner) think() { c.a.soon(0, 3*c.w.knobs.think, c.next) }

// attach makes links in the place of those that have ended.
func (c *churner) attach() {
	if c.snd == nil || c.snd.Err() != nil {
		c.linkEnded("sender", c.snd != nil, func() error { return c.snd.Err() })
		c.snd = c.s.NewSender(c.queue, "")
	}
	if c.r == nil || c.r.Err() != nil {
		c.linkEnded("receiver", c.r != nil, func() error { return c.r.Err() })
		r := c.s.NewReceiver(c.queue, "", 3)
		c.r = r
		c.k.available[r] = func() {}
	}
}

// linkEnded checks why a link has ended (K6).
func (c *churner) linkEnded(which string, was bool, err func() error) {
	if !was {
		return
	}
	var e *amqp.Error
	switch {
	case errors.As(err(), &e) && e.Condition == amqp.ErrCondResourceDeleted || errors.Is(err(), client.ErrClosed):
		c.w.count("link of a deleted queue")
		c.w.say("%s attaches a new %s: %v", c.a.name, which, err())
	default:
		c.w.fail("K6", "%s's %s has ended with %v", c.a.name, which, err())
	}
}

func (c *churner) next() {
	switch {
	case c.ended() || c.left == 0 || c.w.winding:
		c.left = 0
		return
	case c.open > 4 || c.tx:
	default:
		c.left--
		c.attach()
		switch pick := c.w.rng.IntN(10); {
		case pick < 5:
			for range 1 + c.w.rng.IntN(3) {
				c.send()
			}
		case pick < 8:
			c.consume()
		default:
			c.transact()
		}
	}
	c.think()
}

// send sends by itself. A refusal because the queue is gone means that the link has to be made anew.
func (c *churner) send() {
	if c.snd == nil {
		return // it was given up meanwhile, and nothing new is to begin
	}
	m := c.w.newMessage(c.queue)
	m.begun = true
	snd := c.snd
	x := snd.Send(m.payload())
	c.open++
	c.w.ops++
	c.k.then(&x.Op, func() {
		c.open--
		err := x.Err()
		var refused *amqp.Error
		switch {
		case err == nil:
			m.sent, m.stored = done, c.w.stamp()
		case errors.Is(err, client.ErrUnknown):
			c.w.count("send unknown")
		case errors.As(err, &refused) && refused.Condition == amqp.ErrCondResourceDeleted:
			c.w.count("send to a deleted queue")
			m.sent = undone
			if c.snd == snd {
				snd.Close()
				c.snd = nil
			}
		default:
			m.sent = undone
		}
		c.attachSoon()
	})
}

// attachSoon makes a sender anew once its former one has been given up.
func (c *churner) attachSoon() {
	if c.snd == nil && !c.ended() && !c.w.winding {
		c.attach()
	}
}

func (c *churner) take() (*client.Delivery, *message) {
	d := c.r.Take()
	if d == nil {
		return nil, nil
	}
	return d, c.w.delivered(c.a.name, c.queue, d.Payload)
}

// consume settles a message by itself.
func (c *churner) consume() {
	d, m := c.take()
	if m == nil {
		return
	}
	h := &holding{m: m, call: c.w.stamp()}
	m.settles = append(m.settles, h)
	x := d.Settle(&amqp.Accepted{})
	c.open++
	c.w.ops++
	c.k.then(&x.Op, func() {
		c.open--
		switch err := x.Err(); {
		case err == nil:
			h.took = done
		case errors.Is(err, client.ErrDeliveryLost):
			c.w.count("delivery lost")
			h.took = undone
		default:
			c.w.count("settlement unknown")
		}
	})
}

// transact consumes and sends in one transaction.
func (c *churner) transact() {
	tx, err := c.s.Begin()
	if err != nil {
		return
	}
	w := c.w
	c.number++
	t := w.newTx(fmt.Sprintf("%s/%d", c.a.name, c.number))
	t.id, t.named = tx.ID(), true
	w.curious(c.goClient, t)
	if d, m := c.take(); m != nil && tx.Settle(d, &amqp.Accepted{}) == nil {
		h := &holding{m: m, tx: t, call: w.stamp()}
		m.settles = append(m.settles, h)
		t.settles = append(t.settles, h)
	}
	m := w.newMessage(c.queue)
	m.tx, m.begun = t, true
	if _, err := tx.Send(c.snd, m.payload()); err != nil {
		m.sent = undone
	} else {
		t.sends = append(t.sends, m)
	}
	op := w.invoke(&t.object, c.a.name, Commit)
	c.open++
	c.tx = true
	w.ops++
	t.asked = true
	tx.Commit()
	c.k.then(&tx.Op, func() {
		c.open--
		c.tx = false
		outcome, _ := tx.Result()
		w.ended(t, op, outcome, c.a.name)
		if outcome == client.TxCommitted {
			w.count("commit on a queue that may be deleted")
			m.stored = w.stamp()
		}
	})
}

func (c *churner) over() bool    { return c.ended() || c.open == 0 && c.s.Opening.Done() }
func (c *churner) about() string { return c.a.name + " sends and consumes" }
