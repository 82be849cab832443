package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// Checklist 2: a wrong protocol header gets ours back, and the socket is to be closed.
func TestHeaderUnknown(t *testing.T) {
	for _, in := range []string{"GET / HT", "AMQP\x00\x00\x09\x01", "AMQP\x03\x01\x00\x00", "X"} {
		c := New(Config{Server: true})
		_, err := c.Input([]byte(in), t0)
		if !errors.Is(err, ErrHeader) {
			t.Fatalf("%q: %v", in, err)
		}
		if got := string(c.TakeOutput(nil, t0)); got != "AMQP\x00\x01\x00\x00" || !c.Done() {
			t.Fatalf("%q: output %q, done %t", in, got, c.Done())
		}
		wantLines(t, "events", eventsOf(c), []string{"Closed connection amqp:connection:framing-error remote=false"})
	}
}

// A header that comes byte by byte is waited for; so is a frame.
func TestInputInPieces(t *testing.T) {
	c := New(Config{Server: true})
	in := amqp.AppendFrame(amqp.AppendProtoHeader(nil, amqp.ProtoAMQP), 0, amqp.NewOpen("peer"), nil)
	from := 0
	for to := 1; to <= len(in); to++ {
		n, err := c.Input(in[from:to], t0)
		if err != nil {
			t.Fatal(err)
		}
		from += n
	}
	if from != len(in) {
		t.Fatalf("%d of %d bytes consumed", from, len(in))
	}
	wantLines(t, "events", eventsOf(c), []string{"Opened peer"})
}

// Checklist 8: what python-proton pipelines before our Open is held, and handled in order once Open is sent.
func TestPipelinedBeforeOpen(t *testing.T) {
	p := newRawPeer(t, Config{Server: true})
	in := amqp.AppendFrame(nil, 0, amqp.NewOpen("peer"), nil)
	open := len(in)
	in = amqp.AppendFrame(in, 0, &amqp.Begin{IncomingWindow: 1 << 31, OutgoingWindow: 1 << 31, HandleMax: 7}, nil)
	a := amqp.NewAttach("q", amqp.RoleReceiver)
	a.Source = &amqp.Source{}
	in = amqp.AppendFrame(in, 0, a, nil)
	in = amqp.AppendFrame(in, 0, &amqp.Flow{IncomingWindow: 1 << 31, Handle: amqp.Some(uint32(0)), DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(3))}, nil)

	if n := p.input(in); n != open || !p.c.Held() {
		t.Fatalf("%d bytes consumed, want the %d of open; held %t", n, open, p.c.Held())
	}
	if n := p.input(in[open:]); n != 0 {
		t.Fatalf("%d bytes consumed while held", n)
	}
	p.wantEvents("Opened peer")
	p.wantFrames()
	if err := p.c.Open(amqp.Open{ContainerID: "us"}); err != nil {
		t.Fatal(err)
	}
	if n := p.input(in[open:]); n != len(in)-open {
		t.Fatalf("%d bytes consumed", n)
	}
	s := p.event(SessionBegun).Session
	l := p.event(LinkAttached).Link
	p.wantEvents("Credit q 3")
	_, err := l.Send(Transfer{Tag: []byte("1")})
	if !errors.Is(err, ErrNotAttached) {
		t.Fatalf("a send before the answers: %v", err)
	}
	if err := s.Begin(amqp.Begin{}); err != nil {
		t.Fatal(err)
	}
	if err := l.Accept(*a); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Send(Transfer{Tag: []byte("1"), Payload: [][]byte{[]byte("m")}}); err != nil {
		t.Fatal(err)
	}
	p.wantFrames("open us", "0 begin answers 0", "0 attach q 0 sender source", `0 transfer 0 id=0 "1" "m"`)
}

// Checklist 13 and faults 3.3.12: an Open that can't be served is refused by Open and Close.
func TestOpenRefused(t *testing.T) {
	small := amqp.NewOpen("peer")
	small.MaxFrameSize = 511
	idle := amqp.NewOpen("peer")
	idle.IdleTimeout = amqp.Some(uint32(1))
	for _, o := range []*amqp.Open{small, idle} {
		p := newRawPeer(t, Config{Server: true, ContainerID: "us"})
		p.send(0, o)
		p.wantEvents("Closed connection amqp:invalid-field remote=false")
		p.wantFrames("open us failed", "close amqp:invalid-field")
		if !p.c.Done() || p.err == nil {
			t.Fatalf("done %t, err %v", p.c.Done(), p.err)
		}
	}
}

// Checklist 13 and 118: frames that can't be close the connection with the right condition, and nothing is read after it.
func TestHostileFrames(t *testing.T) {
	begin := amqp.AppendFrame(nil, 0, &amqp.Begin{HandleMax: 7}, nil)
	cases := []struct {
		name, in  string
		condition amqp.Symbol
	}{
		{"size below the header", "\x00\x00\x00\x07", amqp.ErrCondFramingError},
		{"larger than ours", "\x00\x00\x10\x01", amqp.ErrCondFramingError},
		{"size 2^32-1", "\xff\xff\xff\xff", amqp.ErrCondFramingError},
		{"offset below the header", "\x00\x00\x00\x08\x01\x00\x00\x00", amqp.ErrCondFramingError},
		{"type 2", "\x00\x00\x00\x08\x02\x02\x00\x00", amqp.ErrCondFramingError},
		{"SASL frame", string(amqp.AppendFrame(nil, 0, &amqp.SASLOutcome{}, nil)), amqp.ErrCondFramingError},
		{"no performative", "\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x53\x01", amqp.ErrCondDecodeError},
		{"cut begin", string(begin[:3]) + string(begin[3]-1) + string(begin[4:len(begin)-1]), amqp.ErrCondDecodeError},
		{"second open", string(amqp.AppendFrame(nil, 0, amqp.NewOpen("x"), nil)), amqp.ErrCondIllegalState},
		{"channel above channel-max", string(amqp.AppendFrame(nil, 8, &amqp.Begin{}, nil)), amqp.ErrCondFramingError},
		{"flow above channel-max", string(amqp.AppendFrame(nil, 9, &amqp.Flow{}, nil)), amqp.ErrCondFramingError},
		{"answer to no begin", string(amqp.AppendFrame(nil, 0, &amqp.Begin{RemoteChannel: amqp.Some(uint16(3))}, nil)), amqp.ErrCondInvalidField},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			p := opened(t, Config{Server: true, MaxFrameSize: 4096, ChannelMax: 7})
			if n := p.input([]byte(tc.in)); n != len(tc.in) || p.err == nil {
				t.Fatalf("%d consumed, err %v", n, p.err)
			}
			p.wantEvents("Closed connection " + string(tc.condition) + " remote=false")
			p.wantFrames("close " + string(tc.condition))
			if n := p.input([]byte(tc.in)); n != len(tc.in) {
				t.Fatalf("%d consumed after the end", n)
			}
			p.wantEvents()
		})
	}
}

// Faults 3.1: before Open only a small frame is taken, and only Open.
func TestBeforeOpen(t *testing.T) {
	p := newRawPeer(t, Config{Server: true})
	p.send(0, amqp.NewOpen(strings.Repeat("x", 5000)))
	p.wantFrames("open  failed", "close amqp:connection:framing-error")
	p = newRawPeer(t, Config{Server: true})
	p.send(0, &amqp.Begin{})
	p.wantFrames("open  failed", "close amqp:connection:framing-error")
}

// Checklist 15: an empty frame at half of the peer's idle-time-out, and Close once the peer was silent for ours.
func TestIdle(t *testing.T) {
	p := newRawPeer(t, Config{Server: true, IdleTimeout: time.Minute})
	o := amqp.NewOpen("peer")
	o.IdleTimeout = amqp.Some(uint32(30_000))
	p.send(0, o)
	p.wantEvents("Opened peer")
	if next := p.c.Tick(t0); !next.IsZero() {
		t.Fatalf("a tick before our open is due at %v", next)
	}
	_ = p.c.Open(amqp.Open{ContainerID: "us"})
	p.wantFrames("open us")
	for at := 15 * time.Second; at < time.Minute; at += 15 * time.Second {
		if next := p.c.Tick(t0.Add(at - 1)); !next.Equal(t0.Add(at)) {
			t.Fatalf("next %v, want %v", next.Sub(t0), at)
		}
		p.wantFrames()
		p.now = t0.Add(at)
		p.c.Tick(p.now)
		p.wantFrames("empty")
	}
	p.c.Tick(t0.Add(time.Minute - 1))
	p.wantEvents()
	if next := p.c.Tick(t0.Add(time.Minute)); !next.IsZero() {
		t.Fatalf("a tick after the end is due at %v", next)
	}
	ev := p.event(Closed)
	if !errors.Is(ev.Err, ErrIdle) || ev.Err.AMQP.Condition != amqp.ErrCondResourceLimitExceeded {
		t.Fatalf("%v", ev.Err)
	}
	p.wantFrames("close amqp:resource-limit-exceeded")
}

// Any byte of the peer's counts as a sign of life, and what we write anyway saves the empty frame.
func TestIdleAlive(t *testing.T) {
	p := newRawPeer(t, Config{Server: true, IdleTimeout: time.Minute})
	o := amqp.NewOpen("peer")
	o.IdleTimeout = amqp.Some(uint32(1000))
	p.send(0, o)
	_ = p.c.Open(amqp.Open{})
	p.frames()
	p.now = t0.Add(400 * time.Millisecond)
	p.input(amqp.AppendFrame(nil, 0, nil, nil))
	p.c.Heartbeat()
	p.c.Heartbeat()
	p.wantFrames("empty")
	if next := p.c.Tick(p.now); !next.Equal(p.now.Add(500 * time.Millisecond)) {
		t.Fatalf("next at %v", next.Sub(t0))
	}
	if next := p.c.lastIn; !next.Equal(p.now) {
		t.Fatalf("heard at %v", next.Sub(t0))
	}
}

// Our Open announces half of our idle time-out (2.4.5), our sizes and numbers.
func TestOpenAnnounces(t *testing.T) {
	c := New(Config{IdleTimeout: time.Minute, MaxFrameSize: 4096, ChannelMax: 9})
	if err := c.Open(amqp.Open{ContainerID: "us"}); err != nil {
		t.Fatal(err)
	}
	f, _, err := amqp.DecodeFrame(c.TakeOutput(nil, t0)[amqp.ProtoHeaderSize:], amqp.Limits{})
	o, ok := f.Body.(*amqp.Open)
	if err != nil || !ok || o.IdleTimeout.V != 30_000 || o.MaxFrameSize != 4096 || o.ChannelMax != 9 {
		t.Fatalf("%+v %v", f.Body, err)
	}
}

// Checklist 18: Close is answered with Close, everything is over with it, and nothing of ours follows.
func TestClose(t *testing.T) {
	p, l := attached(t, Config{Server: true}, amqp.RoleReceiver)
	p.send(0, &amqp.Close{Error: &amqp.Error{Condition: amqp.ErrCondConnectionForced}})
	p.wantEvents("Closed connection amqp:connection:forced remote=true")
	if p.c.Done() || l.Attached() || !l.Detached() || !l.Session().Ended() {
		t.Fatal("half closed")
	}
	if _, err := p.c.Begin(amqp.Begin{}); !errors.Is(err, ErrClosed) {
		t.Fatalf("begin: %v", err)
	}
	_ = p.c.Close(nil)
	_ = p.c.Close(nil)
	p.wantFrames("close")
	if !p.c.Done() {
		t.Fatal("not done")
	}
}

// Our Close waits for the peer's; what comes meanwhile is ignored.
func TestCloseOurs(t *testing.T) {
	p, _ := begun(t, Config{Server: true})
	_ = p.c.Close(&amqp.Error{Condition: amqp.ErrCondConnectionForced})
	p.send(0, amqp.NewAttach("late", amqp.RoleReceiver))
	p.send(1, &amqp.Begin{})
	p.wantEvents()
	if p.c.Done() {
		t.Fatal("done before the peer's close")
	}
	p.send(0, &amqp.Close{})
	p.wantEvents("Closed")
	p.wantFrames("close amqp:connection:forced")
	if !p.c.Done() {
		t.Fatal("not done")
	}
}

// A refusal before our Open says Open{connection-establishment-failed} first (architecture: ConnOpen not applied).
func TestCloseBeforeOpen(t *testing.T) {
	p := newRawPeer(t, Config{Server: true, ContainerID: "us"})
	p.send(0, amqp.NewOpen("peer"))
	_ = p.c.Close(&amqp.Error{Condition: amqp.ErrCondConnectionForced})
	p.wantFrames("open us failed", "close amqp:connection:forced")
}

// An error's info and long description give way where the peer's frames are small; its condition never does.
func TestFaultFitsSmallFrames(t *testing.T) {
	p := newRawPeer(t, Config{Server: true})
	o := amqp.NewOpen("peer")
	o.MaxFrameSize = 512
	p.send(0, o)
	_ = p.c.Open(amqp.Open{})
	p.frames()
	_ = p.c.Close(&amqp.Error{Condition: amqp.ErrCondInternalError, Description: strings.Repeat("x", 1000)})
	b := p.c.TakeOutput(nil, t0)
	if len(b) > 512 {
		t.Fatalf("a frame of %d bytes", len(b))
	}
	f, _, err := amqp.DecodeFrame(b, amqp.Limits{})
	if err != nil || showFrame(f) != "close amqp:internal-error" {
		t.Fatalf("%v %v", showFrame(f), err)
	}
}
