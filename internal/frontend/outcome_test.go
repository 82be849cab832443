package frontend

import (
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// asker is any AMQP client that asks $oncemq.outcome.
type asker struct {
	p       *pair
	s       *engine.Session
	to      *engine.Link
	replies string
	last    uint64
}

func (r *rig) asker(container string) *asker {
	r.t.Helper()
	p := r.open(container)
	s := p.begin()
	replies := "replies of " + container
	p.receiver(s, replies, 100)
	return &asker{p: p, s: s, to: p.sender(s, addressOutcome), replies: replies}
}

// reply is what came back.
type reply struct {
	m    amqp.Map
	text string
}

func (r reply) get(key string) any { v, _ := r.m.Lookup(key); return v }

func (a *asker) ask(m amqp.Map) reply {
	t := a.p.r.t
	t.Helper()
	a.last++
	b := amqp.AppendProperties(nil, &amqp.Properties{MessageID: a.last, ReplyTo: a.replies})
	b = amqp.AppendApplicationProperties(b, m)
	d := a.p.send(a.to, engine.Transfer{Payload: [][]byte{b}})
	a.p.r.pump()
	wantState[*amqp.Accepted](t, d, true)
	all := a.p.received()
	if len(all) != 1 {
		t.Fatalf("%d replies", len(all))
	}
	s, _ := amqp.ParseSections(all[0].d.Payload, amqp.Limits{})
	props, _ := amqp.DecodeProperties(s.Properties, amqp.Limits{})
	if props.CorrelationID != a.last {
		t.Fatalf("correlation-id %v, want %d", props.CorrelationID, a.last)
	}
	all[0].d.Dispose(&amqp.Accepted{}, true)
	app, err := amqp.DecodeApplicationProperties(s.ApplicationProperties, amqp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return reply{app, all[0].text}
}

func (a *asker) token() string {
	a.p.r.t.Helper()
	rep := a.ask(amqp.Map{{Key: "token", Value: true}})
	if len(rep.text) != 32 {
		a.p.r.t.Fatalf("token %q", rep.text)
	}
	return rep.text
}

func (a *asker) outcome(tx any, decide bool) string {
	a.p.r.t.Helper()
	v, _ := a.ask(amqp.Map{{Key: "tx", Value: tx}, {Key: "decide", Value: decide}}).get("outcome").(string)
	return v
}

// C3, C4, C5 and wire.md: a generic client's transaction, named through a token; peeked at and decided.
func TestNamedTransactions(t *testing.T) {
	r := newRig(t)
	a := r.asker("app")
	token := a.token()
	k := a.p.coordinator(a.s)
	name, out := a.p.sender(a.s, addressTx), a.p.sender(a.s, "out")
	commit := func(body string, sends int) *engine.Delivery {
		t.Helper()
		id := k.declare()
		d := a.p.sendIn(id, name, body)
		wantState[*amqp.TransactionalState](t, d, true)
		for range sends {
			a.p.sendIn(id, out, "x")
		}
		return k.discharge(id, false)
	}
	wantState[*amqp.Accepted](t, commit(token+"/1", 1), true)
	wantState[*amqp.Accepted](t, commit(token+"/2/2", 2), true)
	r.wantDepth("out", "3/0")
	if got := a.outcome(token+"/1", false); got != "committed" {
		t.Fatalf("1 is %q", got)
	}
	// The number of operations guards against acknowledgements that a client swallowed (the name itself isn't counted).
	err := wantRejected(t, commit(token+"/3/2", 1), amqp.ErrCondTransactionRollback)
	if reason, _ := err.Info.Lookup("reason"); reason != command.ReasonIncomplete {
		t.Fatalf("%v", err.Info)
	}
	if rep := a.ask(amqp.Map{{Key: "tx", Value: token + "/3"}}); rep.get("outcome") != "rolled-back" || rep.get("reason") != command.ReasonIncomplete ||
		rep.get("decided-at") == nil {
		t.Fatalf("3 is %v", rep.m)
	}
	// A second use of a number is other work: refused, never given the first result.
	wantRejected(t, commit(token+"/1", 1), amqp.ErrCondTransactionRollback)
	r.wantDepth("out", "3/0")
	// Asking for one that is open decides it; its commit comes too late.
	if got := a.outcome(token+"/4", false); got != "open" {
		t.Fatalf("4 is %q", got)
	}
	id := k.declare()
	a.p.sendIn(id, name, token+"/4")
	a.p.sendIn(id, out, "x")
	if got := a.outcome(token+"/4", true); got != "rolled-back" {
		t.Fatalf("4 is %q", got)
	}
	wantRejected(t, k.discharge(id, false), amqp.ErrCondTransactionRollback)
	// Its binary id serves as well, from any process of the same principal; an unknown history is expired.
	tx, _, _ := command.ParseTokenTx(token + "/2")
	b := r.asker("another process")
	if got := b.outcome(tx[:], true); got != "committed" {
		t.Fatalf("2 is %q", got)
	}
	if got := b.outcome(make([]byte, 24), true); got != "expired" {
		t.Fatalf("zero is %q", got)
	}
	r.wantDepth("out", "3/0")
}

// wire.md's counting: each send, each distinct delivery settled, whatever the outcome, once.
func TestCountedOperations(t *testing.T) {
	r := newRig(t)
	r.fill("q", "1", "2", "3")
	a := r.asker("app")
	token := a.token()
	k := a.p.coordinator(a.s)
	name := a.p.sender(a.s, addressTx)
	a.p.receiver(a.s, "q", 10)
	all := a.p.want("1 2 3")
	id := k.declare()
	a.p.sendIn(id, name, token+"/1/4")
	all[0].d.Dispose(inTx(id, &amqp.Accepted{}), false)
	all[1].d.Dispose(inTx(id, &amqp.Released{}), true)
	all[0].d.Dispose(inTx(id, &amqp.Rejected{}), false) // said again, otherwise: it counts once
	all[2].d.Dispose(&amqp.Accepted{}, true)            // outside of the transaction
	out := a.p.sender(a.s, "out")
	a.p.sendIn(id, out, "x")
	a.p.send(out, engine.Transfer{Payload: [][]byte{text("y")}, State: inTx(id, nil), Settled: true})
	r.pump()
	wantState[*amqp.Accepted](t, k.discharge(id, false), true)
	r.wantDepth("DLQ.q", "1/0")
}

// A transaction whose name is no good can't commit; what was settled in it goes back.
func TestBadNames(t *testing.T) {
	for _, tc := range []string{"", "x", "token/1", fmt.Sprintf("%032x/0", 1), fmt.Sprintf("%032x/1/x", 1), "twice"} {
		r := newRig(t)
		r.fill("q", "1")
		a := r.asker("app")
		token := a.token()
		k := a.p.coordinator(a.s)
		name := a.p.sender(a.s, addressTx)
		a.p.receiver(a.s, "q", 1)
		m := a.p.want("1")[0]
		id := k.declare()
		m.d.Dispose(inTx(id, &amqp.Accepted{}), true)
		if tc == "twice" {
			a.p.sendIn(id, name, token+"/1")
			tc = token + "/2"
		}
		d := a.p.sendIn(id, name, tc)
		if st := wantState[*amqp.TransactionalState](t, d, true); condition(&engine.Delivery{State: st.Outcome}) == "" {
			t.Fatalf("%q was taken", tc)
		}
		wantRejected(t, k.discharge(id, false), amqp.ErrCondTransactionRollback)
		r.wantDepth("q", "1/0")
	}
	// A session's identity is no token: state refuses the name, and the delivery goes back all the same.
	r := newRig(t)
	r.fill("q", "1")
	c := r.ours()
	var sid command.SessionID
	copy(sid[:], c.id)
	p := r.open("app")
	s := p.begin()
	k := p.coordinator(s)
	name := p.sender(s, addressTx)
	p.receiver(s, "q", 1)
	m := p.want("1")[0]
	id := k.declare()
	m.d.Dispose(inTx(id, &amqp.Accepted{}), true)
	p.sendIn(id, name, sid.String()+"/1")
	if condition(k.discharge(id, false)) == "" {
		t.Fatal("committed under another's name")
	}
	r.wantDepth("q", "1/0")
}

// Requests that can't be answered are refused; those that can be get an error as their answer.
func TestBadQuestions(t *testing.T) {
	r := newRig(t)
	a := r.asker("app")
	for _, m := range []amqp.Map{nil, {{Key: "tx", Value: "nonsense"}}, {{Key: "tx", Value: []byte("short")}}, {{Key: "token", Value: false}}} {
		if rep := a.ask(m); rep.get("error") != string(amqp.ErrCondInvalidField) || rep.get("description") == "" {
			t.Fatalf("%v: %v", m, rep.m)
		}
	}
	for replyTo, want := range map[string]amqp.Symbol{
		"": amqp.ErrCondInvalidField, "$oncemq.tx": amqp.ErrCondNotFound, "queue://": amqp.ErrCondInvalidField,
	} {
		b := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "x", ReplyTo: replyTo})
		b = amqp.AppendApplicationProperties(b, amqp.Map{{Key: "token", Value: true}})
		d := a.p.send(a.to, engine.Transfer{Payload: [][]byte{b}})
		r.pump()
		wantRejected(t, d, want)
	}
	// On the anonymous relay too, and never within a transaction.
	relay := a.p.sender(a.s, "")
	b := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "x", ReplyTo: a.replies, To: addressOutcome})
	b = amqp.AppendApplicationProperties(b, amqp.Map{{Key: "token", Value: true}})
	d := a.p.send(relay, engine.Transfer{Payload: [][]byte{b}})
	r.pump()
	wantState[*amqp.Accepted](t, d, true)
	if n := len(a.p.received()); n != 1 {
		t.Fatalf("%d replies", n)
	}
	k := a.p.coordinator(a.s)
	id := k.declare()
	a.p.send(relay, engine.Transfer{Payload: [][]byte{b}, State: inTx(id, nil)})
	r.pump()
	wantRejected(t, k.discharge(id, false), amqp.ErrCondTransactionRollback)
	// Naming outside of a transaction is refused.
	wantRejected(t, a.p.sendText(a.p.sender(a.s, addressTx), "x")[0], amqp.ErrCondNotAllowed)
}

// C3: another principal's transaction is nobody's business.
func TestForeignOutcome(t *testing.T) {
	r := newRig(t, Config{Access: func(string, Right, string) bool { return true }})
	a := r.asker("app")
	token := a.token()
	r.local++
	p := &pair{r: r, cl: engine.New(engine.Config{}), local: r.local}
	p.fe = r.node.NewConn(ConnOptions{Local: r.local, Principal: "mallory", Barrier: func(uint64, bool) {}}, r.now)
	r.log.conns[r.local] = p.fe
	r.pairs = append(r.pairs, p)
	_ = p.cl.Open(*amqp.NewOpen("m"))
	p.find(engine.Opened)
	s := p.begin()
	p.receiver(s, "replies2", 10)
	b := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "x", ReplyTo: "replies2"})
	b = amqp.AppendApplicationProperties(b, amqp.Map{{Key: "tx", Value: token + "/1"}})
	p.send(p.sender(s, addressOutcome), engine.Transfer{Payload: [][]byte{b}})
	all := p.received()
	if len(all) != 1 {
		t.Fatal("no reply")
	}
	sec, _ := amqp.ParseSections(all[0].d.Payload, amqp.Limits{})
	app, _ := amqp.DecodeApplicationProperties(sec.ApplicationProperties, amqp.Limits{})
	if v, _ := app.Lookup("error"); v != string(amqp.ErrCondUnauthorizedAccess) {
		t.Fatalf("%v", app)
	}
	if got := a.outcome(token+"/1", false); got != "open" {
		t.Fatalf("decided by a stranger: %q", got)
	}
}
