package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

// Checklist 14: a large message is split to the peer's max-frame-size and comes out whole, whatever pieces it was given in.
func TestSplit(t *testing.T) {
	payload := make([]byte, 300_000)
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	for _, size := range []uint32{512, 4096, 65536, 1 << 20} {
		for _, cuts := range [][]int{{0}, {0, 100}, {0, 0, 5, 200_000, 300_000}} {
			t.Run(fmt.Sprintf("%d in %d", size, len(cuts)), func(t *testing.T) {
				n := newPair(t, Config{MaxFrameSize: size, IncomingWindow: 10, OutputLimit: 5000})
				out, in := n.link(amqp.ReceiverSettleFirst)
				_ = in.SetCredit(10, false)
				n.run()
				var pieces [][]byte
				for i, c := range cuts {
					to := len(payload)
					if i+1 < len(cuts) {
						to = cuts[i+1]
					}
					pieces = append(pieces, payload[c:to])
				}
				d, err := out.Send(Transfer{Tag: []byte("t"), Format: 7, Payload: pieces})
				if err != nil || n.client.c.Backlog() != len(payload) {
					t.Fatalf("%v, backlog %d", err, n.client.c.Backlog())
				}
				n.run()
				if len(n.server.received) != 1 || n.server.payloads[0] != string(payload) || !d.Sent() || n.client.c.Backlog() != 0 {
					t.Fatalf("%d received, sent %t, backlog %d", len(n.server.received), d.Sent(), n.client.c.Backlog())
				}
				got := n.server.received[0]
				if got.Format != 7 || got.Owned != (size < 300_000) || n.server.c.partialBytes != 0 {
					t.Fatalf("format %d, owned %t, %d partial bytes", got.Format, got.Owned, n.server.c.partialBytes)
				}
				if got.Owned && !bytes.Equal(got.Payload, payload) {
					t.Fatal("an owned payload changed")
				}
			})
		}
	}
}

// Each frame is within the peer's size.
func TestSplitKeepsSize(t *testing.T) {
	p := newRawPeer(t, Config{Server: true})
	o := amqp.NewOpen("peer")
	o.MaxFrameSize = 512
	p.send(0, o)
	_ = p.c.Open(amqp.Open{})
	p.send(0, &amqp.Begin{IncomingWindow: 1000, HandleMax: 9})
	p.event(Opened)
	_ = p.event(SessionBegun).Session.Begin(amqp.Begin{})
	l := p.attach("a", 0, amqp.RoleReceiver)
	p.send(0, grant(0, 0, 9))
	state := &amqp.TransactionalState{TxnID: []byte("tx")}
	for _, pieces := range [][][]byte{{make([]byte, 1200)}, {make([]byte, 600), make([]byte, 600)}} {
		if _, err := l.Send(Transfer{Tag: []byte("t"), State: state, Payload: pieces}); err != nil {
			t.Fatal(err)
		}
		frames := 0
		for b := p.c.TakeOutput(nil, t0); len(b) > 0; frames++ {
			f, n, err := amqp.DecodeFrame(b, amqp.Limits{MaxFrameSize: 512})
			if err != nil || showState(f.Body.(*amqp.Transfer).State) != " tx(tx)" { // T9: each frame is part of the transaction
				t.Fatalf("%v %v", err, showFrame(f))
			}
			b = b[n:]
		}
		if frames != 3 {
			t.Fatalf("%d frames", frames)
		}
	}
	big := &amqp.Rejected{Error: &amqp.Error{Condition: "x", Description: strings.Repeat("x", 600)}}
	if _, err := l.Send(Transfer{State: big}); !errors.Is(err, ErrFrameTooLarge) {
		t.Fatal(err)
	}
}

// Checklist 60: pre-settled transfers, with an empty tag and with none, again and again; nothing is remembered, nothing answered.
func TestPreSettled(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleSender)
	_ = l.SetCredit(9, false)
	p.frames()
	state := &amqp.TransactionalState{TxnID: []byte("tx")}
	p.xfer(amqp.Transfer{DeliveryID: u(0), DeliveryTag: []byte{}, Settled: amqp.Some(true), State: state}, "m")
	p.xfer(amqp.Transfer{DeliveryID: u(1), DeliveryTag: []byte{}, Settled: amqp.Some(true)}, "n")
	p.xfer(amqp.Transfer{DeliveryID: u(2), Settled: amqp.Some(true)}, "o")
	d := p.event(Received).Delivery
	p.wantEvents(`Received link 1 "" settled "n"`, `Received link 2 "" settled "o"`)
	if l.Unsettled() != 0 || d.Dispose(&amqp.Accepted{}, true) || showState(d.State) != " tx(tx)" {
		t.Fatal("a settled delivery is remembered")
	}
	p.wantFrames()
}

// Checklist 61: a tag may be used again once it is settled, by whichever side; before, the link is detached.
func TestTagReuse(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleSender)
	_ = l.SetCredit(9, false)
	p.frames()
	for i := range uint32(3) {
		p.xfer(amqp.Transfer{DeliveryID: u(i), DeliveryTag: []byte{0}}, "m")
		d := p.event(Received).Delivery
		if i == 0 {
			d.Dispose(&amqp.Accepted{}, true)
		} else if i == 1 {
			p.send(0, &amqp.Disposition{Role: amqp.RoleSender, First: i, Settled: true})
			p.wantEvents("Disposed link [1] settled")
		}
	}
	p.xfer(amqp.Transfer{DeliveryID: u(3), DeliveryTag: []byte{0}}, "m")
	p.wantEvents("LinkDetached link closed link amqp:not-allowed remote=false")
	p.wantFrames("0 disposition receiver 0..0 settled accepted", "0 detach 0 closed amqp:not-allowed")
}

// Checklist 62: an aborted delivery leaves nothing behind but the used credit.
func TestAborted(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleSender)
	_ = l.SetCredit(5, false)
	p.frames()
	p.xfer(amqp.Transfer{DeliveryID: u(0), DeliveryTag: []byte("a"), More: true}, "part")
	p.xfer(amqp.Transfer{More: true}, "part")
	p.wantEvents()
	p.xfer(amqp.Transfer{Aborted: true}, "")
	p.wantEvents("Aborted link")
	p.xfer(amqp.Transfer{DeliveryID: u(1), DeliveryTag: []byte("b"), Aborted: true}, "")
	p.wantEvents("Aborted link")
	p.xfer(amqp.Transfer{DeliveryID: u(2), DeliveryTag: []byte("c"), Resume: true, Aborted: true}, "")
	p.wantEvents("Aborted link resumed")
	p.xfer(amqp.Transfer{DeliveryID: u(3), DeliveryTag: []byte("a")}, "whole")
	p.wantEvents(`Received link 3 "a" "whole"`)
	if l.Credit() != 1 || p.c.partialBytes != 0 {
		t.Fatalf("credit %d, %d partial bytes", l.Credit(), p.c.partialBytes)
	}
}

// Checklist 97: the coordinator's user can see that a delivery of the transaction is not complete.
func TestPartial(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleSender)
	_ = l.SetCredit(5, false)
	state := &amqp.TransactionalState{TxnID: []byte("tx")}
	p.xfer(amqp.Transfer{DeliveryID: u(0), DeliveryTag: []byte("a"), More: true, State: state}, "part")
	if got, ok := l.Partial(); !ok || showState(got) != " tx(tx)" {
		t.Fatalf("%v %t", got, ok)
	}
	p.xfer(amqp.Transfer{State: state}, "s")
	p.wantEvents(`Received link 0 "a" tx(tx) "parts"`)
	if _, ok := l.Partial(); ok {
		t.Fatal("still partial")
	}
}

// Transfers of two links may interleave; those of two deliveries on one link may not. Faults 3.3.10.
func TestInterleavedTransfers(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleSender)
	other := p.attach("other", 1, amqp.RoleSender)
	_ = l.SetCredit(5, false)
	_ = other.SetCredit(5, false)
	p.xfer(amqp.Transfer{DeliveryID: u(0), DeliveryTag: []byte("a"), More: true}, "A")
	p.xfer(amqp.Transfer{Handle: 1, DeliveryID: u(1), DeliveryTag: []byte("a"), More: true}, "B")
	p.xfer(amqp.Transfer{DeliveryID: u(0), DeliveryTag: []byte("a"), More: false}, "A")
	p.xfer(amqp.Transfer{Handle: 1}, "B")
	p.wantEvents(`Received link 0 "a" "AA"`, `Received other 1 "a" "BB"`)
}

// Faults 3.3.10 and checklist 30: what a hostile sender may try, and what it costs it.
func TestTransferErrors(t *testing.T) {
	first := amqp.Transfer{DeliveryID: u(7), DeliveryTag: []byte("a"), More: true}
	with := func(change func(*amqp.Transfer)) []amqp.Transfer {
		next := amqp.Transfer{}
		change(&next)
		return []amqp.Transfer{first, next}
	}
	long := first
	long.DeliveryTag = make([]byte, 33)
	noTag, noID := first, first
	noTag.DeliveryTag, noID.DeliveryID = nil, amqp.Opt[uint32]{}
	done, back := first, first
	done.More, back.DeliveryID = false, u(7)
	back.DeliveryTag = []byte("b")
	cases := []struct {
		name string
		send []amqp.Transfer
		want string
	}{
		{"tag of 33 bytes", []amqp.Transfer{long}, "link amqp:invalid-field"},
		{"no tag", []amqp.Transfer{noTag}, "link amqp:invalid-field"},
		{"no delivery-id", []amqp.Transfer{noID}, "link amqp:invalid-field"},
		{"delivery-id again", []amqp.Transfer{done, back}, "session amqp:invalid-field"},
		{"another id", with(func(x *amqp.Transfer) { x.DeliveryID = u(8) }), "link amqp:invalid-field"},
		{"another tag", with(func(x *amqp.Transfer) { x.DeliveryTag = []byte("b") }), "link amqp:invalid-field"},
		{"second on a link that settles first", []amqp.Transfer{{
			DeliveryID: u(7), DeliveryTag: []byte("a"), ReceiverSettleMode: amqp.Some(amqp.ReceiverSettleSecond),
		}}, "link amqp:invalid-field"},
		{"another format", with(func(x *amqp.Transfer) { x.MessageFormat = u(1) }), "link amqp:invalid-field"},
		{"too large", []amqp.Transfer{first, {More: true}, {More: true}}, "link amqp:link:message-size-exceeded"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			p, l := attached(t, Config{Server: true, MaxMessageSize: 25}, amqp.RoleSender)
			_ = l.SetCredit(9, false)
			for _, x := range tc.send {
				p.xfer(x, "0123456789")
			}
			got := strings.Join(eventsOf(p.c), "\n")
			if !strings.HasSuffix(got, tc.want+" remote=false") || p.err != nil || p.c.partialBytes != 0 {
				t.Fatalf("%s; %v; %d partial bytes", got, p.err, p.c.partialBytes)
			}
		})
	}
	p, _ := attached(t, Config{Server: true}, amqp.RoleReceiver)
	p.send(0, &amqp.Transfer{DeliveryID: u(0), DeliveryTag: []byte{}})
	p.wantEvents("LinkDetached link closed link amqp:not-allowed remote=false")
}

// Faults 3.1 (67235): all unfinished deliveries of a connection have one bound together.
func TestPartialBytesAreBounded(t *testing.T) {
	p, l := attached(t, Config{Server: true, MaxPartialBytes: 100}, amqp.RoleSender)
	other := p.attach("other", 1, amqp.RoleSender)
	_ = l.SetCredit(9, false)
	_ = other.SetCredit(9, false)
	p.xfer(amqp.Transfer{DeliveryID: u(0), DeliveryTag: []byte("a"), More: true}, strings.Repeat("x", 60))
	p.xfer(amqp.Transfer{Handle: 1, DeliveryID: u(1), DeliveryTag: []byte("a"), More: true}, strings.Repeat("x", 60))
	p.wantEvents("LinkDetached other closed link amqp:resource-limit-exceeded remote=false")
	if p.c.partialBytes != 60 {
		t.Fatalf("%d", p.c.partialBytes)
	}
}

// The client's rule (wire.md): a number is taken when the first frame is written; a send that waits has emitted nothing
// and can be withdrawn; its credit returns.
func TestWithdraw(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleReceiver)
	f := grant(0, 0, 3)
	f.IncomingWindow = 1
	p.send(0, f)
	a, b, c := mustSend(t, l, "a", "m"), mustSend(t, l, "b", "m"), mustSend(t, l, "c", "m")
	if l.Credit() != 0 {
		t.Fatalf("credit %d", l.Credit())
	}
	p.c.Flush()
	if !a.Sent() || a.Written() || b.Started() {
		t.Fatal("flush")
	}
	p.wantFrames(`0 transfer 0 id=0 "a" "m"`)
	if !a.Written() || b.Started() || b.Written() || a.End() != p.c.Taken() {
		t.Fatalf("written %t, started %t", a.Written(), b.Started())
	}
	if !b.Abort() || b.Abort() || a.Abort() || l.Credit() != 1 || p.c.Backlog() != 1 {
		t.Fatalf("credit %d, backlog %d", l.Credit(), p.c.Backlog())
	}
	p.send(0, &amqp.Flow{NextIncomingID: u(1), IncomingWindow: 9})
	p.wantFrames(`0 transfer 0 id=1 "c" "m"`)
	if !c.Written() || b.Written() {
		t.Fatal("written")
	}
}

// A delivery that has begun is taken back by an aborted transfer.
func TestAbortStarted(t *testing.T) {
	n := newPair(t, Config{MaxFrameSize: 512, OutputLimit: 600})
	out, in := n.link(amqp.ReceiverSettleFirst)
	_ = in.SetCredit(5, false)
	n.run()
	d := mustSend(t, out, "a", strings.Repeat("x", 5000))
	n.step(n.client, n.server)
	if !d.Written() || d.Sent() {
		t.Fatalf("written %t, sent %t", d.Written(), d.Sent())
	}
	if _, ok := in.Partial(); !ok || d.Abort() {
		t.Fatal("not partial")
	}
	mustSend(t, out, "b", "m")
	n.run()
	if len(n.server.received) != 1 || n.server.payloads[0] != "m" || d.Sent() || !d.Settled || n.client.c.Backlog() != 0 || out.Unsettled() != 1 {
		t.Fatalf("%d received, backlog %d", len(n.server.received), n.client.c.Backlog())
	}
}

// Transfers wait at OutputLimit, so that little is written without need: what waits can still go elsewhere (C8).
func TestOutputLimit(t *testing.T) {
	p, l := attached(t, Config{Server: true, OutputLimit: 1000}, amqp.RoleReceiver)
	p.send(0, grant(0, 0, 100))
	for range 10 {
		mustSend(t, l, "t", strings.Repeat("x", 400))
	}
	b := p.c.TakeOutput(nil, t0)
	if len(b) < 1000 || len(b) > 1500 || p.c.Backlog() != 10*400-3*400 {
		t.Fatalf("%d bytes, backlog %d", len(b), p.c.Backlog())
	}
	if !p.c.HasOutput() {
		t.Fatal("no more output")
	}
}

// Messages above the peer's max-message-size, sends on the wrong end, too many unsettled: refused, and nothing queued.
func TestSendRefused(t *testing.T) {
	n := newPair(t, Config{MaxMessageSize: 10, MaxUnsettled: 2})
	out, in := n.link(amqp.ReceiverSettleFirst)
	_ = in.SetCredit(9, false)
	n.run()
	if _, err := out.Send(Transfer{Payload: [][]byte{make([]byte, 11)}}); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	if _, err := in.Send(Transfer{}); !errors.Is(err, ErrRole) {
		t.Fatal(err)
	}
	if err := out.SetCredit(1, false); !errors.Is(err, ErrRole) {
		t.Fatal(err)
	}
	if _, err := out.Send(Transfer{Tag: make([]byte, 33)}); !errors.Is(err, ErrTag) {
		t.Fatal(err)
	}
	mustSend(t, out, "a", "")
	n.run()
	mustSend(t, out, "b", "")
	if _, err := out.Send(Transfer{Tag: []byte("c")}); !errors.Is(err, ErrUnsettledFull) {
		t.Fatal(err)
	}
	if _, err := out.Send(Transfer{Settled: true}); err != nil {
		t.Fatal(err)
	}
	n.run()
	if len(n.server.received) != 3 || n.client.c.Backlog() != 0 {
		t.Fatalf("%d received", len(n.server.received))
	}
}

// A peer that never settles can't make us remember more than MaxUnsettled of its deliveries.
func TestIncomingUnsettledIsBounded(t *testing.T) {
	p, l := attached(t, Config{Server: true, MaxUnsettled: 2}, amqp.RoleSender)
	_ = l.SetCredit(9, false)
	for i := range uint32(3) {
		p.xfer(amqp.Transfer{DeliveryID: u(i), DeliveryTag: []byte{byte(i)}}, "")
	}
	p.event(Received)
	p.event(Received)
	p.wantEvents("LinkDetached link closed link amqp:resource-limit-exceeded remote=false")
}

// Resume (2.6.13): a transfer with resume and no payload goes on with a delivery under a new delivery-id.
func TestResume(t *testing.T) {
	n := newPair(t, Config{})
	out, in := n.link(amqp.ReceiverSettleSecond)
	_ = in.SetCredit(9, false)
	n.run()
	d, err := out.Send(Transfer{Tag: []byte("t"), Resume: true, State: &amqp.Accepted{}})
	if err != nil {
		t.Fatal(err)
	}
	n.run()
	got := n.server.received[0]
	if !got.Resume || showState(got.State) != " accepted" || len(got.Payload) != 0 || !got.Second || !d.Second {
		t.Fatalf("%+v", got)
	}
	got.Dispose(&amqp.Accepted{}, true)
	n.run()
	if !d.Settled || out.Unsettled() != 0 {
		t.Fatal("not settled")
	}
}
