package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

// Checklist 16: frames on channels that were never begun, or that the peer ended, hurt nobody; a session that we ended ignores
// what was under way until the peer's End.
func TestUnknownChannel(t *testing.T) {
	p, s := begun(t, Config{Server: true})
	p.send(5, amqp.NewAttach("x", amqp.RoleSender))
	p.send(5, &amqp.End{})
	p.send(1, &amqp.Begin{HandleMax: 7, IncomingWindow: 10})
	other := p.event(SessionBegun).Session
	_ = other.Begin(amqp.Begin{})
	_ = other.End(&amqp.Error{Condition: amqp.ErrCondInternalError})
	p.wantFrames("1 begin answers 1", "1 end amqp:internal-error")
	p.send(1, amqp.NewAttach("late", amqp.RoleSender))
	p.send(1, &amqp.Transfer{})
	p.send(1, &amqp.Disposition{})
	p.wantEvents()
	p.send(1, &amqp.End{})
	p.wantEvents("SessionEnded")
	p.send(1, &amqp.Flow{})
	p.wantEvents()
	p.wantFrames()
	if !other.Ended() || !s.Active() || p.err != nil {
		t.Fatalf("ended %t, other active %t, %v", other.Ended(), s.Active(), p.err)
	}
	p.send(1, &amqp.Begin{HandleMax: 7}) // the channel is free again, on both sides
	if again := p.event(SessionBegun).Session; again.Channel() != 1 {
		t.Fatalf("channel %d", again.Channel())
	}
}

// A second Begin on a channel in use, an Attach on a handle in use, a handle that isn't attached: the session ends, with
// the right condition, and no other (checklist 23).
func TestSessionErrors(t *testing.T) {
	a := amqp.NewAttach("a", amqp.RoleSender)
	b := amqp.NewAttach("b", amqp.RoleSender)
	cases := []struct {
		name      string
		send      []amqp.Performative
		condition amqp.Symbol
	}{
		{"begin twice", []amqp.Performative{&amqp.Begin{}}, amqp.ErrCondIllegalState},
		{"handle in use", []amqp.Performative{a, b}, amqp.ErrCondHandleInUse},
		{"flow", []amqp.Performative{&amqp.Flow{Handle: amqp.Some(uint32(9))}}, amqp.ErrCondUnattachedHandle},
		{"transfer", []amqp.Performative{&amqp.Transfer{Handle: 9}}, amqp.ErrCondUnattachedHandle},
		{"detach", []amqp.Performative{&amqp.Detach{Handle: 9}}, amqp.ErrCondUnattachedHandle},
		{"next-incoming-id from the future", []amqp.Performative{&amqp.Flow{NextIncomingID: amqp.Some(uint32(1))}}, amqp.ErrCondInvalidField},
		{"disposition backwards", []amqp.Performative{&amqp.Disposition{First: 5, Last: amqp.Some(uint32(4))}}, amqp.ErrCondInvalidField},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			p, s := begun(t, Config{Server: true})
			for _, f := range tc.send {
				p.send(0, f)
			}
			for len(tc.send) > 1 {
				p.event(LinkAttached)
				tc.send = tc.send[1:]
			}
			p.wantEvents("SessionEnded session " + string(tc.condition) + " remote=false")
			p.wantFrames("0 end " + string(tc.condition))
			_ = s.End(nil)
			p.send(0, &amqp.End{})
			p.wantEvents()
			p.wantFrames()
			if !s.Ended() || p.err != nil {
				t.Fatalf("ended %t, %v", s.Ended(), p.err)
			}
		})
	}
}

// Checklist 17: a handle above handle-max closes the connection; our own numbers keep to the peer's bounds.
func TestHandleMaxChannelMax(t *testing.T) {
	p, _ := begun(t, Config{Server: true, HandleMax: 3})
	a := amqp.NewAttach("a", amqp.RoleSender)
	a.Handle = 4
	p.send(0, a)
	p.wantEvents("Closed connection amqp:connection:framing-error remote=false")

	p = newRawPeer(t, Config{})
	o := amqp.NewOpen("peer")
	o.ChannelMax = 1
	_ = p.c.Open(amqp.Open{})
	p.send(0, o)
	for range 2 {
		if _, err := p.c.Begin(amqp.Begin{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.c.Begin(amqp.Begin{}); !errors.Is(err, ErrNoChannel) {
		t.Fatal(err)
	}
	p.send(9, &amqp.Begin{RemoteChannel: amqp.Some(uint16(1)), HandleMax: 0})
	p.event(Opened)
	s := p.event(SessionBegun).Session
	if _, err := s.Attach(*amqp.NewAttach("a", amqp.RoleSender)); err != nil || s.Channel() != 1 {
		t.Fatal(err)
	}
	if _, err := s.Attach(*amqp.NewAttach("a", amqp.RoleSender)); !errors.Is(err, ErrLinkName) {
		t.Fatal(err)
	}
	if _, err := s.Attach(*amqp.NewAttach("b", amqp.RoleSender)); !errors.Is(err, ErrNoHandle) {
		t.Fatal(err)
	}
}

// Checklist 21: we stop at the peer's window, and go on when it opens; ours is opened anew at half and not to be passed.
func TestSessionWindows(t *testing.T) {
	p, l := attached(t, Config{Server: true, IncomingWindow: 4}, amqp.RoleReceiver)
	one := amqp.Some(uint32(0))
	p.send(0, &amqp.Flow{NextIncomingID: one, IncomingWindow: 2, Handle: one, DeliveryCount: one, LinkCredit: amqp.Some(uint32(9))})
	p.wantEvents("Credit link 9")
	for i := range 4 {
		if _, err := l.Send(Transfer{Tag: []byte{byte('a' + i)}, Payload: [][]byte{[]byte("m")}}); err != nil {
			t.Fatal(err)
		}
	}
	p.wantFrames(`0 transfer 0 id=0 "a" "m"`, `0 transfer 0 id=1 "b" "m"`)
	p.send(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: 2}) // one is still in flight
	p.wantFrames(`0 transfer 0 id=2 "c" "m"`)
	p.send(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(3)), IncomingWindow: 2, Echo: true})
	p.wantFrames("0 flow in=0 window=4 out=3", `0 transfer 0 id=3 "d" "m"`)

	in := p.attach("in", 1, amqp.RoleSender)
	if err := in.SetCredit(100, false); err != nil {
		t.Fatal(err)
	}
	p.wantFrames("0 flow handle=1 count=0 credit=100")
	p.xfer(amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(0)), DeliveryTag: []byte("1")}, "")
	p.wantFrames()
	p.xfer(amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(1)), DeliveryTag: []byte("2")}, "")
	p.wantFrames("0 flow in=2 window=4 out=4")
}

// A transfer beyond the window that the peer was told of ends the session: what we haven't written opens nothing.
func TestWindowViolation(t *testing.T) {
	p, l := attached(t, Config{Server: true, IncomingWindow: 2}, amqp.RoleSender)
	_ = l.SetCredit(10, false)
	p.wantFrames("0 flow handle=0 count=0 credit=10")
	for i := range uint32(3) {
		p.xfer(amqp.Transfer{DeliveryID: amqp.Some(i), Settled: amqp.Some(true)}, "")
	}
	p.wantEvents(`Received link 0 "" settled ""`, `Received link 1 "" settled ""`, "SessionEnded session amqp:session:window-violation remote=false")
	p.wantFrames("0 end amqp:session:window-violation")
}

// Checklist 22 and faults 3.3.9: transfer-ids, delivery-ids and delivery-counts go through 2^32.
func TestWrapAround(t *testing.T) {
	const start = 0xFFFFFFFE
	n := newPair(t, Config{NextOutgoingID: start, InitialDeliveryCount: start, IncomingWindow: 3})
	out, in := n.link(amqp.ReceiverSettleFirst)
	if err := in.SetCredit(10, false); err != nil {
		t.Fatal(err)
	}
	n.run()
	var ids []uint32
	for i := range 10 {
		if _, err := out.Send(Transfer{Tag: []byte{byte(i)}, Payload: [][]byte{[]byte("m")}}); err != nil {
			t.Fatal(err)
		}
	}
	n.run()
	for _, d := range n.server.received {
		ids = append(ids, d.ID)
	}
	if got := fmt.Sprint(ids); got != "[4294967294 4294967295 0 1 2 3 4 5 6 7]" {
		t.Fatal(got)
	}
	if in.Credit() != 0 || out.Credit() != 0 {
		t.Fatalf("credit %d, %d", in.Credit(), out.Credit())
	}
	if _, err := out.Send(Transfer{}); !errors.Is(err, ErrNoCredit) {
		t.Fatal(err)
	}
	for _, d := range n.server.received {
		if !d.Dispose(&amqp.Accepted{}, true) {
			t.Fatalf("%d", d.ID)
		}
	}
	n.run()
	if len(n.client.disposed) != 10 || out.Unsettled() != 0 || in.Unsettled() != 0 {
		t.Fatalf("%d disposed, %d and %d unsettled", len(n.client.disposed), out.Unsettled(), in.Unsettled())
	}
	_ = in.SetCredit(1, true)
	n.run()
	out.Drained()
	n.run()
	if n.server.drained != 1 || in.Credit() != 0 {
		t.Fatalf("%d drained, credit %d", n.server.drained, in.Credit())
	}
}

// Checklist 24: at End the links still say what was unsettled, and who waited was never written.
func TestSessionEnd(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleReceiver)
	zero := amqp.Some(uint32(0))
	p.send(0, &amqp.Flow{IncomingWindow: 1, Handle: zero, DeliveryCount: zero, LinkCredit: amqp.Some(uint32(9))})
	a, _ := l.Send(Transfer{Tag: []byte("a")})
	b, _ := l.Send(Transfer{Tag: []byte("b")})
	p.frames()
	p.send(0, &amqp.End{})
	p.event(Credit)
	s := p.event(SessionEnded).Session
	if !a.Written() || a.Settled || b.Started() || l.Unsettled() != 1 || p.c.Backlog() != 0 {
		t.Fatalf("a written %t, b started %t, %d unsettled", a.Written(), b.Started(), l.Unsettled())
	}
	links := 0
	s.Links(func(x *Link) {
		links++
		x.EachUnsettled(func(d *Delivery) bool {
			if d != a {
				t.Fatal("another delivery")
			}
			return true
		})
	})
	if links != 1 || a.Dispose(nil, true) || !l.Detached() {
		t.Fatalf("%d links", links)
	}
	if _, err := l.Send(Transfer{}); !errors.Is(err, ErrEnded) {
		t.Fatal(err)
	}
	_ = s.End(nil)
	p.wantFrames("0 end")
}

// Begin and End pipelined by the peer are both answered.
func TestBeginEndPipelined(t *testing.T) {
	p := opened(t, Config{Server: true})
	p.send(3, &amqp.Begin{HandleMax: 7})
	p.send(3, amqp.NewAttach("a", amqp.RoleSender))
	p.send(3, &amqp.Detach{Closed: true})
	p.send(3, &amqp.End{})
	p.wantEvents("SessionBegun", "LinkAttached a receiver", "LinkDetached a closed", "SessionEnded")
	p.c.Sessions(func(s *Session) { _ = s.End(nil) })
	p.wantFrames("0 begin answers 3", "0 end")
}

// A peer that keeps detaching links with unsettled deliveries can't make us remember ever more of them.
func TestLingeringLinksAreBounded(t *testing.T) {
	p, _ := begun(t, Config{Server: true})
	for i := range uint32(maxLingering + 1) {
		l := p.attach("a", 0, amqp.RoleSender)
		_ = l.SetCredit(1, false)
		p.xfer(amqp.Transfer{DeliveryID: amqp.Some(i), DeliveryTag: []byte{}}, "")
		p.event(Received)
		p.send(0, &amqp.Detach{})
		p.event(LinkDetached)
		_ = l.Detach(false, nil)
		p.frames()
	}
	p.event(SessionEnded)
}

// A peer that asks for echoes and doesn't read what it gets is read no further, and goes on once its answers are taken.
func TestBacklogHoldsInput(t *testing.T) {
	p, _ := begun(t, Config{Server: true, MaxBacklog: 500})
	one := amqp.AppendFrame(nil, 0, &amqp.Flow{Echo: true}, nil)
	var in []byte
	for range 100 {
		in = append(in, one...)
	}
	n := p.input(in)
	if n == 0 || n == len(in) || n%len(one) != 0 || !p.c.Held() || p.c.Backlog() > 600 {
		t.Fatalf("%d of %d consumed, held %t, backlog %d", n, len(in), p.c.Held(), p.c.Backlog())
	}
	if more := p.input(in[n:]); more != 0 {
		t.Fatalf("%d more consumed", more)
	}
	echoes := 0
	for len(in) > 0 {
		in = in[p.input(in):]
		echoes += len(p.frames())
	}
	if echoes < 100 {
		t.Fatalf("%d echoes", echoes)
	}
}

// [3.4]: the user learns how many transfers a peer takes, and when it takes more; what waits for a window doesn't press.
func TestWindowTold(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleReceiver)
	s := l.Session()
	zero := amqp.Some(uint32(0))
	p.send(0, &amqp.Flow{NextIncomingID: zero, IncomingWindow: 2, Handle: zero, DeliveryCount: zero, LinkCredit: amqp.Some(uint32(9))})
	p.event(Credit)
	mustSend(t, l, "a", "m")
	if w := s.Window(); w != 1 {
		t.Fatalf("window %d with one that waits", w)
	}
	mustSend(t, l, "b", "mm")
	mustSend(t, l, "c", "mmm")
	if n := p.c.Pressing(); n != 6 {
		t.Fatalf("%d bytes press", n)
	}
	p.frames()
	if s.Window() != 0 || p.c.Pressing() != 0 || p.c.Backlog() != 3 {
		t.Fatalf("window %d, pressing %d of %d", s.Window(), p.c.Pressing(), p.c.Backlog())
	}
	p.send(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(2)), IncomingWindow: 3})
	if ev := p.event(WindowOpened); ev.Session != s || s.Window() != 2 {
		t.Fatalf("window %d", s.Window())
	}
	p.frames()
	p.send(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(3)), IncomingWindow: 2}) // no more than there is
	if ev, ok := p.c.Next(); ok {
		t.Fatalf("event %v", ev.Kind)
	}
	if p.c.Backlog() != 0 || s.held != 0 {
		t.Fatalf("%d bytes held", s.held)
	}
}
