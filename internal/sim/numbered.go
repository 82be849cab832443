package sim

import (
	"encoding/binary"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// numbered is somebody else's client that sends numbered messages (wire.md) and keeps no unsettled map: what has no answer when
// its connection is lost it sends again on the next, under the same numbers, and each is stored once (C9).
type numbered struct {
	*foreign
	queue  string
	nonces [2]amqp.UUID // of the client and of the session
	id     []byte       // of the session; nil: to be opened
	snd    *engine.Link
	open   []*numberedSend // without an answer, in order
	next   int             // of open, to be handed over
	number uint64
	left   int
	quit   bool
}

type numberedSend struct {
	m      *message
	number uint64
	d      *engine.Delivery // on the present connection
}

func (w *world) newNumbered(name, queue string, messages int) *numbered {
	n := &numbered{foreign: w.newForeign(name), queue: queue, left: messages}
	for i := range n.nonces {
		binary.BigEndian.PutUint64(n.nonces[i][:], w.rng.Uint64())
	}
	n.foreign.open = func() *amqp.Open {
		o := amqp.NewOpen(name)
		o.DesiredCapabilities = []amqp.Symbol{amqp.CapOncemqClient}
		o.Properties = amqp.Map{{Key: amqp.PropNonce, Value: n.nonces[0]}, {Key: amqp.PropAttempt, Value: n.serial}}
		return o
	}
	n.begin = func() *amqp.Begin {
		b := amqp.NewBegin()
		b.DesiredCapabilities = []amqp.Symbol{amqp.CapOncemqSession}
		var id any
		if n.id != nil {
			id = n.id
		}
		b.Properties = amqp.Map{{Key: amqp.PropSession, Value: id}, {Key: amqp.PropNonce, Value: n.nonces[1]}}
		return b
	}
	n.event, n.reset, n.ended = n.moved, n.forget, n.gone
	n.think()
	return n
}

// forget drops what hung on the connection; the sends stay.
func (n *numbered) forget() {
	n.snd, n.next = nil, 0
	for _, x := range n.open {
		x.d = nil
	}
}

func (n *numbered) moved(ev *engine.Event) {
	switch ev.Kind {
	case engine.SessionBegun:
		n.begun(ev)
	case engine.Credit:
		n.push()
	case engine.Disposed:
		for _, d := range ev.Deliveries {
			n.disposed(d, ev.State)
		}
	default:
	}
}

// begun attaches the link. The session is ours for as long as the world lasts: another one would be a loss.
func (n *numbered) begun(ev *engine.Event) {
	v, _ := ev.Begin.Properties.Lookup(string(amqp.PropSession))
	id, _ := v.([]byte)
	if id == nil {
		return // a refusal: End follows
	}
	if n.id != nil && string(n.id) != string(id) {
		n.w.fail("C6", "%s resumed session %x and got %x", n.a.name, n.id, id)
	}
	n.id = append([]byte(nil), id...)
	var err error
	if n.snd, err = n.sender("out", n.queue, amqp.CapOncemqNumbered); err != nil {
		n.reconnect(time.Second)
	}
}

func (n *numbered) think() {
	n.a.soon(0, n.pace, func() {
		if n.left == 0 || n.w.winding || n.gone() {
			n.left = 0
			return
		}
		for burst := n.w.rng.IntN(4); burst >= 0 && n.left > 0 && len(n.open) < 20; burst-- {
			n.left--
			n.number++
			m := n.w.newMessage(n.queue)
			m.producer, m.n, m.begun = n.a.name, int(n.number), true
			n.open = append(n.open, &numberedSend{m: m, number: n.number})
			n.w.ops++
		}
		n.push()
		n.think()
	})
}

// push hands over as much as there is credit for.
func (n *numbered) push() {
	for n.snd != nil && n.next < len(n.open) && n.snd.Credit() > 0 {
		x := n.open[n.next]
		d, err := n.snd.Send(engine.Transfer{
			Tag: binary.BigEndian.AppendUint64(nil, x.number), Payload: [][]byte{x.m.payload()},
		})
		if err != nil {
			return
		}
		d.Data, x.d = x, d
		n.next++
	}
}

func (n *numbered) disposed(d *engine.Delivery, state amqp.DeliveryState) {
	x, ok := d.Data.(*numberedSend)
	if !ok || x.d != d || !amqp.IsOutcome(state) {
		return
	}
	x.m.sent = undone
	if _, ok := state.(*amqp.Accepted); ok {
		x.m.sent = done
	}
	if !d.Settled {
		d.Dispose(nil, true)
	}
	for i, other := range n.open {
		if other == x {
			n.open = append(n.open[:i], n.open[i+1:]...)
			n.next--
			break
		}
	}
}

// leave closes the connection, for good.
func (n *numbered) leave() {
	n.quit = true
	n.close()
	n.a.pump()
}

func (n *numbered) gone() bool    { return n.a.dead || n.quit && n.conn == nil }
func (n *numbered) over() bool    { return n.gone() || n.w.winding && len(n.open) == 0 }
func (n *numbered) about() string { return n.a.name + " (numbered) sends" }
