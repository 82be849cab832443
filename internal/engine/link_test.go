package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

func u(v uint32) amqp.Opt[uint32] { return amqp.Some(v) }

// grant is a peer's Flow that gives a sender link credit.
func grant(handle, count, credit uint32) *amqp.Flow {
	return &amqp.Flow{NextIncomingID: u(0), IncomingWindow: 1000, OutgoingWindow: 1000, Handle: u(handle), DeliveryCount: u(count), LinkCredit: u(credit)}
}

func mustSend(t *testing.T, l *Link, tag, payload string) *Delivery {
	t.Helper()
	d, err := l.Send(Transfer{Tag: []byte(tag), Payload: [][]byte{[]byte(payload)}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Checklist 25: a refusal is Attach with a null terminus and then Detach(closed, error), for either role; the asker sees both.
func TestRefuse(t *testing.T) {
	p, _ := begun(t, Config{Server: true})
	for i, role := range []amqp.Role{amqp.RoleReceiver, amqp.RoleSender} {
		a := amqp.NewAttach("x", role)
		a.Handle = uint32(i)
		a.Source, a.Target = &amqp.Source{}, &amqp.Target{}
		p.send(0, a)
		l := p.event(LinkAttached).Link
		if err := l.Refuse(amqp.Error{Condition: amqp.ErrCondNotFound}); err != nil {
			t.Fatal(err)
		}
	}
	p.wantFrames("0 attach x 0 sender target", "0 detach 0 closed amqp:not-found", "0 attach x 1 receiver source", "0 detach 1 closed amqp:not-found")
	p.send(0, &amqp.Detach{Handle: 0, Closed: true})
	p.wantEvents("LinkDetached x closed")

	n := newPair(t, Config{})
	n.server.onEvent = func(ev Event) bool {
		if ev.Kind == LinkAttached {
			_ = ev.Link.Refuse(amqp.Error{Condition: amqp.ErrCondNotFound})
		}
		return ev.Kind == LinkAttached
	}
	var got []string
	n.client.onEvent = func(ev Event) bool { got = append(got, show(ev)); return false }
	s, _ := n.client.c.Begin(amqp.Begin{})
	a := amqp.NewAttach("x", amqp.RoleSender)
	a.Target = &amqp.Target{}
	l, _ := s.Attach(*a)
	n.run()
	wantLines(t, "events", got, []string{"SessionBegun", "LinkAttached x sender refused", "LinkDetached x closed link amqp:not-found remote=true"})
	if !l.Detached() || s.handles[0] != nil {
		t.Fatal("the handle is not free")
	}
}

// The coordinator target, the settle modes and the unsettled map go through both ways (2.6.13).
func TestAttachExposesEverything(t *testing.T) {
	n := newPair(t, Config{})
	var seen *amqp.Attach
	n.server.onEvent = func(ev Event) bool {
		if ev.Kind != LinkAttached {
			return false
		}
		seen = ev.Attach
		a := *ev.Attach
		a.Unsettled = []amqp.Unsettled{{Tag: []byte("t1"), State: &amqp.Accepted{}}}
		_ = ev.Link.Accept(a)
		return true
	}
	s, _ := n.client.c.Begin(amqp.Begin{})
	a := amqp.NewAttach("tx", amqp.RoleSender)
	a.Coordinator = &amqp.Coordinator{Capabilities: []amqp.Symbol{amqp.CapLocalTransactions}}
	a.ReceiverSettleMode = amqp.ReceiverSettleSecond
	a.SenderSettleMode = amqp.SenderSettleUnsettled
	a.Unsettled = []amqp.Unsettled{{Tag: []byte("t0")}, {Tag: []byte("t1"), State: &amqp.Received{}}}
	l, err := s.Attach(*a)
	if err != nil {
		t.Fatal(err)
	}
	n.run()
	if seen == nil || seen.Coordinator == nil || seen.ReceiverSettleMode != amqp.ReceiverSettleSecond || len(seen.Unsettled) != 2 || string(seen.Unsettled[1].Tag) != "t1" {
		t.Fatalf("%+v", seen)
	}
	for i := range n.server.in[:cap(n.server.in)] { // the event's Attach must not alias the buffer
		n.server.in[:cap(n.server.in)][i] = 0xdb
	}
	if r := l.Remote(); r == nil || len(r.Unsettled) != 1 || r.Coordinator == nil || string(seen.Unsettled[0].Tag) != "t0" {
		t.Fatalf("%+v, %q", r, seen.Unsettled[0].Tag)
	}
}

// Checklist 41: no send beyond the credit, which the receiver may lower; credit is counted with the delivery-count.
func TestCredit(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleReceiver)
	if _, err := l.Send(Transfer{}); !errors.Is(err, ErrNoCredit) {
		t.Fatal(err)
	}
	p.send(0, grant(0, 0, 3))
	p.wantEvents("Credit link 3")
	mustSend(t, l, "a", "m")
	mustSend(t, l, "b", "m")
	p.wantFrames(`0 transfer 0 id=0 "a" "m"`, `0 transfer 0 id=1 "b" "m"`)
	p.send(0, grant(0, 1, 3)) // it has seen one of two
	p.wantEvents("Credit link 2")
	p.send(0, grant(0, 0, 1)) // less than what is in flight
	p.wantEvents("Credit link 0")
	if _, err := l.Send(Transfer{}); !errors.Is(err, ErrNoCredit) {
		t.Fatal(err)
	}
	p.send(0, grant(0, 9, 5)) // a count from the future
	p.wantEvents("Credit link 5")
	p.send(0, grant(0, 2, 0xFFFFFFFF))
	p.wantEvents("Credit link 4294967295")
	p.send(0, grant(0, 2, 0)) // checklist 44
	p.wantEvents("Credit link 0")
	p.send(0, grant(0, 2, 1))
	p.wantEvents("Credit link 1")
	mustSend(t, l, "c", "m")
	p.wantFrames(`0 transfer 0 id=2 "c" "m"`)
}

// Where credit is taken back, sends that wait for the window wait for credit too; those of other links pass them, and when
// credit returns they go in order.
func TestCreditTakenBack(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleReceiver)
	other := p.attach("other", 1, amqp.RoleReceiver)
	closed := grant(0, 0, 5)
	closed.IncomingWindow = 0
	p.send(0, closed)
	g := grant(1, 0, 5)
	g.IncomingWindow = 0
	p.send(0, g)
	p.wantEvents("Credit link 5", "Credit other 5")
	for _, tag := range []string{"a", "b", "c"} {
		mustSend(t, l, tag, "")
	}
	mustSend(t, other, "x", "")
	p.wantFrames()
	p.send(0, grant(0, 0, 1))
	p.wantEvents("Credit link 0")
	p.wantFrames(`0 transfer 0 id=0 "a" ""`, `0 transfer 1 id=1 "x" ""`)
	p.send(0, grant(0, 1, 0))
	p.wantFrames()
	p.send(0, grant(0, 1, 3))
	p.event(Credit)
	p.wantEvents("Credit link 1")
	p.wantFrames(`0 transfer 0 id=2 "b" ""`, `0 transfer 0 id=3 "c" ""`)
}

// Credit that a withdrawn send had is for the next that lost its own.
func TestCreditOfWithdrawn(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleReceiver)
	p.send(0, grant(0, 0, 2))
	a, b := mustSend(t, l, "a", ""), mustSend(t, l, "b", "")
	p.send(0, grant(0, 0, 0))
	p.wantFrames()
	closed := grant(0, 0, 1)
	closed.IncomingWindow = 0
	p.send(0, closed)
	if !a.Abort() {
		t.Fatal("not withdrawn")
	}
	p.send(0, &amqp.Flow{NextIncomingID: u(0), IncomingWindow: 9})
	p.wantFrames(`0 transfer 0 id=0 "b" ""`)
	if !b.Sent() || l.Credit() != 0 || l.waiting != 0 {
		t.Fatalf("credit %d", l.Credit())
	}
}

// Checklist 42, 43, 45: each drain is answered with a Flow, whatever the credit; messages go first; go-amqp drains with credit 0.
func TestDrainAnswered(t *testing.T) {
	drain := func(count, credit uint32) *amqp.Flow {
		f := grant(0, count, credit)
		f.Drain = true
		return f
	}
	p, l := attached(t, Config{Server: true}, amqp.RoleReceiver)
	p.send(0, drain(0, 10))
	p.wantEvents("Credit link 10 drain")
	p.wantFrames()
	if !l.Draining() {
		t.Fatal("not draining")
	}
	l.Drained()
	p.wantFrames("0 flow handle=0 count=10 credit=0 drain")
	l.Drained()
	p.wantFrames()

	p.send(0, drain(10, 3))
	mustSend(t, l, "a", "m")
	l.Drained()
	p.wantFrames(`0 transfer 0 id=0 "a" "m"`, "0 flow handle=0 count=13 credit=0 drain")

	p.send(0, drain(13, 0))
	l.Drained()
	p.wantFrames("0 flow handle=0 count=13 credit=0 drain")

	echo := drain(13, 1) // echo and drain: one answer, and none before the drain is over
	echo.Echo = true
	p.send(0, echo)
	p.wantFrames()
	mustSend(t, l, "b", "m")
	l.Drained()
	p.wantFrames(`0 transfer 0 id=1 "b" "m"`, "0 flow handle=0 count=14 credit=0 drain")

	p.send(0, drain(14, 5)) // called off before it was answered
	p.send(0, grant(0, 14, 5))
	l.Drained()
	p.wantFrames()
	if l.Credit() != 5 || l.Draining() {
		t.Fatalf("credit %d", l.Credit())
	}
}

// A drain is over only when the sends before it are on their way, though the window is closed meanwhile.
func TestDrainWaitsForSends(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleReceiver)
	f := grant(0, 0, 5)
	f.IncomingWindow, f.Drain = 0, true
	p.send(0, f)
	mustSend(t, l, "a", "m")
	d := mustSend(t, l, "b", "m")
	l.Drained()
	p.wantFrames()
	if !d.Abort() {
		t.Fatal("not withdrawn")
	}
	p.send(0, &amqp.Flow{NextIncomingID: u(0), IncomingWindow: 9})
	p.wantFrames(`0 transfer 0 id=0 "a" "m"`, "0 flow handle=0 count=5 credit=0 drain")
}

// The receiver's end of a drain: by a Flow, by using the credit up, with no credit at all, called off.
func TestDrain(t *testing.T) {
	n := newPair(t, Config{})
	out, in := n.link(amqp.ReceiverSettleFirst)
	set := func(credit uint32, drain bool, wantOut uint32) {
		t.Helper()
		if err := in.SetCredit(credit, drain); err != nil {
			t.Fatal(err)
		}
		n.run()
		if out.Credit() != wantOut || out.Draining() != drain {
			t.Fatalf("credit %d, draining %t", out.Credit(), out.Draining())
		}
	}
	finish := func(want int) {
		t.Helper()
		out.Drained()
		n.run()
		if n.server.drained != want || want > 0 && in.Credit() != 0 {
			t.Fatalf("%d drained, credit %d", n.server.drained, in.Credit())
		}
		n.server.drained = 0
	}
	set(5, true, 5)
	finish(1)
	set(0, true, 0)
	finish(1)
	set(1, true, 1)
	mustSend(t, out, "a", "m")
	finish(1)
	set(3, true, 3)
	mustSend(t, out, "b", "m")
	finish(1)
	set(3, true, 3)
	set(3, false, 3)
	finish(0)
}

// Checklist 41, the other way: a delivery beyond the credit detaches the link; one that a lowered credit crossed doesn't.
func TestTransferLimit(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleSender)
	_ = l.SetCredit(2, false)
	_ = l.SetCredit(0, false)
	p.frames()
	for i := range uint32(3) {
		p.xfer(amqp.Transfer{DeliveryID: u(i), DeliveryTag: []byte{byte('a' + i)}}, "m")
	}
	p.wantEvents(`Received link 0 "a" "m"`, `Received link 1 "b" "m"`, "LinkDetached link closed link amqp:link:transfer-limit-exceeded remote=false")
	p.wantFrames("0 detach 0 closed amqp:link:transfer-limit-exceeded")
	p.xfer(amqp.Transfer{DeliveryID: u(3), DeliveryTag: []byte("late")}, "m")
	p.send(0, &amqp.Detach{Closed: true})
	p.wantEvents()
	if !l.Detached() || l.Unsettled() != 0 {
		t.Fatal("still there")
	}
}

// Detach and re-attach on the same handle by a peer that doesn't wait for our answer; two links of one name.
func TestReattachPipelined(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleReceiver)
	p.send(0, &amqp.Detach{Closed: true})
	a := amqp.NewAttach("link", amqp.RoleReceiver)
	p.send(0, a)
	p.wantEvents("LinkDetached link closed", "LinkAttached link sender")
	again := l.session.byPeer[0]
	_ = l.Detach(true, nil)
	_ = again.Accept(*a)
	p.wantFrames("0 detach 0 closed", "0 attach link 1 sender")

	steal := amqp.NewAttach("link", amqp.RoleReceiver) // checklist 35: the user decides
	steal.Handle = 5
	p.send(0, steal)
	thief := p.event(LinkAttached).Link
	if err := again.Detach(true, &amqp.Error{Condition: amqp.ErrCondStolen}); err != nil {
		t.Fatal(err)
	}
	_ = thief.Accept(*steal)
	p.wantFrames("0 detach 1 closed amqp:link:stolen", "0 attach link 0 sender")
	if !thief.Attached() || again.Attached() {
		t.Fatal("not stolen")
	}
}

// Our Detach before the peer answered our Attach.
func TestDetachBeforeAnswer(t *testing.T) {
	p, s := begun(t, Config{Server: true})
	l, err := s.Attach(*amqp.NewAttach("x", amqp.RoleSender))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Detach(true, nil)
	p.wantFrames("0 attach x 0 sender", "0 detach 0 closed")
	p.send(0, amqp.NewAttach("x", amqp.RoleReceiver))
	p.wantEvents()
	p.send(0, &amqp.Detach{Closed: true})
	p.wantEvents("LinkDetached x closed")
	p.wantFrames()
}

// An Attach that doesn't fit into the peer's frames is refused to its user, and leaves nothing behind.
func TestAttachTooLarge(t *testing.T) {
	p := newRawPeer(t, Config{})
	o := amqp.NewOpen("peer")
	o.MaxFrameSize = 512
	p.send(0, o)
	_ = p.c.Open(amqp.Open{})
	s, _ := p.c.Begin(amqp.Begin{})
	p.frames()
	a := amqp.NewAttach(strings.Repeat("x", 600), amqp.RoleSender)
	if _, err := s.Attach(*a); !errors.Is(err, ErrFrameTooLarge) {
		t.Fatal(err)
	}
	if l, err := s.Attach(*amqp.NewAttach("x", amqp.RoleSender)); err != nil || l.handle != 0 {
		t.Fatal(err)
	}
	p.wantFrames("0 attach x 0 sender")
}
