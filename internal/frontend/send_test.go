package frontend

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// A message goes in at one client and comes out at another, unchanged (checklist 46, 57, 65).
func TestSendReceiveAccept(t *testing.T) {
	r := newRig(t)
	a := r.open("a")
	s := a.sender(a.begin(), "q")
	if s.Credit() == 0 {
		t.Fatal("no credit for a new sender")
	}
	r.log.held = true
	d := a.sendText(s, "one")[0]
	if d.State != nil {
		t.Fatal("answered before it is applied (C14)")
	}
	r.log.held = false
	r.pump()
	wantState[*amqp.Accepted](t, d, true)
	r.wantDepth("q", "1/0")

	b := r.open("b")
	b.receiver(b.begin(), "q", 10)
	m := b.want("one")[0]
	if !m.head.FirstAcquirer || m.head.DeliveryCount != 0 {
		t.Fatalf("header %+v", m.head)
	}
	if len(m.d.Tag()) != tagSize {
		t.Fatalf("tag %x", m.d.Tag())
	}
	r.wantDepth("q", "1/1")
	m.d.Dispose(&amqp.Accepted{}, true)
	r.wantDepth("q", "0/0")
}

// The commands of one read are one record, and a large record is cut where commands end.
func TestOneReadOneRecord(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	s := p.sender(p.begin(), "q")
	r.log.held = true
	bodies := r.log.bodies
	for range 50 {
		p.send(s, engine.Transfer{Payload: [][]byte{text("x")}})
	}
	r.pump()
	if n := r.log.bodies - bodies; n != 1 {
		t.Fatalf("50 sends in one read made %d records", n)
	}
	big := bytes.Repeat([]byte("x"), 100<<10)
	for range 5 {
		p.send(s, engine.Transfer{Payload: [][]byte{amqp.AppendData(nil, big)}})
	}
	r.pump()
	for _, b := range r.log.queue {
		if len(b) > command.MaxPlain {
			t.Fatalf("a record of %d bytes", len(b))
		}
	}
	r.log.held = false
	r.wantDepth("q", "55/0")
}

// Checklist 58, anonterm: the anonymous relay.
func TestAnonymousRelay(t *testing.T) {
	to := func(s string) []byte {
		return append(amqp.AppendProperties(nil, &amqp.Properties{To: s}), text("x")...)
	}
	for _, tc := range []struct {
		name    string
		message []byte
		want    amqp.Symbol
	}{
		{"known", to("q"), ""},
		{"missing", text("x"), amqp.ErrCondInvalidField},
		{"made by its first message", to("nowhere"), ""},
		{"must not be made", to("fixed"), amqp.ErrCondNotFound},
		{"reserved", to("$x"), amqp.ErrCondNotFound},
		{"naming outside of a transaction", to(addressTx), amqp.ErrCondNotAllowed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, Config{Access: func(_ string, right Right, address string) bool {
				return right != RightCreate || address != "fixed"
			}})
			p := r.open("a")
			s := p.begin()
			p.sender(s, "q")
			d := p.send(p.sender(s, ""), engine.Transfer{Payload: [][]byte{tc.message}})
			r.pump()
			if got := condition(d); got != tc.want || !d.Settled {
				t.Fatalf("%q %T, want %q", got, d.State, tc.want)
			}
			if tc.want == "" {
				if r.depth("q") != "1/0" && r.depth("nowhere") != "1/0" {
					t.Fatal("accepted and not stored")
				}
				return
			}
			poor := p.sender(s, "", func(a *amqp.Attach) { a.Source.Outcomes = []amqp.Symbol{amqp.OutcomeAccepted} })
			p.send(poor, engine.Transfer{Payload: [][]byte{tc.message}})
			p.wantDetached(poor, tc.want)
			pre := p.sender(s, "")
			p.send(pre, engine.Transfer{Payload: [][]byte{tc.message}, Settled: true})
			p.wantDetached(pre, tc.want)
		})
	}
}

// Checklist 60: pre-settled transfers are stored and not answered; a bad one detaches its link.
func TestPresettledSend(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	s := p.begin()
	l := p.sender(s, "q")
	p.send(l, engine.Transfer{Tag: []byte{}, Payload: [][]byte{text("x")}, Settled: true})
	r.wantDepth("q", "1/0")
	p.none(engine.Disposed)
	p.send(l, engine.Transfer{Payload: [][]byte{{0x00, 0x53}}, Settled: true})
	p.wantDetached(l, amqp.ErrCondDecodeError)
}

// No poison reaches a consumer: the structure is checked where a message comes in (faults.md 3.1).
func TestBadMessages(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	l := p.sender(p.begin(), "q")
	for _, m := range [][]byte{
		{},
		{0},
		[]byte("hello"), append(text("x"), text("y")...),
		{0x00, 0x53, 0x77},
		append(text("x"), amqp.AppendHeader(nil, &amqp.Header{Priority: 1})...),
	} {
		d := p.send(l, engine.Transfer{Payload: [][]byte{m}})
		r.pump()
		wantRejected(t, d, amqp.ErrCondDecodeError)
	}
	d := p.send(l, engine.Transfer{Payload: [][]byte{text("x")}, Format: 7})
	r.pump()
	wantRejected(t, d, amqp.ErrCondNotImplemented)
	r.wantDepth("q", "0/0")
}

// A transfer that resumes a delivery is refused, and never taken for a new one.
//
// Rows 40.
func TestResumedTransferIsRefused(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	l := p.sender(p.begin(), "q")
	p.send(l, engine.Transfer{Payload: [][]byte{text("x")}, Resume: true})
	p.wantDetached(l, amqp.ErrCondNotImplemented)
	r.wantDepth("q", "0/0")
}

// [8.6], checklist 46: no credit for senders while too much waits to be applied, and again when it is.
func TestBacklogWithholdsCredit(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	r.log.backlog = MaxBacklog + 1
	s := p.sender(p.begin(), "q")
	if s.Credit() != 0 {
		t.Fatal("credit in spite of the backlog")
	}
	r.log.backlog = 0
	r.wait(100 * time.Millisecond)
	if s.Credit() == 0 {
		t.Fatal("still no credit")
	}
	for range 3 * senderCredit {
		if s.Credit() == 0 {
			r.pump()
		}
		p.send(s, engine.Transfer{Payload: [][]byte{text("x")}})
	}
	r.wantDepth("q", "3000/0")
	if p.fe.due != 0 || p.fe.sending != 0 {
		t.Fatalf("%d answers and %d bytes are due", p.fe.due, p.fe.sending)
	}
}

// numbered makes an attach that of a numbered link.
func numbered(a *amqp.Attach) {
	a.ReceiverSettleMode = amqp.ReceiverSettleSecond
	a.DesiredCapabilities = []amqp.Symbol{amqp.CapOncemqNumbered}
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// C9 transport, [1.6], wire.md: numbers and first outcomes survive the connection; refusals of the home's own as well.
func TestNumberedSends(t *testing.T) {
	r := newRig(t)
	p := r.open("a", ours(1, 1))
	s := p.begin(resumable(1, nil))
	id := sessionID(s)
	if len(id) != 16 {
		t.Fatalf("session %x", id)
	}
	l := p.sender(s, "q", func(a *amqp.Attach) { a.Name = "n"; numbered(a) })
	one := p.send(l, engine.Transfer{Tag: number(1), Payload: [][]byte{text("1")}})
	two := p.send(l, engine.Transfer{Tag: number(2), Payload: [][]byte{{9, 9}}}) // refused by its home
	three := p.send(l, engine.Transfer{Tag: number(3), Payload: [][]byte{text("3")}})
	r.pump()
	wantState[*amqp.Accepted](t, one, false)
	wantRejected(t, two, amqp.ErrCondDecodeError)
	wantState[*amqp.Accepted](t, three, false)
	one.Dispose(nil, true)
	p.lose(command.EndReset)
	r.wantDepth("q", "2/0")

	q := r.open("a", ours(1, 2))
	s = q.begin(resumable(1, id))
	if v, _ := s.Remote().Properties.Lookup(string(amqp.PropResumed)); v != true {
		t.Fatal("not resumed")
	}
	a := senderAttach("n", "q")
	numbered(a)
	a.Unsettled = []amqp.Unsettled{{Tag: number(2)}, {Tag: number(3)}, {Tag: number(4)}}
	l, ev := q.attach(s, a)
	if len(ev.Attach.Unsettled) != 2 {
		t.Fatalf("unsettled map %v", ev.Attach.Unsettled)
	}
	if _, ok := ev.Attach.Unsettled[0].State.(*amqp.Rejected); !ok {
		t.Fatalf("2 is %T", ev.Attach.Unsettled[0].State)
	}
	if _, ok := ev.Attach.Unsettled[1].State.(*amqp.Accepted); !ok {
		t.Fatalf("3 is %T", ev.Attach.Unsettled[1].State)
	}
	r.pump()
	again := q.send(l, engine.Transfer{Tag: number(2), Payload: [][]byte{text("2")}})
	once := q.send(l, engine.Transfer{Tag: number(3), Payload: [][]byte{text("3")}})
	r.pump()
	if condition(again) == "" {
		t.Fatalf("a repeat of a refused send got %T", again.State)
	}
	wantState[*amqp.Accepted](t, once, false)
	r.wantDepth("q", "2/0")
	bad := q.send(l, engine.Transfer{Tag: []byte("no number"), Payload: [][]byte{text("3")}})
	q.wantDetached(l, amqp.ErrCondInvalidField)
	_ = bad
}

// Checklist 61, 62: tags are free again once settled; an aborted delivery leaves nothing.
func TestTagsAndAborts(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	l := p.sender(p.begin(), "q")
	for range 3 {
		d := p.send(l, engine.Transfer{Tag: []byte{0}, Payload: [][]byte{text("x")}})
		r.pump()
		wantState[*amqp.Accepted](t, d, true)
	}
	r.wantDepth("q", "3/0")
	p.cut = true
	d := p.send(l, engine.Transfer{Payload: [][]byte{amqp.AppendData(nil, make([]byte, 3<<20))}})
	p.up = append(p.up, p.cl.TakeOutput(nil, r.now)...)
	d.Abort()
	p.cut = false
	r.wantDepth("q", "3/0")
	if l.Credit() == 0 {
		t.Fatal("no credit left")
	}
}

// What is in flight when its link or connection ends is stored all the same, and nothing panics for the answers.
func TestSendInFlightAtTheEnd(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	s := p.begin()
	l := p.sender(s, "q")
	r.log.held = true
	p.sendText(l, "1")
	_ = l.Detach(true, nil)
	r.pump()
	l = p.sender3(s, "q2")
	r.log.held = false
	r.pump()
	r.log.held = true
	p.sendText(l, "2")
	_ = s.End(nil)
	r.pump()
	r.log.held = false
	r.pump()
	r.wantDepth("q", "1/0")
	r.wantDepth("q2", "1/0")
}

// sender3 attaches while nothing is applied.
func (p *pair) sender3(s *engine.Session, address string) *engine.Link {
	l, err := s.Attach(*senderAttach("later", address))
	if err != nil {
		p.r.t.Fatal(err)
	}
	return l
}
