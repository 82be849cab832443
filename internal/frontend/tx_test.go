package frontend

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// control is a client's coordinator link.
type control struct {
	p *pair
	l *engine.Link
}

func coordinatorAttach(name string) *amqp.Attach {
	a := amqp.NewAttach(name, amqp.RoleSender)
	a.Source = &amqp.Source{Outcomes: allOutcomes}
	a.Coordinator = &amqp.Coordinator{Capabilities: []amqp.Symbol{amqp.CapLocalTransactions}}
	return a
}

func (p *pair) coordinator(s *engine.Session, change ...func(*amqp.Attach)) *control {
	p.r.t.Helper()
	tags++
	a := coordinatorAttach(fmt.Sprint("c", tags))
	for _, f := range change {
		f(a)
	}
	l, ev := p.attach(s, a)
	if ev.Refused {
		p.r.t.Fatal("coordinator refused")
	}
	p.r.pump()
	return &control{p, l}
}

func tagged(a *amqp.Attach) { a.DesiredCapabilities = []amqp.Symbol{amqp.CapOncemqTx} }

// notes are the annotations of a message to the coordinator.
func notes(m amqp.Map, v any) []byte {
	var b []byte
	if m != nil {
		b = amqp.AppendMessageAnnotations(nil, m)
	}
	return amqp.AppendAMQPValue(b, v)
}

func (k *control) say(b []byte) *engine.Delivery {
	k.p.r.t.Helper()
	return k.p.send(k.l, engine.Transfer{Payload: [][]byte{b}})
}

// declare declares and gives the txn-id.
func (k *control) declare() []byte {
	k.p.r.t.Helper()
	d := k.say(notes(nil, &amqp.Declare{}))
	k.p.r.pump()
	return wantState[*amqp.Declared](k.p.r.t, d, true).TxnID
}

func (k *control) discharge(id []byte, fail bool) *engine.Delivery {
	k.p.r.t.Helper()
	d := k.say(notes(nil, &amqp.Discharge{TxnID: id, Fail: fail}))
	k.p.r.pump()
	return d
}

func (k *control) commit(id []byte) {
	k.p.r.t.Helper()
	wantState[*amqp.Accepted](k.p.r.t, k.discharge(id, false), true)
}

func (k *control) rollback(id []byte) {
	k.p.r.t.Helper()
	wantState[*amqp.Accepted](k.p.r.t, k.discharge(id, true), true)
}

func inTx(id []byte, outcome amqp.DeliveryState) *amqp.TransactionalState {
	return &amqp.TransactionalState{TxnID: id, Outcome: outcome}
}

func (p *pair) sendIn(id []byte, l *engine.Link, s string) *engine.Delivery {
	p.r.t.Helper()
	d := p.send(l, engine.Transfer{Payload: [][]byte{text(s)}, State: inTx(id, nil)})
	p.r.pump()
	return d
}

// Answers within a transaction whose discharge is in already go with the discharge's answer: one write for all. Where another transaction
// is open they go at once, since its client may wait for them.
func TestAnswersRideWithTheDischarge(t *testing.T) {
	r := newRig(t)
	c := r.ours()
	k := c.p.coordinator(c.s, tagged)
	l := c.p.sender(c.s, "q")
	r.pump()
	whole := func(number uint64) (declared, sent, decided *engine.Delivery) {
		id := command.NewTxID(command.SessionID(c.id), number)
		declared = k.say(notes(amqp.Map{{Key: amqp.AnnotationNumber, Value: number}}, &amqp.Declare{}))
		sent = c.p.send(l, engine.Transfer{Payload: [][]byte{text("x")}, State: inTx(id[:], nil)})
		return declared, sent, k.say(notes(nil, &amqp.Discharge{TxnID: id[:]}))
	}
	r.log.held = true
	declared, sent, decided := whole(1)
	wrote := c.p.wrote
	r.pump()
	if c.p.wrote != wrote || declared.State != nil {
		t.Fatalf("%d bytes were written before the decision", c.p.wrote-wrote)
	}
	r.log.held = false
	r.pump()
	wantState[*amqp.Declared](t, declared, true)
	wantState[*amqp.TransactionalState](t, sent, true)
	wantState[*amqp.Accepted](t, decided, true)

	k.say(notes(amqp.Map{{Key: amqp.AnnotationNumber, Value: uint64(2)}}, &amqp.Declare{}))
	r.log.held = true
	declared, _, _ = whole(3)
	r.pump()
	wantState[*amqp.Declared](t, declared, true)
}

// T1, checklist 80: the capabilities that are real, and credit that never runs out.
func TestCoordinatorAttach(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	s := p.begin()
	_, ev := p.attach(s, coordinatorAttach("c"))
	caps := ev.Attach.Coordinator.Capabilities
	if !symbolIn(caps, amqp.CapLocalTransactions) || symbolIn(caps, amqp.CapDistributedTransactions) || symbolIn(caps, amqp.CapOncemqTx) {
		t.Fatalf("capabilities %v", caps)
	}
	k := p.coordinator(s)
	ids := make(map[string]bool)
	for range 1000 {
		id := k.declare()
		if len(id) > 32 || ids[string(id)] {
			t.Fatalf("id %x used twice or too long", id)
		}
		ids[string(id)] = true
		k.commit(id)
	}
}

// T2 to T5, checklist 81, 83, 84: how declares may look, and how they are refused.
func TestDeclare(t *testing.T) {
	symbolic := append([]byte{0x00, 0x53, 0x77, 0x00, 0xa3, 17}, "amqp:declare:list"...)
	symbolic = append(symbolic, 0xc0, 2, 1, 0x40)
	for _, tc := range []struct {
		name string
		body []byte
	}{
		{"numeric", []byte{0x00, 0x53, 0x77, 0x00, 0x53, 0x31, 0x45}},
		{"symbolic with null", symbolic},
		{"header and properties", append(amqp.AppendProperties(amqp.AppendHeader(nil, &amqp.Header{Durable: true}), &amqp.Properties{To: "x"}),
			notes(nil, &amqp.Declare{})...)},
	} {
		r := newRig(t)
		p := r.open("a")
		k := p.coordinator(p.begin())
		d := k.say(tc.body)
		r.pump()
		if id := wantState[*amqp.Declared](t, d, true).TxnID; len(id) == 0 || len(id) > 32 {
			t.Errorf("%s: id %x", tc.name, id)
		}
	}
	r := newRig(t)
	p := r.open("a")
	s := p.begin()
	k := p.coordinator(s)
	for _, tc := range []struct {
		body      []byte
		condition amqp.Symbol
	}{
		{notes(nil, &amqp.Declare{GlobalID: []byte("x")}), amqp.ErrCondNotImplemented},
		{notes(nil, "hello"), amqp.ErrCondInvalidField},
		{amqp.AppendData(nil, []byte("x")), amqp.ErrCondDecodeError},
		{[]byte{1, 2, 3}, amqp.ErrCondDecodeError},
		{notes(nil, &amqp.Prepare{TxnID: []byte("a"), XID: []byte("b")}), amqp.ErrCondNotImplemented},
	} {
		d := k.say(tc.body)
		r.pump()
		wantRejected(t, d, tc.condition)
	}
	d := p.send(k.l, engine.Transfer{Payload: [][]byte{notes(nil, &amqp.Declare{})}, State: inTx(k.declare(), nil)})
	r.pump()
	wantRejected(t, d, amqp.ErrCondNotAllowed) // T8
	// T4: where the source doesn't know rejected, the link goes with the error.
	poor := p.coordinator(s, func(a *amqp.Attach) { a.Source.Outcomes = []amqp.Symbol{amqp.OutcomeAccepted} })
	poor.say(notes(nil, &amqp.Declare{GlobalID: "x"}))
	p.wantDetached(poor.l, amqp.ErrCondNotImplemented)
	// T2: a pre-settled declare.
	pre := p.coordinator(s)
	p.send(pre.l, engine.Transfer{Payload: [][]byte{notes(nil, &amqp.Declare{})}, Settled: true})
	p.wantDetached(pre.l, amqp.ErrCondNotAllowed)
}

// T6, checklist 93, 96: unknown ids everywhere, and a rollback that always succeeds.
func TestUnknownID(t *testing.T) {
	r := newRig(t)
	p, s := r.fill("q", "1")
	k := p.coordinator(s)
	unknown := bytes.Repeat([]byte{9}, 24)
	for _, id := range [][]byte{unknown, []byte("short")} {
		wantRejected(t, k.discharge(id, false), amqp.ErrCondTransactionUnknownID)
		snd := p.sender(s, "q")
		p.sendIn(id, snd, "x")
		p.wantDetached(snd, amqp.ErrCondTransactionUnknownID)
	}
	pre := p.sender(s, "q")
	p.send(pre, engine.Transfer{Payload: [][]byte{text("x")}, State: inTx(unknown, nil), Settled: true})
	p.wantDetached(pre, amqp.ErrCondTransactionUnknownID)
	rcv := p.receiver(s, "q", 1)
	p.want("1")[0].d.Dispose(inTx(unknown, &amqp.Accepted{}), true)
	p.wantDetached(rcv, amqp.ErrCondTransactionUnknownID)
	r.wantDepth("q", "1/0") // nothing was stored, nothing consumed
	id := k.declare()
	k.commit(id)
	wantRejected(t, k.discharge(id, false), amqp.ErrCondTransactionUnknownID)
}

// T7, checklist 94: a control link, session or connection that goes rolls its transactions back at once.
func TestControlLinkEnds(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(p *pair, s *engine.Session, k *control)
	}{
		{"detach", func(p *pair, s *engine.Session, k *control) { _ = k.l.Detach(true, nil) }},
		{"session", func(p *pair, s *engine.Session, k *control) { _ = s.End(nil) }},
		{"close", func(p *pair, s *engine.Session, k *control) { _ = p.cl.Close(nil) }},
		{"lost", func(p *pair, s *engine.Session, k *control) { p.lose(command.EndReset) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			p, _ := r.fill("q", "1", "2")
			cs, ws := p.begin(), p.begin()
			k := p.coordinator(cs)
			id := k.declare()
			p.receiver(ws, "q", 1)
			p.want("1")[0].d.Dispose(inTx(id, &amqp.Accepted{}), true)
			out := p.sender(ws, "out")
			p.sendIn(id, out, "x")
			r.wantDepth("out", "0/0")
			tc.end(p, cs, k)
			r.wantDepth("q", "2/0")
			r.wantDepth("out", "0/0")
			if tc.name == "detach" || tc.name == "session" {
				p.events = nil
				p.sendIn(id, out, "y")
				p.wantDetached(out, amqp.ErrCondTransactionUnknownID)
			}
			o := r.open("o")
			o.receiver(o.begin(), "q", 2)
			want := uint32(1)
			if tc.name == "close" {
				want = 0 // a Close without settlement leaves the count (C8)
			}
			if all := o.want("1 2"); all[0].head.DeliveryCount != want || all[0].head.FirstAcquirer {
				t.Fatalf("%+v", all[0].head)
			}
		})
	}
}

// T9, T13, checklist 85, 86: everything happens at the commit, on every link and queue, and a send is answered before it.
func TestCommit(t *testing.T) {
	r := newRig(t)
	p, s := r.fill("in", "1", "2", "3", "4")
	k := p.coordinator(s)
	a, b := p.sender(s, "a"), p.sender(s, "b")
	p.receiver(s, "in", 10)
	in := p.want("1 2 3 4")
	id := k.declare()
	d := p.sendIn(id, a, "x")
	if st := wantState[*amqp.TransactionalState](t, d, true); !bytes.Equal(st.TxnID, id) {
		t.Fatal("another transaction's answer")
	} else if _, ok := st.Outcome.(*amqp.Accepted); !ok {
		t.Fatalf("%T", st.Outcome)
	}
	p.sendIn(id, b, "y")
	in[0].d.Dispose(inTx(id, &amqp.Accepted{}), true)
	in[1].d.Dispose(inTx(id, &amqp.Rejected{}), true) // checklist 91
	in[2].d.Dispose(inTx(id, &amqp.Released{}), true)
	in[3].d.Dispose(inTx(id, &amqp.Modified{DeliveryFailed: true}), true)
	r.wantDepth("a", "0/0")
	r.wantDepth("in", "4/4")
	r.log.held = true
	c := k.discharge(id, false)
	if c.State != nil {
		t.Fatal("answered before it is applied")
	}
	r.log.held = false
	r.pump()
	wantState[*amqp.Accepted](t, c, true)
	r.wantDepth("a", "1/0")
	r.wantDepth("b", "1/0")
	r.wantDepth("DLQ.in", "1/0")
	if all := p.want("3 4"); all[0].head.DeliveryCount != 0 || all[1].head.DeliveryCount != 1 {
		t.Fatalf("%+v", all)
	}
}

// T15, checklist 88, 89: a rollback returns what was settled in it to its place, with its failure counted; sends vanish.
func TestRollback(t *testing.T) {
	r := newRig(t)
	p, s := r.fill("q", "1", "2", "3", "4")
	k := p.coordinator(s)
	l := p.receiver(s, "q", 10)
	all := p.want("1 2 3 4")
	id := k.declare()
	p.sendIn(id, p.sender(s, "out"), "x")
	all[0].d.Dispose(inTx(id, &amqp.Accepted{}), true)
	all[1].d.Dispose(inTx(id, &amqp.Accepted{}), true)
	_ = l.SetCredit(0, true) // as Qpid JMS does before it rolls back
	r.pump()
	k.rollback(id)
	p.want("")
	all[2].d.Dispose(&amqp.Released{}, true)
	all[3].d.Dispose(&amqp.Released{}, true)
	_ = l.SetCredit(10, false)
	again := p.want("1 2 3 4")
	for i, g := range again {
		if want := uint32(1 - i/2); g.head.DeliveryCount != want {
			t.Errorf("message %d: %+v", i+1, g.head)
		}
	}
	r.wantDepth("out", "0/0")
}

// T16, T17, checklist 90: what the receiver didn't settle is settled by us after a commit, and stays with it after a
// rollback.
func TestUnsettledAcknowledgement(t *testing.T) {
	r := newRig(t)
	p, s := r.fill("q", "1", "2")
	k := p.coordinator(s)
	p.receiver(s, "q", 10)
	all := p.want("1 2")
	id := k.declare()
	all[0].d.Dispose(inTx(id, &amqp.Accepted{}), false)
	r.pump()
	k.rollback(id)
	if all[0].d.Settled {
		t.Fatal("settled by a rollback")
	}
	r.wantDepth("q", "2/2")
	id = k.declare()
	all[0].d.Dispose(inTx(id, &amqp.Accepted{}), false)
	all[1].d.Dispose(inTx(id, &amqp.Accepted{}), false)
	k.commit(id)
	wantState[*amqp.Accepted](t, all[0].d, true)
	r.wantDepth("q", "0/0")

	// Settled while the discharge is under way, and rolled back: it must not stay behind with nobody.
	q, s2 := r.fill("q2", "1")
	k2 := q.coordinator(s2)
	q.receiver(s2, "q2", 1)
	m := q.want("1")[0]
	id = k2.declare()
	m.d.Dispose(inTx(id, &amqp.Accepted{}), false)
	r.log.held = true
	k2.discharge(id, true)
	m.d.Dispose(nil, true)
	r.pump()
	r.log.held = false
	r.wantDepth("q2", "1/0")
}

// T10, checklist 97: a delivery that is not complete ends the control link, and nothing happens.
func TestPartialAtDischarge(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	k, s := p.coordinator(p.begin()), p.begin()
	l := p.sender(s, "q")
	id := k.declare()
	p.sendIn(id, l, "whole")
	// The first frame of two, by hand, behind the engine's back.
	first := amqp.AppendTransfer(nil, s.Channel(), &amqp.Transfer{
		Handle: 0, DeliveryID: amqp.Some(uint32(1)), DeliveryTag: []byte("p"), More: true, State: inTx(id, nil),
	}, text("part"))
	p.r.pump()
	p.fe.Input(first, r.now)
	k.say(notes(nil, &amqp.Discharge{TxnID: id}))
	p.wantDetached(k.l, amqp.ErrCondTransactionRollback)
	r.wantDepth("q", "0/0")
}

// T11, T12 and amqp.md 0.4, checklist 95: a commit fails if any operation in it was refused, pre-settled or not.
func TestRefusedOperation(t *testing.T) {
	for _, tc := range []struct {
		name string
		send func(p *pair, s *engine.Session, id []byte)
	}{
		{"bad message", func(p *pair, s *engine.Session, id []byte) {
			d := p.send(p.sender(s, "q"), engine.Transfer{Payload: [][]byte{{1, 2}}, State: inTx(id, nil)})
			p.r.pump()
			st := wantState[*amqp.TransactionalState](p.r.t, d, true)
			if _, ok := st.Outcome.(*amqp.Rejected); !ok {
				p.r.t.Fatalf("%T", st.Outcome)
			}
		}},
		{"bad pre-settled message", func(p *pair, s *engine.Session, id []byte) {
			p.send(p.sender(s, "q"), engine.Transfer{Payload: [][]byte{{1, 2}}, State: inTx(id, nil), Settled: true})
		}},
		{"relay to nowhere", func(p *pair, s *engine.Session, id []byte) {
			m := append(amqp.AppendProperties(nil, &amqp.Properties{To: "fixed"}), text("x")...)
			p.send(p.sender(s, ""), engine.Transfer{Payload: [][]byte{m}, State: inTx(id, nil)})
		}},
		{"relay without to", func(p *pair, s *engine.Session, id []byte) {
			p.send(p.sender(s, ""), engine.Transfer{Payload: [][]byte{text("x")}, State: inTx(id, nil)})
		}},
		{"settled before", func(p *pair, s *engine.Session, id []byte) {
			p.receiver(s, "in", 1)
			m := p.want("1")[0]
			m.d.Dispose(&amqp.Released{}, false)
			m.d.Dispose(inTx(id, &amqp.Accepted{}), true)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, Config{Access: func(_ string, right Right, address string) bool {
				return right != RightCreate || address != "fixed"
			}})
			p, s := r.fill("in", "1")
			k := p.coordinator(s)
			id := k.declare()
			p.sendIn(id, p.sender(s, "good"), "x")
			tc.send(p, s, id)
			r.pump()
			err := wantRejected(t, k.discharge(id, false), amqp.ErrCondTransactionRollback)
			if reason, _ := err.Info.Lookup("reason"); reason == nil || reason == "" {
				t.Fatal("no reason")
			}
			r.wantDepth("good", "0/0")
			// Checklist 96: its rollback succeeds, and the next transaction is fine.
			id = k.declare()
			p.sendIn(id, p.sender(s, "good"), "x")
			k.commit(id)
			r.wantDepth("good", "1/0")
		})
	}
}

// T14, checklist 98: one delivery in two live transactions ends the control link.
func TestTwoTransactionsOneDelivery(t *testing.T) {
	r := newRig(t)
	p, s := r.fill("q", "1")
	k := p.coordinator(s)
	p.receiver(s, "q", 1)
	m := p.want("1")[0]
	one, two := k.declare(), k.declare()
	m.d.Dispose(inTx(one, &amqp.Accepted{}), false)
	m.d.Dispose(inTx(two, &amqp.Accepted{}), false)
	p.wantDetached(k.l, amqp.ErrCondTransactionRollback)
	r.wantDepth("q", "1/1")
}

// acquire grants credit by a flow that names a transaction.
func (p *pair) acquire(l *engine.Link, credit uint32, id any) {
	p.r.t.Helper()
	var handle uint32
	for _, k := range p.fe.consumers {
		if k.link.Name() == l.Name() {
			handle = k.link.Remote().Handle
		}
	}
	f := &amqp.Flow{
		NextIncomingID: amqp.Some(uint32(0)), IncomingWindow: 1000, OutgoingWindow: 100, Handle: amqp.Some(handle),
		DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(credit), Properties: amqp.Map{{Key: amqp.Symbol("txn-id"), Value: id}},
	}
	p.r.pump()
	if err := l.SetCredit(credit, false); err != nil {
		p.r.t.Fatal(err)
	}
	p.cl.TakeOutput(nil, p.r.now) // in place of the flow that the client's engine makes
	p.fe.Input(amqp.AppendFlow(nil, l.Session().Channel(), f), p.r.now)
	p.r.pump()
}

// Acquisition with an id that is none, of a transaction that is rolled back already, and on a link that sends settled: never
// ignored.
// Rows 100, T18.
func TestAcquisitionRefused(t *testing.T) {
	r := newRig(t, Config{Dev: true, TxIdle: time.Second})
	p, s := r.fill("q", "1")
	k := p.coordinator(s)
	dead := k.declare()
	r.wait(2 * time.Second)
	l := p.receiver(s, "q", 0)
	p.acquire(l, 5, []byte("x"))
	p.wantDetached(l, amqp.ErrCondTransactionUnknownID)
	l = p.receiver(s, "q", 0)
	p.acquire(l, 5, dead)
	p.wantDetached(l, amqp.ErrCondTransactionRollback)
	l = p.receiver(s, "q", 0, func(a *amqp.Attach) { a.SenderSettleMode = amqp.SenderSettleSettled })
	p.acquire(l, 5, k.declare())
	p.wantDetached(l, amqp.ErrCondNotImplemented)
	r.wantDepth("q", "1/0")
}

// What a transaction acquired goes back when it times out, also what its receiver has disposed of in it without settling.
// Rows 99, T18.
func TestAcquiredGoesBackAtTheTimeout(t *testing.T) {
	r := newRig(t, Config{Dev: true, TxIdle: time.Second})
	p, s := r.fill("q", "1", "2", "3")
	k := p.coordinator(s)
	id := k.declare()
	l := p.receiver(s, "q", 0)
	p.acquire(l, 3, id)
	all := p.want("1 2 3")
	all[1].d.Dispose(inTx(id, &amqp.Accepted{}), false)
	all[2].d.Dispose(inTx(id, &amqp.Accepted{}), true)
	r.wait(2 * time.Second)
	for _, g := range all[:2] {
		wantState[*amqp.Released](t, g.d, true)
	}
	r.wantDepth("q", "3/0")
	o := r.open("o")
	o.receiver(o.begin(), "q", 3)
	for _, g := range o.want("1 2 3") {
		if g.head.DeliveryCount != 1 {
			t.Errorf("%s has count %d", g.text, g.head.DeliveryCount)
		}
	}
}

// Rows T20.
// T20, checklist 99: an idle transaction, and one that takes too long, is rolled back; its messages are free and its client
// hears why.
func TestTransactionTimeout(t *testing.T) {
	for _, idle := range []bool{true, false} {
		r := newRig(t, Config{Dev: true, TxIdle: 2 * time.Second, TxTotal: 5 * time.Second})
		p, s := r.fill("q", "1")
		k := p.coordinator(s)
		l := p.receiver(s, "q", 1)
		m := p.want("1")[0]
		out := p.sender(s, "out")
		id := k.declare()
		m.d.Dispose(inTx(id, &amqp.Accepted{}), true)
		r.wantDepth("q", "1/1")
		for i := 0; !idle && i < 4; i++ {
			r.wait(1500 * time.Millisecond)
			p.sendIn(id, out, "x")
		}
		r.wait(3 * time.Second)
		r.wantDepth("q", "1/0")
		err := wantRejected(t, k.discharge(id, false), amqp.ErrCondTransactionTimeout)
		if reason, _ := err.Info.Lookup("reason"); reason != command.ReasonTimeout {
			t.Fatalf("reason %v", reason)
		}
		r.wantDepth("out", "0/0")
		_ = l.SetCredit(1, false)
		again := p.want("1")[0]
		id = k.declare()
		again.d.Dispose(inTx(id, &amqp.Accepted{}), true)
		k.commit(id)
		r.wantDepth("q", "0/0")
	}
}

// Checklist 101: 10,000 operations are one transaction, one more is RolledBack(too large), and holds nothing.
func TestTransactionSize(t *testing.T) {
	r := newRig(t)
	p, s := r.fill("q", "1")
	k := p.coordinator(s)
	l := p.sender(s, "out")
	id := k.declare()
	for i := range command.MaxTxOperations {
		if i%500 == 0 {
			r.pump()
		}
		p.send(l, engine.Transfer{Payload: [][]byte{text("x")}, State: inTx(id, nil)})
	}
	r.pump()
	k.commit(id)
	r.wantDepth("out", fmt.Sprintf("%d/0", command.MaxTxOperations))

	p.receiver(s, "q", 1)
	m := p.want("1")[0]
	id = k.declare()
	m.d.Dispose(inTx(id, &amqp.Accepted{}), true)
	big := bytes.Repeat([]byte("x"), 1<<20)
	for range command.MaxTxBytes>>20 + 1 {
		p.send(l, engine.Transfer{Payload: [][]byte{amqp.AppendData(nil, big)}, State: inTx(id, nil)})
		r.pump()
	}
	r.wantDepth("q", "1/0")
	if n := len(p.fe.txs); n != 1 || p.fe.txBytes != 0 {
		t.Fatalf("%d transactions hold %d bytes", n, p.fe.txBytes)
	}
	p.sendIn(id, l, "late")
	err := wantRejected(t, k.discharge(id, false), amqp.ErrCondTransactionRollback)
	if reason, _ := err.Info.Lookup("reason"); reason != command.ReasonTooLarge {
		t.Fatalf("reason %v", reason)
	}
}

// Checklist 82, 92: discharge and declare pipelined; several transactions of one session, one over two sessions, and plain
// work beside them.
func TestManyTransactions(t *testing.T) {
	r := newRig(t)
	p, s := r.fill("q", "1", "2", "3")
	other := p.begin()
	k := p.coordinator(s)
	l, m := p.sender(s, "out"), p.sender(other, "out")
	p.receiver(other, "q", 10)
	in := p.want("1 2 3")
	one, two := k.declare(), k.declare()
	p.sendIn(one, l, "one")
	p.sendIn(two, l, "two")
	p.sendIn(one, m, "one again")
	p.sendText(l, "plain")
	in[0].d.Dispose(inTx(one, &amqp.Accepted{}), true)
	in[1].d.Dispose(inTx(two, &amqp.Accepted{}), true)
	in[2].d.Dispose(&amqp.Accepted{}, true)
	r.wantDepth("out", "1/0")
	r.wantDepth("q", "2/2")
	c, d := k.say(notes(nil, &amqp.Discharge{TxnID: one})), k.say(notes(nil, &amqp.Declare{}))
	r.pump()
	wantState[*amqp.Accepted](t, c, true)
	wantState[*amqp.Declared](t, d, true)
	r.wantDepth("out", "3/0")
	k.rollback(two)
	r.wantDepth("out", "3/0")
	p.want("2")
}

// A receiver that is closed between accept and commit keeps what is enlisted; the rest goes back (architecture.md).
func TestReceiverClosedBeforeCommit(t *testing.T) {
	for _, commit := range []bool{true, false} {
		r := newRig(t)
		p, s := r.fill("q", "1", "2")
		k := p.coordinator(s)
		l := p.receiver(s, "q", 10)
		all := p.want("1 2")
		id := k.declare()
		all[0].d.Dispose(inTx(id, &amqp.Accepted{}), true)
		if err := l.Detach(true, nil); err != nil {
			t.Fatal(err)
		}
		r.wantDepth("q", "2/1")
		if commit {
			k.commit(id)
			r.wantDepth("q", "1/0")
		} else {
			k.rollback(id)
			r.wantDepth("q", "2/0")
		}
	}
}

// Broker-J's DischargeTest: a transactional outcome behind a Detach that doesn't close.
func TestTransactionalOutcomeAfterDetach(t *testing.T) {
	r := newRig(t)
	p, s := r.fill("q", "1")
	k := p.coordinator(s)
	l := p.receiver(s, "q", 10)
	m := p.want("1")[0]
	id := k.declare()
	_ = l.Detach(false, nil)
	r.pump()
	m.d.Dispose(inTx(id, &amqp.Accepted{}), true)
	k.commit(id)
	r.wantDepth("q", "0/0")
}

// amqp.md 0.3: Qpid JMS takes amqp:transaction:rollback for "in doubt"; it is told another condition.
func TestInvertedRollbackQuirk(t *testing.T) {
	for product, want := range map[string]amqp.Symbol{"QpidJMS": amqp.ErrCondRolledBack, "other": amqp.ErrCondTransactionRollback} {
		r := newRig(t)
		p := r.open("a", func(o *amqp.Open) { o.Properties = amqp.Map{{Key: amqp.PropProduct, Value: product}} })
		s := p.begin()
		k := p.coordinator(s)
		id := k.declare()
		p.send(p.sender(s, ""), engine.Transfer{Payload: [][]byte{text("x")}, State: inTx(id, nil)})
		r.pump()
		wantRejected(t, k.discharge(id, false), want)
	}
}

// A graceful stop answers the discharge in flight before it closes (checklist 20).
func TestStopAnswersDischarge(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	s := p.begin()
	k := p.coordinator(s)
	id := k.declare()
	p.sendIn(id, p.sender(s, "q"), "x")
	r.log.held = true
	d := k.discharge(id, false)
	p.fe.Stop("stopping", r.now)
	r.pump()
	p.none(engine.Closed)
	r.log.held = false
	if ev := p.find(engine.Closed); ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondConnectionForced {
		t.Fatalf("%v", ev.Err)
	}
	wantState[*amqp.Accepted](t, d, true)
	idle := r.open("b")
	idle.fe.Stop("stopping", r.now)
	idle.find(engine.Closed)
}
