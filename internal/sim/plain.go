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
// a lost connection had in hand is rolled back, or unknown where the discharge was on its way.
type plain struct {
	a      *agent
	w      *world
	conn   *engine.Conn
	serial uint32
	live   bool // dialled
	at     int
	retry  time.Time
	tickAt time.Time

	in, out   string
	session   *engine.Session
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
	steps     int
}

// taken is a delivery that waits for its transaction.
type taken struct {
	d *engine.Delivery
	m *message
}

func (w *world) newPlain(name, in, out string, transactions int) *plain {
	p := &plain{a: &agent{w: w, name: name}, w: w, in: in, out: out, left: transactions, at: w.rng.IntN(len(w.nodes))}
	p.a.m = p
	w.agents = append(w.agents, p.a)
	p.reconnect(0)
	w.after(0, p.a.pump)
	return p
}

func (p *plain) now() time.Time { return p.a.clock() }

// reconnect drops everything and plans the next dial.
func (p *plain) reconnect(pause time.Duration) {
	if p.t != nil {
		p.forget()
	}
	if p.sent != nil {
		p.w.count("plain send unknown")
		p.sent, p.sending = nil, nil
	}
	p.conn, p.session, p.rcv, p.snd, p.co, p.live = nil, nil, nil, nil, nil, false
	p.waiting, p.control, p.sending, p.txn, p.tickAt = nil, nil, nil, nil, time.Time{}
	p.at = (p.at + 1) % len(p.w.nodes)
	p.retry = p.now().Add(pause)
	p.serial++
}

// forget ends a transaction whose connection is gone.
func (p *plain) forget() {
	t := p.t
	p.t = nil
	if t.asked && p.discharge && p.control != nil && p.control.Written() {
		p.w.count("plain commit unknown")
		return
	}
	t.asked = false
	t.decide(p.w, undone, p.a.name)
}

func (p *plain) socket() (uint32, string) {
	if p.over() || p.now().Before(p.retry) {
		return 0, ""
	}
	return p.serial, address(p.at + 1)
}

func (p *plain) dialed(serial uint32, err error) {
	if serial != p.serial {
		return
	}
	if err != nil {
		p.reconnect(p.w.between(20*time.Millisecond, 500*time.Millisecond))
		return
	}
	p.live = true
	p.conn = engine.New(engine.Config{IdleTimeout: 10 * time.Second})
	o := amqp.NewOpen(p.a.name)
	o.DesiredCapabilities = []amqp.Symbol{amqp.CapSoleConnection}
	_ = p.conn.Open(*o)
	p.a.soon(openTimeout, openTimeout, func() {
		if p.serial == serial && p.session == nil {
			p.a.hangUp(false)
			p.reconnect(0)
		}
	})
}

func (p *plain) lost(serial uint32, _ error) {
	if serial == p.serial {
		p.reconnect(p.w.between(0, 200*time.Millisecond))
	}
}

func (p *plain) input(serial uint32, b []byte) int {
	if serial != p.serial || p.conn == nil {
		return len(b)
	}
	n, err := p.conn.Input(b, p.now())
	p.work()
	if err != nil {
		p.reconnect(time.Second)
	}
	return n
}

func (p *plain) output(serial uint32) []byte {
	if serial != p.serial || p.conn == nil {
		return nil
	}
	return p.conn.TakeOutput(nil, p.now())
}

func (p *plain) events() bool { return false }

func (p *plain) deadline() time.Time {
	switch {
	case p.conn != nil:
		return p.tickAt
	case p.now().Before(p.retry):
		return p.retry
	default:
		return time.Time{} // dialling
	}
}

func (p *plain) tick() {
	if p.conn != nil {
		p.tickAt = p.conn.Tick(p.now())
		p.work()
	}
}

// work takes the engine's events, and does the next thing. What a tick finds, such as a silent peer, is an event as well.
func (p *plain) work() {
	for p.conn != nil {
		ev, ok := p.conn.Next()
		if !ok {
			p.tickAt = p.conn.Tick(p.now())
			if ev, ok = p.conn.Next(); !ok {
				return
			}
		}
		p.event(&ev)
	}
}

func (p *plain) event(ev *engine.Event) {
	switch ev.Kind {
	case engine.Opened:
		p.session, _ = p.conn.Begin(*amqp.NewBegin())
	case engine.Closed:
		p.w.say("%s is closed: %v", p.a.name, ev.Err)
		p.reconnect(p.w.between(0, 200*time.Millisecond))
	case engine.SessionBegun:
		p.attach()
	case engine.SessionEnded, engine.LinkDetached:
		p.w.say("%s: detached or ended: %v", p.a.name, ev.Err)
		p.reconnect(100 * time.Millisecond)
	case engine.Received:
		m := p.w.delivered(p.a.name, p.in, bytes.Clone(ev.Delivery.Payload))
		if m != nil {
			p.waiting = append(p.waiting, taken{ev.Delivery, m})
		}
	case engine.Disposed:
		for _, d := range ev.Deliveries {
			p.disposed(d, ev.State)
		}
	case engine.Credit:
		if p.t == nil && p.control == nil && p.sending == nil {
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
	snd := *amqp.NewAttach("out", amqp.RoleSender)
	snd.Source = &amqp.Source{Address: amqp.Some(p.a.name), Outcomes: outcomes}
	snd.Target = &amqp.Target{Address: amqp.Some(p.out)}
	rcv := *amqp.NewAttach("in", amqp.RoleReceiver)
	rcv.Source = &amqp.Source{Address: amqp.Some(p.in), Outcomes: outcomes, DefaultOutcome: &amqp.Modified{DeliveryFailed: true}}
	rcv.Target = &amqp.Target{}
	var err [3]error
	p.co, err[0] = p.session.Attach(co)
	p.snd, err[1] = p.session.Attach(snd)
	p.rcv, err[2] = p.session.Attach(rcv)
	if errors.Join(err[:]...) != nil {
		p.reconnect(time.Second)
		return
	}
	_ = p.rcv.SetCredit(5, false)
}

var outcomes = []amqp.Symbol{amqp.OutcomeAccepted, amqp.OutcomeRejected, amqp.OutcomeReleased, amqp.OutcomeModified}

// think plans the next step on this connection.
func (p *plain) think() {
	p.steps++
	steps, serial := p.steps, p.serial
	p.a.soon(0, p.w.knobs.think, func() {
		if p.steps == steps && p.serial == serial && p.conn != nil {
			p.next()
			p.work()
		}
	})
}

// next begins a transaction, works in it, or ends it.
func (p *plain) next() {
	switch {
	case p.control != nil || p.sending != nil || p.co == nil || p.co.Credit() == 0 || p.snd.Credit() == 0:
		return // answers or credit will bring us back
	case p.t == nil && (p.left == 0 || p.w.winding):
		p.left = 0
		p.close()
		return
	case p.t == nil && p.w.chance(20):
		p.sent = p.w.newMessage(p.out)
		p.sent.begun = true
		p.w.ops++
		p.sending = p.send(p.snd, nil, p.sent.payload())
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
		p.sending = p.send(p.snd, &amqp.TransactionalState{TxnID: p.txn}, m.payload())
		return
	}
	p.think()
}

// close ends the connection in order. A node that is gone does not answer: then the socket ends without.
func (p *plain) close() {
	_ = p.conn.Close(nil)
	serial := p.serial
	p.a.soon(openTimeout, openTimeout, func() {
		if p.serial == serial && p.conn != nil {
			p.a.hangUp(false)
			p.reconnect(0)
		}
	})
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
	if p.rcv.Credit() < 3 {
		_ = p.rcv.SetCredit(5, false)
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

func (p *plain) over() bool {
	return p.a.dead || p.left == 0 && p.t == nil && p.sent == nil && p.conn == nil || p.w.winding && p.t == nil && p.sent == nil && p.conn == nil
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
