package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

// receivedN is an attached receiver link that n unsettled deliveries came on, ids 0 and up; session-scoped with what other
// links took before.
func receivedN(t *testing.T, n uint32) (*rawPeer, *Link, []*Delivery) {
	t.Helper()
	p, l := attached(t, Config{Server: true}, amqp.RoleSender)
	_ = l.SetCredit(n, false)
	var ds []*Delivery
	for i := range n {
		p.xfer(amqp.Transfer{DeliveryID: u(i), DeliveryTag: []byte{byte(i)}}, "")
		ds = append(ds, p.event(Received).Delivery)
	}
	p.frames()
	return p, l, ds
}

// sentN is an attached sender link that n unsettled deliveries were sent on.
func sentN(t *testing.T, n int) (*rawPeer, *Link, []*Delivery) {
	t.Helper()
	p, l := attached(t, Config{Server: true}, amqp.RoleReceiver)
	p.send(0, grant(0, 0, uint32(n)))
	p.event(Credit)
	var ds []*Delivery
	for i := range n {
		ds = append(ds, mustSend(t, l, string(rune('a'+i)), ""))
	}
	p.frames()
	return p, l, ds
}

// Lazy says that nothing but lazy dispositions waits; they go in their place, in front of what comes behind them.
func TestLazyDispositions(t *testing.T) {
	p, l, ds := receivedN(t, 6)
	ok := &amqp.Accepted{}
	lazy := func(want bool) {
		t.Helper()
		if got := p.c.Lazy(); got != want {
			t.Fatalf("lazy %v, want %v", got, want)
		}
	}
	lazy(true)
	ds[0].DisposeLazily(ok, true)
	lazy(true)
	ds[2].DisposeLazily(&amqp.Released{}, true) // the former is a frame now
	lazy(true)
	ds[1].Dispose(ok, true)
	lazy(false)
	ds[3].DisposeLazily(ok, true)
	lazy(false)
	p.wantFrames("0 disposition receiver 0..0 settled accepted", "0 disposition receiver 2..2 settled released",
		"0 disposition receiver 1..1 settled accepted", "0 disposition receiver 3..3 settled accepted")
	lazy(true)
	ds[4].DisposeLazily(ok, true)
	ds[5].Dispose(ok, true) // joined
	lazy(false)
	p.frames()
	_ = l.SetCredit(9, false)
	lazy(false)
}

// Dispositions of neighbours with equal state become one frame; order on the wire is order of calls.
func TestDispositionsAreJoined(t *testing.T) {
	p, l, ds := receivedN(t, 9)
	ok := &amqp.Accepted{}
	tx := func(id string) amqp.DeliveryState {
		return &amqp.TransactionalState{TxnID: []byte(id), Outcome: ok}
	}
	for _, d := range ds[:3] {
		d.Dispose(ok, true)
	}
	ds[4].Dispose(ok, true)
	ds[3].Dispose(ok, false)
	ds[5].Dispose(tx("1"), false)
	ds[6].Dispose(tx("1"), false)
	ds[7].Dispose(tx("2"), false)
	_ = l.SetCredit(1, false)
	ds[8].Dispose(&amqp.Released{}, true)
	if ds[8].Dispose(ok, true) || ds[0].Dispose(ok, true) {
		t.Fatal("settled twice")
	}
	p.wantFrames("0 disposition receiver 0..2 settled accepted", "0 disposition receiver 4..4 settled accepted", "0 disposition receiver 3..3 accepted",
		"0 disposition receiver 5..6 tx(1 accepted)", "0 disposition receiver 7..7 tx(2 accepted)", "0 flow handle=0 count=9 credit=1",
		"0 disposition receiver 8..8 settled released")
	if l.Unsettled() != 4 {
		t.Fatalf("%d unsettled", l.Unsettled())
	}
}

// JMS CLIENT_ACKNOWLEDGE: this delivery and all before it, one frame where they are neighbours.
func TestDisposeThrough(t *testing.T) {
	p, l, ds := receivedN(t, 6)
	ds[1].Dispose(&amqp.Accepted{}, true)
	p.frames()
	if n := ds[4].DisposeThrough(&amqp.Accepted{}, true); n != 4 {
		t.Fatalf("%d", n)
	}
	p.wantFrames("0 disposition receiver 0..0 settled accepted", "0 disposition receiver 2..4 settled accepted")
	if l.Unsettled() != 1 {
		t.Fatalf("%d unsettled", l.Unsettled())
	}
}

// Checklist 65, 69: ranges; ids that are settled or unknown are ignored; repeats of what is known are no news.
func TestPeerDispositions(t *testing.T) {
	p, l, ds := sentN(t, 6)
	disp := func(first, last uint32, settled bool, state amqp.DeliveryState) *amqp.Disposition {
		return &amqp.Disposition{Role: amqp.RoleReceiver, First: first, Last: u(last), Settled: settled, State: state}
	}
	p.send(0, disp(1, 2, true, &amqp.Accepted{}))
	p.wantEvents("Disposed link [1 2] settled accepted")
	p.send(0, disp(0, 3, true, &amqp.Accepted{}))
	p.wantEvents("Disposed link [0 3] settled accepted")
	p.send(0, disp(0, 3, true, &amqp.Rejected{}))
	p.send(0, disp(77, 99, true, &amqp.Rejected{}))
	p.send(0, &amqp.Disposition{Role: amqp.RoleSender, First: 4, Settled: true}) // of the other direction
	p.wantEvents()
	p.send(0, disp(4, 4, false, &amqp.Accepted{}))
	p.wantEvents("Disposed link [4] accepted")
	p.send(0, disp(4, 5, false, &amqp.Accepted{}))
	p.wantEvents("Disposed link [5] accepted")
	p.send(0, disp(4, 5, true, nil))
	p.wantEvents("Disposed link [4 5] settled")
	if l.Unsettled() != 0 || showState(ds[4].State) != " accepted" || !ds[4].Settled {
		t.Fatalf("%d unsettled, %v", l.Unsettled(), ds[4].State)
	}
}

// Faults 3.3.8: a range of 2^31 ids costs what is unsettled, not its width; ids wrap.
func TestWideDisposition(t *testing.T) {
	n := newPair(t, Config{NextOutgoingID: 0xFFFFFFFD})
	out, in := n.link(amqp.ReceiverSettleFirst)
	out2, in2 := n.linkOn(out.Session(), "two", amqp.ReceiverSettleFirst)
	_, _ = in.SetCredit(9, false), in2.SetCredit(9, false)
	n.run()
	for range 3 {
		mustSend(t, out, "a", "")
		mustSend(t, out2, "b", "")
		n.run()
		for _, d := range n.server.received {
			d.tag = tagKey{n: 1, b: [maxTag]byte{byte(d.ID)}} // let tags be reused without settling
		}
		clear(in.tags)
		clear(in2.tags)
	}
	var got []string
	n.client.onEvent = func(ev Event) bool { got = append(got, show(ev)); return false }
	n.client.in = amqp.AppendFrame(n.client.in, out.session.peerChannel, &amqp.Disposition{
		Role: amqp.RoleReceiver, First: 0xFFFFFFFE,
		Last: amqp.Some(uint32(0x7FFFFFFD)), Settled: true, State: &amqp.Accepted{},
	}, nil)
	n.run()
	wantLines(t, "events", got, []string{"Disposed link [4294967295 1] settled accepted", "Disposed two [4294967294 0 2] settled accepted"})
	if out.Unsettled() != 1 || out2.Unsettled() != 0 {
		t.Fatalf("%d and %d unsettled", out.Unsettled(), out2.Unsettled())
	}
}

// Checklist 68: receiver settles second: accepted unsettled, we settle, the receiver hears it; and the two steps of resume
// (architecture.md): accepted, accepted, settled.
func TestSettleSecond(t *testing.T) {
	n := newPair(t, Config{})
	out, in := n.link(amqp.ReceiverSettleSecond)
	_ = in.SetCredit(9, false)
	n.run()
	a, b := mustSend(t, out, "a", ""), mustSend(t, out, "b", "")
	n.run()
	for _, d := range n.server.received {
		if !d.Second {
			t.Fatal("not second")
		}
		d.Dispose(&amqp.Accepted{}, false)
	}
	n.run()
	if len(n.client.disposed) != 2 || a.Settled || showState(a.State) != " accepted" {
		t.Fatalf("%d disposed", len(n.client.disposed))
	}
	a.Dispose(nil, true)
	b.Dispose(&amqp.Accepted{}, false)
	n.run()
	ra, rb := n.server.received[0], n.server.received[1]
	if !ra.Settled || rb.Settled || showState(rb.State) != " accepted" || out.Unsettled() != 1 || in.Unsettled() != 1 {
		t.Fatalf("settled %t and %t", ra.Settled, rb.Settled)
	}
	rb.Dispose(nil, true)
	n.run()
	if !b.Settled || out.Unsettled() != 0 {
		t.Fatal("not settled")
	}
}

// Finding 7, checklist 69: after Detach(closed=false) dispositions still take effect, plain and transactional, both ways,
// until the session ends; after closed=true they are ignored.
func TestDispositionAfterDetach(t *testing.T) {
	tx := &amqp.TransactionalState{TxnID: []byte("tx"), Outcome: &amqp.Accepted{}}
	p, l, ds := sentN(t, 3)
	p.send(0, &amqp.Detach{})
	p.wantEvents("LinkDetached link")
	_ = l.Detach(false, nil)
	p.wantFrames("0 detach 0")
	p.send(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 0, Settled: true, State: tx})
	p.wantEvents("Disposed link [0] settled tx(tx accepted)")
	p.send(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 1, State: tx})
	p.wantEvents("Disposed link [1] tx(tx accepted)")
	if !ds[1].Dispose(&amqp.Accepted{}, true) {
		t.Fatal("not disposed")
	}
	p.wantFrames("0 disposition sender 1..1 settled accepted")
	l.Forget()
	p.send(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 2, Settled: true, State: tx})
	p.wantEvents()
	if len(l.session.links) != 0 || l.session.lingering != 0 {
		t.Fatalf("%d links, %d lingering", len(l.session.links), l.session.lingering)
	}

	p, l, ds = sentN(t, 2)
	p.send(0, &amqp.Detach{Closed: true})
	if left := p.event(LinkDetached).Deliveries; len(left) != 2 || left[0] != ds[0] || left[1] != ds[1] {
		t.Fatalf("%d left", len(left))
	}
	_ = l.Detach(true, nil)
	p.send(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 0, Last: u(1), Settled: true, State: &amqp.Released{}})
	p.wantEvents()
	if ds[0].Dispose(nil, true) || p.err != nil || l.Unsettled() != 0 {
		t.Fatal("a closed link's delivery is disposed")
	}
	p.wantFrames("0 detach 0 closed")
}

// The last unsettled delivery of a detached link takes the link out of the list while a wide range goes through it.
func TestWideDispositionDropsLinks(t *testing.T) {
	p, s := begun(t, Config{Server: true})
	var links []*Link
	for i := range uint32(4) {
		l := p.attach(fmt.Sprint(i), i, amqp.RoleReceiver)
		p.send(0, grant(i, 0, 1))
		p.event(Credit)
		mustSend(t, l, "t", "")
		links = append(links, l)
	}
	p.frames()
	for i, l := range links[:3] {
		p.send(0, &amqp.Detach{Handle: uint32(i)})
		_ = l.Detach(false, nil)
	}
	eventsOf(p.c)
	if len(s.links) != 4 || s.lingering != 3 {
		t.Fatalf("%d links, %d lingering", len(s.links), s.lingering)
	}
	p.send(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 0, Last: u(1 << 30), Settled: true})
	p.wantEvents("Disposed 0 [0] settled", "Disposed 1 [1] settled", "Disposed 2 [2] settled", "Disposed 3 [3] settled")
	if len(s.links) != 1 || s.lingering != 0 {
		t.Fatalf("%d links, %d lingering", len(s.links), s.lingering)
	}
}

// States in events and deliveries are copies: they outlive Input's buffer.
func TestStatesAreCopied(t *testing.T) {
	p, _, ds := sentN(t, 1)
	b := amqp.AppendFrame(nil, 0, &amqp.Disposition{Role: amqp.RoleReceiver, State: &amqp.TransactionalState{TxnID: []byte("tx")}}, nil)
	p.input(b)
	for i := range b {
		b[i] = 0xdb
	}
	p.send(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 9, State: &amqp.TransactionalState{TxnID: []byte("other")}})
	if showState(ds[0].State) != " tx(tx)" {
		t.Fatal(showState(ds[0].State))
	}
}

// An outcome whose error doesn't fit into the peer's frames keeps its kind and condition.
func TestOutcomeFitsSmallFrames(t *testing.T) {
	p := newRawPeer(t, Config{Server: true})
	o := amqp.NewOpen("peer")
	o.MaxFrameSize = 512
	p.send(0, o)
	_ = p.c.Open(amqp.Open{})
	p.send(0, &amqp.Begin{IncomingWindow: 10, HandleMax: 9})
	p.event(Opened)
	_ = p.event(SessionBegun).Session.Begin(amqp.Begin{})
	l := p.attach("a", 0, amqp.RoleSender)
	_ = l.SetCredit(9, false)
	p.frames()
	long := strings.Repeat("x", 600)
	rejected := &amqp.Rejected{Error: &amqp.Error{Condition: amqp.ErrCondResourceLimitExceeded, Description: long}}
	for i, state := range []amqp.DeliveryState{
		rejected, &amqp.TransactionalState{TxnID: []byte("tx"), Outcome: rejected},
		&amqp.Modified{DeliveryFailed: true, MessageAnnotations: amqp.Map{{Key: amqp.Symbol("x-opt-a"), Value: long}}},
	} {
		p.xfer(amqp.Transfer{DeliveryID: u(uint32(i)), DeliveryTag: []byte{byte(i)}}, "")
		p.event(Received).Delivery.Dispose(state, true)
	}
	b := p.c.TakeOutput(nil, t0)
	var got []string
	for len(b) > 0 {
		f, n, err := amqp.DecodeFrame(b, amqp.Limits{MaxFrameSize: 512})
		if err != nil {
			t.Fatal(err)
		}
		d := f.Body.(*amqp.Disposition)
		if r, ok := d.State.(*amqp.Rejected); ok && r.Error.Condition != amqp.ErrCondResourceLimitExceeded {
			t.Fatal(r.Error.Condition)
		}
		got = append(got, showFrame(f))
		b = b[n:]
	}
	wantLines(t, "frames", got, []string{
		"0 disposition receiver 0..0 settled rejected", "0 disposition receiver 1..1 settled tx(tx rejected)",
		"0 disposition receiver 2..2 settled modified",
	})
}
