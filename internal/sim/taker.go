package sim

import (
	"bytes"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// taker is a plain client that receives outside of transactions. One that drains, as JMS's receiveNoWait does, has its queue to
// itself: when a drain is over, what was stored before it began has come, through whichever node it was sent (C16, [4.6]).
// Others leave their credit open, and hold each message for a while.
type taker struct {
	*foreign
	queue   string
	hold    time.Duration // 0: it drains
	rcv     *engine.Link
	polling bool
	due     []*message // stored before the drain began, and not seen by then
	got     int        // by this drain
	answers map[*engine.Delivery]*holding
	leaving bool
}

// takerCredit is how many messages one drain asks for.
const takerCredit = 10

func (w *world) newTaker(name, queue string, hold time.Duration) *taker {
	p := &taker{foreign: w.newForeign(name), queue: queue, hold: hold}
	p.open, p.event, p.reset, p.ended = p.sole, p.moved, p.forget, p.gone
	p.forget()
	return p
}

func (p *taker) forget() {
	p.rcv, p.polling, p.due = nil, false, nil
	p.answers = map[*engine.Delivery]*holding{}
}

func (p *taker) moved(ev *engine.Event) {
	switch ev.Kind {
	case engine.SessionBegun:
		var err error
		if p.rcv, err = p.receiver("poll", p.queue); err != nil {
			p.reconnect(time.Second)
		}
	case engine.LinkAttached:
		if p.hold > 0 {
			_ = p.rcv.SetCredit(2*takerCredit, false)
			return
		}
		p.think()
	case engine.Received:
		p.received(ev.Delivery)
	case engine.Drained:
		p.drained()
	case engine.Disposed:
		for _, d := range ev.Deliveries {
			p.disposed(d, ev.State)
		}
	default:
	}
}

func (p *taker) think() { p.soon(10*p.w.knobs.think, p.poll) }

// poll begins a drain.
func (p *taker) poll() {
	if p.polling || p.w.winding || p.leaving {
		return
	}
	p.polling, p.got, p.due = true, 0, nil
	for _, m := range p.w.history.list {
		if m.queue == p.queue && m.sent == done && m.seen == 0 {
			p.due = append(p.due, m)
		}
	}
	p.w.ops++
	p.w.count("poll")
	_ = p.rcv.SetCredit(takerCredit, true)
}

// drained is the end of a poll: with credit left the queue was empty.
func (p *taker) drained() {
	if !p.polling {
		return
	}
	p.polling = false
	for _, m := range p.due {
		if m.seen == 0 && p.got < takerCredit {
			p.w.fail("K7", "%s drained %s of %d messages, and %s, which was stored before, did not come", p.a.name, p.queue, p.got, m.about())
			break
		}
	}
	p.think()
}

func (p *taker) received(d *engine.Delivery) {
	m := p.w.delivered(p.a.name, p.queue, bytes.Clone(d.Payload))
	if m == nil {
		return
	}
	p.w.handedOut(p.a, m, p.queue, attemptOf(d.Tag()), p.w.now)
	if p.hold > 0 {
		p.soon(p.hold, func() { p.accept(d, m) })
		return
	}
	p.accept(d, m)
	p.got++
}

func (p *taker) accept(d *engine.Delivery, m *message) {
	h := &holding{m: m}
	m.settles = append(m.settles, h)
	p.answers[d] = h
	d.Dispose(&amqp.Accepted{}, false)
	if p.hold > 0 && p.rcv.Credit() < takerCredit {
		_ = p.rcv.SetCredit(2*takerCredit, false)
	}
}

func (p *taker) disposed(d *engine.Delivery, state amqp.DeliveryState) {
	h := p.answers[d]
	if h == nil {
		return
	}
	delete(p.answers, d)
	h.took = undone
	if _, ok := state.(*amqp.Accepted); ok {
		h.took = done
	}
	if !d.Settled {
		d.Dispose(nil, true)
	}
}

// leave closes the connection, for good.
func (p *taker) leave() {
	p.leaving = true
	p.close()
	p.a.pump()
}

func (p *taker) gone() bool { return p.a.dead || p.leaving && p.conn == nil }

func (p *taker) over() bool {
	return p.gone() || p.w.winding && !p.polling && len(p.answers) == 0 && p.rcv != nil && p.rcv.Attached()
}

func (p *taker) about() string { return p.a.name + " takes" }
