package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// plain is a client as Qpid JMS is one: none of our capabilities, one session, local transactions. It waits for declared, sends
// each message and waits for its answer, settles what it consumes in the transaction and unsettled, and reconnects anew: what
// a lost connection had in hand is rolled back, or unknown where the discharge was on its way; a message sent by itself it says again, under
// its message-id, over its link attached anew, until that is answered: it must be stored once (C9). Now and then it stops its
// consumer, as JMS's Connection.stop does.
type plain struct {
	*foreign
	in, out   string
	rcv, snd  *engine.Link
	co        *engine.Link
	waiting   []taken
	tag       uint64
	left      int
	number    int
	t         *txn
	txn       []byte
	control   *engine.Delivery // to the coordinator, not answered
	discharge bool             // control ends the transaction
	sending   *engine.Delivery
	sent      *message // by itself
	again     *message // the same, to be said again
	steps     int
	starved   bool   // it waits for credit
	credit    uint32 // of its consumer
	stopped   bool   // its consumer
	leaving   bool
}

// taken is a delivery that waits for its transaction.
type taken struct {
	d *engine.Delivery
	m *message
}

func (w *world) newPlain(name, in, out string, transactions int) *plain {
	p := &plain{foreign: w.newForeign(name), in: in, out: out, left: transactions, credit: 5}
	if w.chance(50) {
		p.credit = 100
	}
	p.open = func() *amqp.Open {
		o := p.sole()
		o.Properties = amqp.Map{{Key: amqp.PropProduct, Value: "QpidJMS"}}
		return o
	}
	p.event, p.reset, p.ended = p.moved, p.forget, p.gone
	return p
}

// forget drops what hung on the connection.
func (p *plain) forget() {
	if p.t != nil {
		p.abandon()
	}
	if p.sent != nil {
		p.w.count("plain send unknown")
		p.again = p.sent
	}
	p.rcv, p.snd, p.co = nil, nil, nil
	p.waiting, p.control, p.sending, p.sent, p.txn, p.stopped = nil, nil, nil, nil, nil, false
}

// abandon ends a transaction whose connection is gone.
func (p *plain) abandon() {
	t := p.t
	p.t = nil
	if t.asked && p.discharge && p.control != nil && p.control.Written() {
		p.w.count("plain commit unknown")
		return
	}
	t.asked = false
	t.decide(p.w, undone, p.a.name)
}

func (p *plain) moved(ev *engine.Event) {
	switch ev.Kind {
	case engine.SessionBegun:
		p.attach()
	case engine.Received:
		m := p.w.delivered(p.a.name, p.in, bytes.Clone(ev.Delivery.Payload))
		if m != nil {
			p.w.handedOut(p.a, m, p.in, attemptOf(ev.Delivery.Tag()), p.w.now)
			p.waiting = append(p.waiting, taken{ev.Delivery, m})
		}
	case engine.Disposed:
		for _, d := range ev.Deliveries {
			p.disposed(d, ev.State)
		}
	case engine.Credit:
		if (p.t == nil || p.starved) && p.control == nil && p.sending == nil {
			p.think()
		}
	default:
	}
}

// attach attaches the three links.
func (p *plain) attach() {
	co := *amqp.NewAttach("tx", amqp.RoleSender)
	co.Source = &amqp.Source{Outcomes: outcomes}
	co.Coordinator = &amqp.Coordinator{Capabilities: []amqp.Symbol{amqp.CapLocalTransactions}}
	var err [3]error
	p.co, err[0] = p.session.Attach(co)
	p.snd, err[1] = p.sender("qpid-jms:sender:"+p.a.name, p.out)
	p.rcv, err[2] = p.receiver("in", p.in)
	if errors.Join(err[:]...) != nil {
		p.reconnect(time.Second)
		return
	}
	_ = p.rcv.SetCredit(p.credit, false)
}

// stop takes the consumer's credit away for a while.
func (p *plain) stop() {
	if p.stopped || p.w.winding {
		return
	}
	p.w.count("consumer stopped")
	p.stopped = true
	_ = p.rcv.SetCredit(0, false)
	serial := p.serial
	p.a.soon(time.Second, 3*time.Second, func() {
		if p.serial == serial && p.stopped {
			p.stopped = false
			_ = p.rcv.SetCredit(p.credit, false)
			p.work()
		}
	})
}

// think plans the next step on this connection.
func (p *plain) think() {
	p.steps++
	p.starved = false
	steps := p.steps
	p.soon(p.pace, func() {
		if p.steps == steps {
			p.next()
		}
	})
}

// next begins a transaction, works in it, or ends it.
func (p *plain) next() {
	switch {
	case p.control != nil || p.sending != nil || p.co == nil || p.co.Credit() == 0 || p.snd.Credit() == 0:
		p.starved = p.control == nil && p.sending == nil
		return // answers or credit will bring us back
	case p.again != nil:
		p.w.count("plain send said again")
		p.sent, p.again = p.again, nil
		p.sending = p.send(p.snd, nil, p.payload(p.sent))
		return
	case p.t == nil && p.w.winding:
		return // what it holds stays with it, until it is to leave
	case p.t == nil && p.left == 0:
		p.leave()
		return
	case p.w.chance(8):
		p.stop()
	case p.t == nil && p.w.chance(20):
		p.sent = p.w.newMessage(p.out)
		p.sent.begun = true
		p.w.ops++
		p.sending = p.send(p.snd, nil, p.payload(p.sent))
		return
	case p.t == nil:
		p.left--
		p.number++
		p.t = p.w.newTx(fmt.Sprintf("%s/%d", p.a.name, p.number))
		p.control, p.discharge = p.send(p.co, nil, amqp.AppendAMQPValue(nil, &amqp.Declare{})), false
		return
	case len(p.t.sends)+len(p.t.settles) > 0 && p.w.chance(40) || p.w.winding:
		p.end(p.w.chance(80))
		return
	case p.w.chance(60) && len(p.waiting) > 0:
		p.consume()
	case p.w.chance(60):
		m := p.w.newMessage(p.out)
		m.tx = p.t
		p.t.sends = append(p.t.sends, m)
		p.w.ops++
		p.sending = p.send(p.snd, &amqp.TransactionalState{TxnID: p.txn}, p.payload(m))
		return
	}
	p.think()
}

// payload is a message with its id.
func (p *plain) payload(m *message) []byte {
	return append(amqp.AppendProperties(nil, &amqp.Properties{MessageID: m.id}), m.payload()...)
}

func (p *plain) send(l *engine.Link, state amqp.DeliveryState, payload []byte) *engine.Delivery {
	p.tag++
	d, err := l.Send(engine.Transfer{Tag: binary.BigEndian.AppendUint64(nil, p.tag), State: state, Payload: [][]byte{payload}})
	if err != nil {
		p.w.fail("K14", "%s can't send: %v", p.a.name, err)
	}
	return d
}

// consume settles the oldest message in the transaction.
func (p *plain) consume() {
	x := p.waiting[0]
	p.waiting = p.waiting[1:]
	if x.d.Settled {
		return
	}
	h := &holding{m: x.m, tx: p.t}
	x.m.settles = append(x.m.settles, h)
	p.t.settles = append(p.t.settles, h)
	p.w.ops++
	x.d.Dispose(&amqp.TransactionalState{TxnID: p.txn, Outcome: &amqp.Accepted{}}, false)
	if p.rcv.Credit() <= p.credit/2 && !p.stopped {
		_ = p.rcv.SetCredit(p.credit, false)
	}
}

func (p *plain) end(commit bool) {
	p.t.asked = commit
	for _, m := range p.t.sends {
		m.begun = m.begun || commit
	}
	p.w.ops++
	p.control, p.discharge = p.send(p.co, nil, amqp.AppendAMQPValue(nil, &amqp.Discharge{TxnID: p.txn, Fail: !commit})), true
}

// disposed takes the broker's answers.
func (p *plain) disposed(d *engine.Delivery, state amqp.DeliveryState) {
	switch {
	case d == p.control && !p.discharge:
		p.control = nil
		if x, ok := state.(*amqp.Declared); ok {
			p.txn = bytes.Clone(x.TxnID)
		} else {
			p.t.decide(p.w, undone, p.a.name)
			p.t = nil
		}
	case d == p.control:
		p.control = nil
		p.decided(state)
	case d == p.sending && p.sent != nil:
		m := p.sent
		p.sending, p.sent = nil, nil
		if _, ok := state.(*amqp.Accepted); ok {
			m.sent = done
		} else {
			m.sent = undone
		}
	case d == p.sending:
		p.sending = nil
	default:
		return
	}
	if !d.Settled {
		d.Dispose(nil, true)
	}
	p.think()
}

func (p *plain) decided(state amqp.DeliveryState) {
	t := p.t
	p.t, p.txn = nil, nil
	_, ok := state.(*amqp.Accepted)
	switch {
	case !t.asked:
		t.decide(p.w, undone, p.a.name)
	case ok:
		t.decide(p.w, done, p.a.name)
	default:
		t.decide(p.w, undone, p.a.name)
	}
	// What waits was handed out before; it stays ours.
}

// leave closes the connection, for good.
func (p *plain) leave() {
	if !p.leaving {
		p.leaving = true
		p.close()
		p.a.pump()
	}
}

// gone says that there is to be no connection any more.
func (p *plain) gone() bool { return p.a.dead || p.leaving && p.conn == nil }

func (p *plain) over() bool {
	idle := p.t == nil && p.sent == nil && p.again == nil && p.control == nil && p.sending == nil
	return p.gone() || p.w.winding && !p.leaving && idle && p.co != nil && p.co.Attached()
}

// holds counts what it has not settled of a queue, as far as the broker knows.
func (p *plain) holds(queue string) uint64 {
	if queue != p.in || p.rcv == nil || p.a.dead {
		return 0
	}
	return uint64(p.rcv.Unsettled())
}

func (p *plain) about() string {
	s := p.a.name + " (plain)"
	if p.conn == nil {
		return s + " has no connection"
	}
	s += " has a connection"
	if p.control != nil {
		s += ", waits for its coordinator"
	}
	if p.sending != nil {
		s += ", waits for the answer to a send"
	}
	if p.co != nil && p.snd != nil {
		s += fmt.Sprintf(", has credit %d and %d", p.co.Credit(), p.snd.Credit())
	}
	return s
}
