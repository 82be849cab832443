package frontend

import (
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// resumed is a client of ours with a session, and what it needs to come back.
type resumed struct {
	p       *pair
	s       *engine.Session
	id      []byte
	attempt uint32
}

func (r *rig) ours() *resumed {
	r.t.Helper()
	c := &resumed{p: r.open("ours", ours(1, 1)), attempt: 1}
	c.s = c.p.begin(resumable(5, nil))
	c.id = sessionID(c.s)
	return c
}

// back loses the connection and resumes the session on a new one.
func (c *resumed) back() {
	c.p.r.t.Helper()
	r := c.p.r
	c.p.cut = true
	c.attempt++
	c.p = r.open("ours", ours(1, c.attempt))
	c.s = c.p.begin(resumable(5, c.id))
	if got := sessionID(c.s); string(got) != string(c.id) {
		r.t.Fatalf("another session: %x", got)
	}
}

func second(a *amqp.Attach) { a.Name = "r"; a.ReceiverSettleMode = amqp.ReceiverSettleSecond }

// [3.3]: three steps: accepted; accepted once it is applied; settled. The result stays until then, over a failover too.
func TestThreeSteps(t *testing.T) {
	r := newRig(t)
	r.fill("q", "1", "2", "3", "4")
	c := r.ours()
	c.p.receiver(c.s, "q", 3, second)
	all := c.p.want("1 2 3")
	all[0].d.Dispose(&amqp.Accepted{}, false)
	r.pump()
	wantState[*amqp.Accepted](t, all[0].d, false)
	all[0].d.Dispose(nil, true)
	all[1].d.Dispose(&amqp.Accepted{}, false)
	r.wantDepth("q", "2/1")
	t1, t2, t3 := all[0].d.Tag(), all[1].d.Tag(), all[2].d.Tag()

	c.back()
	a := receiverAttach("r", "q")
	second(a)
	lostTag := append([]byte(nil), t3...)
	lostTag[19] ^= 7
	a.Unsettled = []amqp.Unsettled{{Tag: t2, State: &amqp.Accepted{}}, {Tag: t3}, {Tag: lostTag}}
	l, ev := c.p.attach(c.s, a)
	m := ev.Attach.Unsettled
	if len(m) != 2 || string(m[0].Tag) != string(t2) || string(m[1].Tag) != string(t3) || m[1].State != nil {
		t.Fatalf("unsettled map %v", m)
	}
	if _, ok := m[0].State.(*amqp.Accepted); !ok {
		t.Fatalf("applied before, and told %T", m[0].State)
	}
	_ = t1
	_ = l.SetCredit(10, false)
	// The one that both hold goes on first, under its tag and without payload; then comes what is new.
	r.pump()
	first := c.p.find(engine.Received).Delivery
	if !first.Resume || string(first.Tag()) != string(t3) || len(first.Payload) != 0 {
		t.Fatalf("resumed: %v %x %d bytes", first.Resume, first.Tag(), len(first.Payload))
	}
	c.p.want("4")
	first.Dispose(&amqp.Accepted{}, false)
	r.wantDepth("q", "1/1")
	wantState[*amqp.Accepted](t, first, false)
}

// wire.md: what only we hold comes whole, as a first delivery: the client has proven that it never saw it.
func TestResumeSendsTheUnseen(t *testing.T) {
	r := newRig(t)
	r.fill("q", "1", "2")
	c := r.ours()
	r.log.lease = 0
	c.p.receiver(c.s, "q", 10, second)
	r.wantDepth("q", "2/2")
	r.log.lease = time.Second
	c.back()
	a := receiverAttach("r", "q")
	second(a)
	a.Unsettled = []amqp.Unsettled{}
	l, _ := c.p.attach(c.s, a)
	_ = l.SetCredit(10, false)
	for _, g := range c.p.want("1 2") {
		if !g.head.FirstAcquirer || g.head.DeliveryCount != 0 || g.d.Resume {
			t.Fatalf("%+v", g.head)
		}
	}
}

// A delivery that went elsewhere is not accepted: the answer is another outcome (ErrDeliveryLost).
func TestAcceptOfALostDelivery(t *testing.T) {
	r := newRig(t)
	r.fill("q", "1")
	c := r.ours()
	c.p.receiver(c.s, "q", 10, second)
	m := c.p.want("1")[0]
	k := c.p.fe.consumers
	for _, x := range k { // taken away behind the client's back
		r.log.queue = append(r.log.queue, command.Append(nil, &command.Withdraw{
			Conn: c.p.fe.id, Link: x.num, Received: x.received,
			Unwritten: []command.DeliveryRef{m.d2ref(t)},
		}))
	}
	r.pump()
	m.d.Dispose(&amqp.Accepted{}, false)
	r.pump()
	wantRejected(t, m.d, amqp.ErrCondDeliveryLost)
}

func (g got) d2ref(t *testing.T) command.DeliveryRef {
	u, ok := parseTag(g.d.Tag())
	if !ok {
		t.Fatal("tag")
	}
	return u.Ref
}

// annotated declares number n, knowing k.
func (k *control) number(n, known uint64) *engine.Delivery {
	k.p.r.t.Helper()
	d := k.say(notes(amqp.Map{
		{Key: amqp.AnnotationNumber, Value: n},
		{Key: amqp.AnnotationKnown, Value: known},
		{Key: amqp.AnnotationUnknown, Value: amqp.Array{Type: amqp.TypeUlong}},
	}, &amqp.Declare{}))
	k.p.r.pump()
	return d
}

func (k *control) dischargeWith(id []byte, fail bool, operations uint32) *engine.Delivery {
	k.p.r.t.Helper()
	d := k.say(notes(amqp.Map{{Key: amqp.AnnotationOperations, Value: operations}}, &amqp.Discharge{TxnID: id, Fail: fail}))
	k.p.r.pump()
	return d
}

func txID(t *testing.T, session []byte, n uint64) []byte {
	t.Helper()
	var s command.SessionID
	copy(s[:], session)
	id := command.NewTxID(s, n)
	return id[:]
}

// C1, C2, wire.md: the txn-id is the TxID; a repeated discharge gets its first result on another connection; a decided number
// is told instead of declared; a commit that isn't whole is rolled back.
func TestTaggedTransactions(t *testing.T) {
	r := newRig(t)
	c := r.ours()
	k := c.p.coordinator(c.s, tagged)
	l := c.p.sender(c.s, "q")
	id := wantState[*amqp.Declared](t, k.number(1, 0), true).TxnID
	if string(id) != string(txID(t, c.id, 1)) {
		t.Fatalf("txn-id %x", id)
	}
	c.p.sendIn(id, l, "1")
	wantState[*amqp.Accepted](t, k.dischargeWith(id, false, 1), true)
	r.wantDepth("q", "1/0")
	two := wantState[*amqp.Declared](t, k.number(2, 0), true).TxnID
	c.p.sendIn(two, l, "2")

	c.back()
	k = c.p.coordinator(c.s, tagged)
	l = c.p.sender(c.s, "q")
	// Said again, on the new connection: the first result, and nothing changes.
	wantState[*amqp.Accepted](t, k.dischargeWith(id, false, 1), true)
	r.wantDepth("q", "1/0")
	err := wantRejected(t, k.number(1, 0), amqp.ErrCondTransactionDecided)
	if o, _ := err.Info.Lookup("outcome"); o != amqp.Symbol("committed") {
		t.Fatalf("%v", err.Info)
	}
	// A rollback of what is committed says so (C10).
	wantRejected(t, k.dischargeWith(id, true, 1), amqp.ErrCondTransactionDecided)
	// The open one is replayed; committed without its operation it would be incomplete [2.1].
	wantState[*amqp.Declared](t, k.number(2, 0), true)
	err = wantRejected(t, k.dischargeWith(two, false, 1), amqp.ErrCondTransactionRollback)
	if reason, _ := err.Info.Lookup("reason"); reason != command.ReasonIncomplete {
		t.Fatalf("%v", err.Info)
	}
	three := wantState[*amqp.Declared](t, k.number(3, 2), true).TxnID
	c.p.sendIn(three, l, "3")
	wantState[*amqp.Accepted](t, k.dischargeWith(three, false, 1), true)
	r.wantDepth("q", "2/0")
	// A discharge that was never declared here and doesn't say what it has: decided rolled back, never committed empty.
	wantRejected(t, k.discharge(txID(t, c.id, 4), false), amqp.ErrCondTransactionRollback)
	// Another session's transaction is unknown here.
	wantRejected(t, k.discharge(txID(t, make([]byte, 16), 1), false), amqp.ErrCondTransactionUnknownID)
}

// Declare, work and discharge in one write, before any answer.
func TestPipelinedTransaction(t *testing.T) {
	r := newRig(t)
	c := r.ours()
	k := c.p.coordinator(c.s, tagged)
	l := c.p.sender(c.s, "q")
	id := txID(t, c.id, 1)
	d := k.say(notes(amqp.Map{{Key: amqp.AnnotationNumber, Value: uint64(1)}}, &amqp.Declare{}))
	c.p.send(l, engine.Transfer{Payload: [][]byte{text("1")}, State: inTx(id, nil)})
	e := k.say(notes(amqp.Map{{Key: amqp.AnnotationOperations, Value: uint32(1)}}, &amqp.Discharge{TxnID: id}))
	r.pump()
	wantState[*amqp.Declared](t, d, true)
	wantState[*amqp.Accepted](t, e, true)
	r.wantDepth("q", "1/0")
}

// A resumed number that has to be asked about first holds its discharge back meanwhile.
func TestDischargeWhileAsking(t *testing.T) {
	r := newRig(t)
	c := r.ours()
	k := c.p.coordinator(c.s, tagged)
	// Number 2 is decided before number 1, so that 1 has to be asked about.
	two := wantState[*amqp.Declared](t, k.number(2, 0), true).TxnID
	wantState[*amqp.Accepted](t, k.dischargeWith(two, false, 0), true)
	id := txID(t, c.id, 1)
	l := c.p.sender(c.s, "q")
	r.log.held = true
	d := k.number(1, 0)
	c.p.sendIn(id, l, "1")
	e := k.dischargeWith(id, false, 1)
	r.pump()
	if d.State != nil || e.State != nil {
		t.Fatal("answered before it is known")
	}
	r.log.held = false
	r.pump()
	wantState[*amqp.Declared](t, d, true)
	wantState[*amqp.Accepted](t, e, true)
	r.wantDepth("q", "1/0")
}

// A number that somebody else has decided while it is asked about: what its client settles in one breath with the declare, and
// so has let go of, goes back to its place.
func TestSettledWhileAsking(t *testing.T) {
	r := newRig(t)
	r.fill("q", "1", "2")
	c := r.ours()
	k := c.p.coordinator(c.s, tagged)
	two := wantState[*amqp.Declared](t, k.number(2, 0), true).TxnID
	wantState[*amqp.Accepted](t, k.dischargeWith(two, false, 0), true)
	c.p.receiver(c.s, "q", 2, second)
	m := c.p.want("1 2")
	id := txID(t, c.id, 1)
	if o := r.asker("asker").outcome(id, true); o != "rolled-back" {
		t.Fatalf("outcome %q", o)
	}
	r.log.held = true
	d := k.number(1, 0)
	m[0].d.Dispose(inTx(id, &amqp.Accepted{}), true)
	m[1].d.Dispose(inTx(id, &amqp.Accepted{}), false) // it keeps this one, and settles it when it has heard
	r.pump()
	r.log.held = false
	r.pump()
	wantRejected(t, d, amqp.ErrCondTransactionDecided)
	r.wantDepth("q", "2/1")
	m[1].d.Dispose(&amqp.Accepted{}, true)
	r.wantDepth("q", "1/0")
}

// C6: on a link with oncemq:tx-1 the transaction outlives its control link; the session's end decides it.
func TestTaggedOutlivesControlLink(t *testing.T) {
	r := newRig(t)
	r.fill("q", "1")
	c := r.ours()
	k := c.p.coordinator(c.s, tagged)
	c.p.receiver(c.s, "q", 1, second)
	m := c.p.want("1")[0]
	id := wantState[*amqp.Declared](t, k.number(1, 0), true).TxnID
	m.d.Dispose(inTx(id, &amqp.Accepted{}), true)
	_ = k.l.Detach(true, nil)
	r.wantDepth("q", "1/1")
	k = c.p.coordinator(c.s, tagged)
	wantState[*amqp.Accepted](t, k.dischargeWith(id, false, 1), true)
	r.wantDepth("q", "0/0")

	r.fill("q", "2")
	c.p.receiver(c.s, "q", 1, func(a *amqp.Attach) { second(a); a.Name = "r2" })
	m = c.p.want("2")[0]
	id = wantState[*amqp.Declared](t, k.number(2, 1), true).TxnID
	m.d.Dispose(inTx(id, &amqp.Accepted{}), true)
	r.wantDepth("q", "1/1")
	_ = c.s.End(nil)
	r.wantDepth("q", "1/0")
}

// A session that is gone can't be resumed; the connection goes on.
func TestResumeOfAGoneSession(t *testing.T) {
	r := newRig(t)
	p := r.open("ours", ours(1, 1))
	b := amqp.NewBegin()
	resumable(5, []byte("no such session!"))(b)
	s, err := p.cl.Begin(*b)
	if err != nil {
		t.Fatal(err)
	}
	if ev := p.find(engine.SessionEnded); ev.Session != s || ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondNotFound {
		t.Fatalf("%v", ev.Err)
	}
	p.begin(resumable(6, nil))
	// Without our capability in Open the wish is simply not met.
	q := r.open("b")
	if s := q.begin(resumable(7, nil)); symbolIn(s.Remote().OfferedCapabilities, amqp.CapOncemqSession) || sessionID(s) != nil {
		t.Fatal("a session for a client that can't resume")
	}
}
