package sim

import (
	"errors"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
)

// job is a client's part of the workload. It ends by itself once the world is winding up.
type job interface {
	// over says that nothing that it asked for is open any more.
	over() bool
	about() string
}

// goClient is a Go client with one session.
type goClient struct {
	a    *agent
	k    *core
	w    *world
	s    *client.Session
	gone bool          // the session or the client failed for good
	left bool          // it was closed in order
	pace time.Duration // how long it dwells on something, at most
}

// newGoClient starts one; ready is called when its session is open.
func (w *world) newGoClient(name string, rollback bool, ready func()) *goClient {
	a, k := w.newCore(name)
	return w.openSession(a, k, rollback, ready)
}

func (w *world) openSession(a *agent, k *core, rollback bool, ready func()) *goClient {
	g := &goClient{a: a, k: k, w: w, pace: w.pace()}
	k.gone = func(error) { g.gone = true }
	g.s = k.c.OpenSession(rollback)
	k.then(&g.s.Opening, func() {
		if err := g.s.Opening.Err(); err != nil {
			w.say("%s has no session: %v", a.name, err)
			g.gone = true
			return
		}
		ready()
	})
	return g
}

// pace is a client's own: half of them have done all that they are to do before most faults come, the others go on.
func (w *world) pace() time.Duration {
	if w.chance(50) {
		return w.knobs.think
	}
	return w.knobs.think * time.Duration(2+w.rng.IntN(10))
}

// ended says that the client can do nothing more.
func (g *goClient) ended() bool { return g.gone || g.a.dead }

// leave closes the client in order.
func (g *goClient) leave() {
	if !g.left && !g.ended() {
		g.left = true
		g.k.c.Close(g.a.clock())
		g.a.pump()
	}
}

// producer sends plain, numbered messages, several of them under way at a time, in order (K1, K4, K6).
type producer struct {
	*goClient
	queue string
	snd   *client.Sender
	n     int
	open  int
	left  int // to be sent
}

func (w *world) newProducer(name, queue string, messages int) *producer {
	p := &producer{queue: queue, left: messages}
	p.goClient = w.newGoClient(name, w.chance(20), func() {
		p.snd = p.s.NewSender(queue, "")
		p.think()
	})
	return p
}

func (p *producer) think() {
	w := p.w
	p.a.soon(0, p.pace, func() {
		if p.left == 0 || p.w.winding || p.ended() {
			p.left = 0
			return
		}
		for burst := w.rng.IntN(6); p.open < 8 && p.left > 0 && burst >= 0; burst-- {
			p.send()
		}
		p.think()
	})
}

func (p *producer) send() {
	p.left--
	p.n++
	m := p.w.newMessage(p.queue)
	m.producer, m.n, m.begun = p.a.name, p.n, true
	x := p.snd.Send(m.payload())
	p.open++
	p.w.ops++
	p.k.then(&x.Op, func() {
		p.open--
		err := x.Err()
		var refused *amqp.Error
		switch {
		case err == nil:
			m.sent = done
		case x.Unstored() || errors.As(err, &refused) && !errors.Is(err, client.ErrUnknown):
			p.w.say("%s: %s is not stored: %v", p.a.name, m.id, err)
			p.w.count("send refused")
			m.sent = undone
		default:
			p.w.count("send unknown")
		}
	})
}

func (p *producer) over() bool    { return p.ended() || p.open == 0 && p.s.Opening.Done() }
func (p *producer) about() string { return p.a.name + " sends" }

// consumer takes messages and settles each by itself: accepted, and now and then another outcome.
type consumer struct {
	*goClient
	queue string
	r     *client.Receiver
	open  int
	left  int
	last  map[string]int // by producer: the last one that came first to this link (K4)
	bad   bool           // it gives some back
	away  bool           // with what it takes next it goes away for longer than its grace period
}

func (w *world) newConsumer(name, queue string, messages int) *consumer {
	c := &consumer{queue: queue, left: messages, last: map[string]int{}, bad: w.chance(40)}
	c.goClient = w.newGoClient(name, false, func() {
		prefetch := []int{1, 2, 10, 100}[w.rng.IntN(4)]
		c.r = c.s.NewReceiver(queue, "", prefetch)
		c.k.available[c.r] = c.take
		c.take()
	})
	return c
}

// take looks for a message; there is at most one in the hand.
func (c *consumer) take() {
	if c.open > 0 || c.left == 0 || c.w.winding || c.r.Err() != nil {
		return
	}
	d, arrived := c.k.take(c.r)
	if d == nil {
		return
	}
	m := c.w.delivered(c.a.name, c.queue, d.Payload)
	if m == nil {
		return
	}
	c.w.handedOut(c.a, m, c.queue, d.Attempt(), arrived)
	c.w.inOrder(c.last, m, d.Attempt(), c.a.name)
	c.left--
	c.open++
	if c.away {
		c.away = false
		c.w.goAway(c.a)
	}
	breaks := c.k.breaks
	c.a.soon(0, c.pace, func() { c.settle(d, m, breaks) })
}

// settle settles, and is told. What was got and settled on one connection, and the answer too, can't have gone elsewhere (C6).
func (c *consumer) settle(d *client.Delivery, m *message, breaks int) {
	if c.ended() {
		c.open--
		return
	}
	c.w.ops++
	var state amqp.DeliveryState = &amqp.Accepted{}
	h := &holding{m: m}
	back := false
	if c.bad && c.w.chance(30) {
		switch c.w.rng.IntN(3) {
		case 0:
			state, back = &amqp.Released{}, true
		case 1:
			state, back = &amqp.Modified{DeliveryFailed: true}, true
		case 2:
			state, h.back = &amqp.Rejected{}, true
		}
	}
	if !back {
		m.settles = append(m.settles, h)
	}
	x := d.Settle(state)
	c.k.then(&x.Op, func() {
		c.open--
		err := x.Err()
		switch {
		case err == nil:
			h.took = done
		case errors.Is(err, client.ErrDeliveryLost):
			c.w.count("delivery lost")
			h.took = undone
			if breaks == c.k.breaks {
				c.w.fail("K6", "%s lost hand-out %d of %s on an unbroken connection", c.a.name, d.Attempt(), m.id)
			}
		default:
			c.w.count("settlement unknown")
		}
		c.a.soon(0, c.pace, c.take)
	})
}

func (c *consumer) holds(queue string) uint64 {
	if queue != c.queue || c.r == nil || c.ended() {
		return 0
	}
	return uint64(c.r.Held())
}

func (c *consumer) over() bool    { return c.ended() || c.open == 0 && c.s.Opening.Done() }
func (c *consumer) about() string { return c.a.name + " consumes" }

// inOrder is K4: what comes to a link for the first time at all comes in its producer's order.
func (w *world) inOrder(last map[string]int, m *message, attempt uint32, who string) {
	if m.producer == "" || attempt != 1 || m.seen != 1 {
		return
	}
	if m.n <= last[m.producer] {
		w.fail("K4", "%s got %s's number %d behind number %d", who, m.producer, m.n, last[m.producer])
	}
	last[m.producer] = m.n
}

// thinkLong is how long a client may dwell on something, now and then.
const thinkLong = 2 * time.Second
