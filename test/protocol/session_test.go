package protocol

import (
	"bytes"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

// A large message is split to the frames that the peer takes, and comes back whole.
func TestRow014LargeMessageIsSplit(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 9_000) // 144 KB
	q := queueName(t)
	for _, size := range []uint32{512, 4096, 65536, 1 << 20} {
		p := open(t, func(o *amqp.Open) { o.MaxFrameSize = size })
		s := p.begin()
		out, back := s.sender(q), s.receiver(q)
		chunk := int(min(size, p.open.MaxFrameSize)) - 100
		id := sendInParts(out, text(body), chunk)
		out.want(id, &amqp.Accepted{})
		back.flow(1)
		m := back.receive().wantText(body)
		if least := len(body) / int(size); m.frames < max(1, least) {
			t.Errorf("frames of %d bytes: %d of them", size, m.frames)
		}
		s.settle(m.id, &amqp.Accepted{})
		p.quiet()
	}
}

// sendInParts sends a delivery in frames of about so many bytes.
func sendInParts(l *link, payload []byte, chunk int) uint32 {
	x := l.transfer()
	id := x.DeliveryID.V
	for {
		n := min(chunk, len(payload))
		x.More = n < len(payload)
		l.put(x, payload[:n])
		if payload = payload[n:]; len(payload) == 0 {
			return id
		}
		x = &amqp.Transfer{Handle: l.handle}
	}
}

// No frame that the node makes is larger than the peer takes, whatever its kind: the answer to an attach with a long name,
// a refusal with a long address.
func TestRow014FramesOfTheLeastSize(t *testing.T) {
	p := open(t, func(o *amqp.Open) { o.MaxFrameSize = 512 })
	s := p.begin()
	s.refused(senderAttach("$" + strings.Repeat("x", 220)))
	l := s.sender(queueName(t) + strings.Repeat("y", 150))
	l.want(l.send(text("x")), &amqp.Accepted{})
	p.quiet()
}

// Frames on a channel that nobody began on, or that has ended, hurt no other session.
func TestRow016UnknownChannel(t *testing.T) {
	p := open(t)
	s, ended := p.begin(), p.begin()
	l := s.sender(queueName(t))
	ended.end()
	for _, channel := range []uint16{ended.channel, 77} {
		p.send(channel, &amqp.Flow{IncomingWindow: 1})
		p.send(channel, &amqp.Transfer{Handle: 3, DeliveryID: amqp.Some(uint32(0)), DeliveryTag: []byte{1}}, text("x")...)
		p.send(channel, &amqp.Disposition{First: 0, Settled: true})
		p.send(channel, &amqp.Detach{Handle: 9})
	}
	l.want(l.send(text("x")), &amqp.Accepted{})
	p.begin() // the channel is free again
	p.quiet()
}

// A channel above channel-max closes the connection with a framing error, and so does a handle above handle-max.
func TestRow017ChannelMaxAndHandleMax(t *testing.T) {
	p := open(t)
	if p.open.ChannelMax == amqp.DefaultChannelMax {
		t.Fatal("the node announces no bound of channels")
	}
	p.send(p.open.ChannelMax+1, amqp.NewBegin())
	p.wantClose(amqp.ErrCondFramingError)

	p = open(t)
	s := p.begin()
	if s.begin.HandleMax == amqp.DefaultHandleMax {
		t.Fatal("the node announces no bound of handles")
	}
	a := senderAttach(queueName(t))
	a.Handle = s.begin.HandleMax + 1
	s.send(a)
	p.wantClose(amqp.ErrCondFramingError)
}

// The node uses no channel above the peer's channel-max, nor a handle above its handle-max.
func TestRow017PeersBounds(t *testing.T) {
	p := open(t, func(o *amqp.Open) { o.ChannelMax = 1 })
	p.begin()
	p.begin()
	p.quiet()
	p = open(t)
	s := p.begin(func(b *amqp.Begin) { b.HandleMax = 0 })
	l := s.sender(queueName(t))
	if l.attach.Handle != 0 {
		t.Fatalf("handle %d", l.attach.Handle)
	}
	s.send(receiverAttachAt(1, queueName(t)))
	s.wantEnd(amqp.ErrCondResourceLimitExceeded)
	p.quiet()
}

func receiverAttachAt(handle uint32, queue string) *amqp.Attach {
	a := receiverAttach(queue)
	a.Handle = handle
	return a
}

// Close without Detach and End cleans everything up and rolls open transactions back.
func TestRow018CloseCleansUp(t *testing.T) {
	q, other := filled(t, "held", "in tx"), queueName(t)
	p := open(t)
	s := p.begin()
	c := s.coordinator()
	txn := c.declare()
	in := s.receiver(q)
	in.flow(2)
	in.receive().wantText("held")
	s.settle(in.receive().wantText("in tx").id, of(txn, &amqp.Accepted{}))
	s.sender(other).post(txn, "never")
	p.close()
	p.wantEOF()
	eventually(t, q, "held", "in tx")
	wantQueue(t, other)
}

// The node keeps to the peer's incoming window, whatever the credit is, and goes on when that opens.
func TestRow021PeersWindow(t *testing.T) {
	q := filled(t, "1", "2", "3", "4")
	p := open(t)
	s := p.begin(func(b *amqp.Begin) { b.IncomingWindow = 2 })
	l := s.receiver(q)
	l.flow(10)
	l.receive().wantText("1")
	l.receive().wantText("2")
	echo(l, func(f *amqp.Flow) { f.IncomingWindow = 0 })
	s.incomingLimit = 1
	l.flow(8)
	l.receive().wantText("3")
	s.incomingLimit = 10
	f := s.flowFrame() // of the session alone
	s.send(f)
	l.receive().wantText("4")
	p.quiet()
}

// echo asks for the link's state and waits for it: nothing else comes before.
func echo(l *link, change ...func(*amqp.Flow)) *amqp.Flow {
	l.s.p.t.Helper()
	f := l.s.flowFrame()
	f.Handle, f.Echo = amqp.Some(l.handle), true
	if l.role == amqp.RoleReceiver {
		f.DeliveryCount = amqp.Some(l.count)
	}
	for _, g := range change {
		g(f)
	}
	l.s.send(f)
	_, body, _ := l.s.p.next()
	x, ok := body.(*amqp.Flow)
	if !ok {
		l.s.p.t.Fatalf("got %s %+v, want a flow", amqp.NameOf(body), body)
	}
	return x
}

// The node's own window is opened anew in time; a transfer beyond it ends the session.
func TestRow021OurWindow(t *testing.T) {
	p := open(t)
	s := p.begin()
	l := s.sender(queueName(t))
	window := s.begin.IncomingWindow
	payload := text("x")
	for range window + window/2 { // in the queue of nobody who reads: settled, so nothing is answered but flows
		l.put(&amqp.Transfer{
			Handle: l.handle, DeliveryID: amqp.Some(s.nextDelivery), DeliveryTag: []byte{1}, Settled: amqp.Some(true), Aborted: true,
		}, nil)
		s.nextDelivery++
		if s.nextDelivery%100 == 0 {
			echoSession(s)
		}
	}
	l.want(l.send(payload), &amqp.Accepted{})
	p.quiet()
}

// echoSession asks for the session's state; flows of links may come before.
func echoSession(s *session) {
	s.p.t.Helper()
	f := s.flowFrame()
	f.Echo = true
	s.send(f)
	for {
		_, body, _ := s.p.next()
		if x, ok := body.(*amqp.Flow); ok && !x.Handle.Set {
			return
		}
	}
}

// A flow with echo is answered: that of a session by the session's state, that of a link by the link's. The answer asks
// for none in return.
func TestRow021Echo(t *testing.T) {
	p := open(t)
	s := p.begin()
	f := s.flowFrame()
	f.Echo = true
	s.send(f)
	_, body, _ := p.next()
	x, ok := body.(*amqp.Flow)
	if !ok || x.Handle.Set || x.Echo || x.LinkCredit.Set || x.NextIncomingID != amqp.Some(s.nextOut) || x.IncomingWindow != s.begin.IncomingWindow {
		t.Fatalf("the answer of the session: %+v", body)
	}
	l := s.receiver(queueName(t))
	x = echo(l, func(f *amqp.Flow) { f.LinkCredit = amqp.Some(uint32(7)) })
	if x.Handle != amqp.Some(l.attach.Handle) || x.LinkCredit != amqp.Some(uint32(7)) || x.DeliveryCount != amqp.Some(l.count) || x.Echo || x.Drain {
		t.Fatalf("the answer of a sender: %+v", x)
	}
	out := s.sender(queueName(t))
	x = echo(out)
	if x.Handle != amqp.Some(out.attach.Handle) || x.LinkCredit.V == 0 || x.Echo {
		t.Fatalf("the answer of a receiver: %+v", x)
	}
	p.quiet()
}

// Transfer-ids and delivery-ids wrap around.
func TestRow022WrapAround(t *testing.T) {
	q := queueName(t)
	p := open(t)
	s := p.begin(func(b *amqp.Begin) { b.NextOutgoingID = 1<<32 - 2 })
	l := s.sender(q)
	var ids []uint32
	for range 4 {
		id := l.send(text("x"))
		l.want(id, &amqp.Accepted{})
		ids = append(ids, id)
	}
	if ids[3] != 1 {
		t.Fatalf("the ids are %d", ids)
	}
	back := s.receiver(q)
	back.count = 1<<32 - 2 // ours is only a claim: the node's count is ahead, and 6 of the 8 are left
	back.flow(8)
	for range 4 {
		back.receive().wantText("x")
	}
	p.quiet()
}

// Flow and transfer on a handle that is not attached end the session with unattached-handle, and no other.
func TestRow023UnattachedHandle(t *testing.T) {
	p := open(t)
	l := p.begin().sender(queueName(t))
	for name, body := range map[string]amqp.Performative{
		"flow":     &amqp.Flow{IncomingWindow: 1, Handle: amqp.Some(uint32(9)), LinkCredit: amqp.Some(uint32(1))},
		"transfer": &amqp.Transfer{Handle: 9, DeliveryID: amqp.Some(uint32(0)), DeliveryTag: []byte{1}},
		"detach":   &amqp.Detach{Handle: 9, Closed: true},
	} {
		t.Run(name, func(*testing.T) {
			s := p.begin()
			s.send(body)
			s.wantEnd(amqp.ErrCondUnattachedHandle)
		})
	}
	l.want(l.send(text("x")), &amqp.Accepted{})
	p.quiet()
}

// An attach on a handle in use ends the session with handle-in-use.
func TestRow023HandleInUse(t *testing.T) {
	p := open(t)
	s := p.begin()
	s.sender(queueName(t))
	s.send(receiverAttachAt(0, queueName(t)))
	s.wantEnd(amqp.ErrCondHandleInUse)
	p.quiet()
}

// The end of a session gives its unsettled deliveries back, with their counts as they were.
func TestRow024SessionEndReleases(t *testing.T) {
	q := filled(t, "1", "2")
	p := open(t)
	s := p.begin()
	l := s.receiver(q)
	l.flow(2)
	l.receive().wantText("1")
	l.receive().wantText("2")
	s.end()
	for _, m := range eventually(t, q, "1", "2") {
		if n := m.header().DeliveryCount; n != 0 {
			t.Errorf("%s has count %d", m.text(), n)
		}
	}
	p.quiet()
}

// A mandatory field that is missing, and a flow that names half of the session, close the connection with decode-error.
func TestRow118MissingFields(t *testing.T) {
	for name, frame := range map[string][]byte{
		"begin":    {0, 0, 0, 12, 2, 0, 0, 0, 0x00, 0x53, 0x11, 0x45},
		"attach":   {0, 0, 0, 12, 2, 0, 0, 0, 0x00, 0x53, 0x12, 0x45},
		"flow":     {0, 0, 0, 12, 2, 0, 0, 0, 0x00, 0x53, 0x13, 0x45},
		"transfer": {0, 0, 0, 12, 2, 0, 0, 0, 0x00, 0x53, 0x14, 0x45},
		"detach":   {0, 0, 0, 12, 2, 0, 0, 0, 0x00, 0x53, 0x16, 0x45},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t)
			if name != "begin" {
				p.begin()
			}
			p.write(frame)
			p.wantClose(amqp.ErrCondDecodeError)
		})
	}
}

// Garbage behind an open connection: the condition says whether the frame or what is in it is bad, and the socket is
// closed; others go on.
func TestRow118Garbage(t *testing.T) {
	healthy := open(t)
	l := healthy.begin().sender(queueName(t))
	deep := append([]byte{0x00, 0x53, 0x11}, bytes.Repeat([]byte{0xc0, 0xff, 0x01}, 200)...)
	framed := func(body ...byte) []byte {
		n := len(body) + 8
		return append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 2, 0, 0, 0}, body...)
	}
	for name, c := range map[string]struct {
		frame     []byte
		condition amqp.Symbol
	}{
		"size below the header":  {[]byte{0, 0, 0, 7, 2, 0, 0, 0}, amqp.ErrCondFramingError},
		"huge size":              {[]byte{0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0}, amqp.ErrCondFramingError},
		"data offset of one":     {[]byte{0, 0, 0, 8, 1, 0, 0, 0}, amqp.ErrCondFramingError},
		"data offset beyond":     {[]byte{0, 0, 0, 8, 3, 0, 0, 0}, amqp.ErrCondFramingError},
		"frame of no type":       {[]byte{0, 0, 0, 8, 2, 7, 0, 0}, amqp.ErrCondFramingError},
		"SASL frame":             {[]byte{0, 0, 0, 15, 2, 1, 0, 0, 0x00, 0x53, 0x44, 0xc0, 2, 1, 0x40}, ""},
		"no descriptor":          {framed(0x45), amqp.ErrCondDecodeError},
		"unknown performative":   {framed(0x00, 0x53, 0x1f, 0x45), amqp.ErrCondDecodeError},
		"deep nesting":           {framed(deep...), amqp.ErrCondDecodeError},
		"list beyond its frame":  {framed(0x00, 0x53, 0x11, 0xd0, 0, 0, 0xff, 0xff, 0, 0, 0, 4), amqp.ErrCondDecodeError},
		"count without elements": {framed(0x00, 0x53, 0x11, 0xd0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff), amqp.ErrCondDecodeError},
		"bad UTF-8": {
			framed(0x00, 0x53, 0x12, 0xc0, 8, 3, 0xa1, 2, 0xc3, 0x28, 0x43, 0x42),
			amqp.ErrCondDecodeError,
		},
		"array without width": {
			framed(0x00, 0x53, 0x11, 0xc0, 22, 6, 0x40, 0x43, 0x43, 0x43, 0x43, 0xf0, 0, 0, 0, 9, 0x7f, 0xff, 0xff, 0xff, 0x45, 0, 0, 0),
			amqp.ErrCondDecodeError,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t)
			p.write(c.frame)
			x := expect[*amqp.Close](p)
			if c.condition == "" {
				wantCondition(t, x.Error, amqp.ErrCondFramingError, amqp.ErrCondDecodeError, amqp.ErrCondNotAllowed)
			} else {
				wantCondition(t, x.Error, c.condition)
			}
			p.send(0, &amqp.Close{})
			p.wantEOF()
		})
	}
	l.want(l.send(text("x")), &amqp.Accepted{})
	healthy.quiet()
}
