package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
	"github.com/oncemq/oncemq/internal/frontend"
	"github.com/oncemq/oncemq/internal/replica"
)

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

// node is a lone node: a real replica and its listener.
type node struct {
	t    testing.TB
	s    *Server
	rep  *replica.Replica
	stop func() // ends the server gracefully and waits
}

func start(t testing.TB, change ...func(*Config)) *node {
	t.Helper()
	return startWith(t, func(*Server) {}, change...)
}

// startWith starts a node whose server is changed before it runs.
func startWith(t testing.TB, before func(*Server), change ...func(*Config)) *node {
	t.Helper()
	cfg := Config{Listen: "127.0.0.1:0", Dev: true}
	for _, f := range change {
		f(&cfg)
	}
	var rep *replica.Replica
	onBusy := cfg.OnBusy
	cfg.OnBusy = func(busy bool) {
		rep.WantLease(busy)
		if onBusy != nil {
			onBusy(busy)
		}
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rep, err = replica.Open(replica.Options{
		Node: 1, Peers: map[command.NodeID]string{1: "127.0.0.1:1"}, Dir: t.TempDir(), Mailbox: s,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	before(s)
	n := &node{t: t, s: s, rep: rep}
	repCtx, stopRep := context.WithCancel(context.Background())
	srvCtx, stopSrv := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Add(2)
	served := make(chan struct{})
	go func() { defer wg.Done(); _ = rep.Run(repCtx) }()
	go func() {
		defer wg.Done()
		defer close(served)
		if err := s.Run(srvCtx, rep); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	n.stop = func() { stopSrv(); <-served }
	t.Cleanup(func() {
		stopSrv()
		<-served
		stopRep()
		wg.Wait()
		_ = rep.Close()
	})
	n.ready()
	return n
}

// ready waits until the node takes connections.
func (n *node) ready() {
	n.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		n.s.mu.Lock()
		ok := n.s.epoch != 0 && n.s.node != nil
		n.s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-n.t.Context().Done():
		}
	}
	n.t.Fatal("the node isn't ready")
}

// client is a blocking AMQP client on a socket.
type client struct {
	t      testing.TB
	nc     net.Conn
	eng    *engine.Conn
	buf    []byte
	events []engine.Event
}

func (n *node) dial() net.Conn {
	n.t.Helper()
	nc, err := net.Dial("tcp", n.s.Addr().String())
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return nc
}

// connect dials and opens, without SASL.
func (n *node) connect(container string) *client {
	n.t.Helper()
	c := &client{t: n.t, nc: n.dial(), eng: engine.New(engine.Config{})}
	if err := c.eng.Open(*amqp.NewOpen(container)); err != nil {
		n.t.Fatal(err)
	}
	c.await(engine.Opened)
	return c
}

func (c *client) flush() {
	c.t.Helper()
	for {
		b := c.eng.TakeOutput(nil, time.Now())
		if len(b) == 0 {
			return
		}
		if _, err := c.nc.Write(b); err != nil {
			return // what the node said comes from the read
		}
	}
}

// read reads once and gathers events.
func (c *client) read() error {
	b := make([]byte, 64<<10)
	n, err := c.nc.Read(b)
	c.buf = append(c.buf, b[:n]...)
	used, _ := c.eng.Input(c.buf, time.Now())
	for ev, ok := c.eng.Next(); ok; ev, ok = c.eng.Next() {
		if ev.Delivery != nil {
			ev.Delivery.Payload = bytes.Clone(ev.Delivery.Payload)
		}
		ev.Deliveries = append([]*engine.Delivery(nil), ev.Deliveries...)
		c.events = append(c.events, ev)
	}
	c.buf = append([]byte(nil), c.buf[used:]...)
	return err
}

// until reads until ok.
func (c *client) until(what string, ok func() bool) {
	c.t.Helper()
	c.flush()
	for !ok() {
		if err := c.read(); err != nil && !ok() {
			c.t.Fatalf("waiting for %s: %v", what, err)
		}
		c.flush()
	}
}

func (c *client) await(kind engine.EventKind) (ev engine.Event) {
	c.t.Helper()
	c.until("an event", func() bool {
		for i := range c.events {
			if c.events[i].Kind == kind {
				ev = c.events[i]
				c.events = c.events[i+1:]
				return true
			}
		}
		return false
	})
	return ev
}

func (c *client) begin() *engine.Session {
	c.t.Helper()
	s, err := c.eng.Begin(*amqp.NewBegin())
	if err != nil {
		c.t.Fatal(err)
	}
	c.await(engine.SessionBegun)
	return s
}

func (c *client) sender(s *engine.Session, name, queue string) *engine.Link {
	c.t.Helper()
	a := amqp.NewAttach(name, amqp.RoleSender)
	a.Source = &amqp.Source{}
	a.Target = &amqp.Target{Address: amqp.Some(queue)}
	l, err := s.Attach(*a)
	if err != nil {
		c.t.Fatal(err)
	}
	c.until("credit", func() bool { return l.Credit() > 0 })
	return l
}

func (c *client) receiver(s *engine.Session, name, queue string, credit uint32) *engine.Link {
	c.t.Helper()
	a := amqp.NewAttach(name, amqp.RoleReceiver)
	a.Source = &amqp.Source{Address: amqp.Some(queue)}
	a.Target = &amqp.Target{}
	l, err := s.Attach(*a)
	if err != nil {
		c.t.Fatal(err)
	}
	c.await(engine.LinkAttached)
	if err := l.SetCredit(credit, false); err != nil {
		c.t.Fatal(err)
	}
	c.flush()
	return l
}

func (c *client) send(l *engine.Link, payload []byte) *engine.Delivery {
	c.t.Helper()
	d, err := l.Send(engine.Transfer{Tag: []byte{1}, Payload: [][]byte{payload}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.until("an answer", func() bool { return d.Settled })
	if _, ok := d.State.(*amqp.Accepted); !ok {
		c.t.Fatalf("answered %T %+v", d.State, d.State)
	}
	return d
}

func text(s string) []byte { return amqp.AppendAMQPValue(nil, s) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// One way through a real node on a real socket: send, receive, accept; small and large.
func TestThroughARealNode(t *testing.T) {
	n := start(t)
	p := n.connect("p")
	l := p.sender(p.begin(), "s", "q")
	small, large := text("hello"), text(strings.Repeat("large", 500_000))
	p.send(l, small)
	p.send(l, large)
	c := n.connect("c")
	r := c.receiver(c.begin(), "r", "q", 10)
	for _, want := range [][]byte{small, large} {
		d := c.await(engine.Received).Delivery
		s, err := amqp.ParseSections(d.Payload, amqp.Limits{})
		if err != nil || !bytes.Equal(s.Body, want) {
			t.Fatalf("%d bytes came, want %d (%v)", len(s.Body), len(want), err)
		}
		d.Dispose(&amqp.Accepted{}, true)
	}
	// Everything is accepted before the drain's answer, so nothing is left for the next one.
	_ = r.SetCredit(10, true)
	c.await(engine.Drained)
}

// Checklist 1, 4: SASL ANONYMOUS, with an initial-response and without.
func TestSASLAnonymous(t *testing.T) {
	n := start(t)
	for _, response := range [][]byte{nil, {}, []byte("trace")} {
		nc := n.dial()
		b := amqp.AppendProtoHeader(nil, amqp.ProtoSASL)
		b = amqp.AppendFrame(b, 0, &amqp.SASLInit{Mechanism: "ANONYMOUS", InitialResponse: response, Hostname: "h"}, nil)
		b = amqp.AppendProtoHeader(b, amqp.ProtoAMQP)
		b = amqp.AppendFrame(b, 0, amqp.NewOpen("a"), nil) // all in one write
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
		got := readUntil(t, nc, func(names []string) bool { return len(names) > 0 && names[len(names)-1] == "open" })
		if s := strings.Join(got, " "); s != "header3 sasl-mechanisms sasl-outcome header0 open" {
			t.Fatalf("%q: %s", response, s)
		}
	}
}

// readUntil reads frames and headers and names them.
func readUntil(t testing.TB, nc net.Conn, enough func([]string) bool) (names []string) {
	t.Helper()
	var buf []byte
	for !enough(names) {
		b := make([]byte, 4096)
		k, err := nc.Read(b)
		buf = append(buf, b[:k]...)
		for len(buf) >= 8 {
			if h, herr := amqp.ParseProtoHeader(buf); herr == nil && bytes.HasPrefix(buf, []byte("AMQP")) {
				names, buf = append(names, "header"+string('0'+byte(h.ID))), buf[8:]
				continue
			}
			f, n, ferr := amqp.DecodeFrame(buf, amqp.Limits{})
			if ferr != nil {
				break
			}
			names, buf = append(names, amqp.NameOf(f.Body)), buf[n:]
		}
		if err != nil && !enough(names) {
			return append(names, "end")
		}
	}
	return names
}

// Checklist 1, 2: other protocol headers are answered with what we speak, and the socket closed.
func TestWrongHeader(t *testing.T) {
	n := start(t)
	for _, hello := range []string{"GET / HT", "AMQP\x00\x00\x09\x01", "AMQP\x02\x01\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00"} {
		nc := n.dial()
		if _, err := nc.Write([]byte(hello)); err != nil {
			t.Fatal(err)
		}
		got := readUntil(t, nc, func([]string) bool { return false })
		if len(got) != 2 || !strings.HasPrefix(got[0], "header") || got[1] != "end" {
			t.Fatalf("%q was answered with %v", hello, got)
		}
	}
}

// Checklist 8: python-proton pipelines Open, Begin, Attach and Flow in one write.
func TestPipelinedOpen(t *testing.T) {
	n := start(t)
	nc := n.dial()
	b := amqp.AppendProtoHeader(nil, amqp.ProtoAMQP)
	b = amqp.AppendFrame(b, 0, amqp.NewOpen("proton"), nil)
	begin := amqp.NewBegin()
	begin.IncomingWindow, begin.OutgoingWindow = 100, 100
	b = amqp.AppendFrame(b, 0, begin, nil)
	a := amqp.NewAttach("r", amqp.RoleReceiver)
	a.Source, a.Target = &amqp.Source{Address: amqp.Some("q")}, &amqp.Target{}
	b = amqp.AppendFrame(b, 0, a, nil)
	b = amqp.AppendFlow(b, 0, &amqp.Flow{IncomingWindow: 100, OutgoingWindow: 100, Handle: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(1)), Drain: true})
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
	got := readUntil(t, nc, func(names []string) bool { return len(names) > 0 && names[len(names)-1] == "flow" })
	if s := strings.Join(got, " "); s != "header0 open begin attach flow" {
		t.Fatal(s)
	}
}

// Wrong configurations are refused before anything is served, and say what is allowed.
func TestRefusedListeners(t *testing.T) {
	for _, tc := range []struct {
		cfg  Config
		want string
	}{
		{Config{Listen: "127.0.0.1:0"}, "--dev"},
		{Config{Listen: "0.0.0.0:0", Dev: true}, "loopback"},
		{Config{Listen: ":0", Dev: true}, "loopback"},
		{Config{Listen: "192.0.2.1:0", Dev: true}, "loopback"},
		{Config{Listen: "[::]:0", Dev: true}, "loopback"},
		{Config{Listen: "nonsense", Dev: true}, "host:port"},
		{Config{Listen: "0.0.0.0:0", Users: &book{}}, "loopback"},
		{Config{Listen: "0.0.0.0:0", Dev: true, Insecure: true}, "loopback"},
		{Config{ListenTLS: "0.0.0.0:0", TLS: certs.Strict(&tls.Config{}), Dev: true}, "loopback"},
		{Config{ListenTLS: "127.0.0.1:0", Users: &book{}}, "certificate"},
	} {
		s, err := New(tc.cfg)
		if err == nil {
			_ = s.Close()
			t.Errorf("%+v was taken", tc.cfg)
			continue
		}
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want something about %q", tc.cfg, err, tc.want)
		}
	}
}

// Slow and silent beginners are cut off (faults.md 3.1), and make room for others.
func TestDeadlines(t *testing.T) {
	n := start(t, func(c *Config) {
		c.SASLTimeout, c.OpenTimeout, c.MaxPending = 100*time.Millisecond, 100*time.Millisecond, 2
	})
	for _, hello := range [][]byte{nil, []byte("AM"), amqp.AppendProtoHeader(nil, amqp.ProtoSASL), amqp.AppendProtoHeader(nil, amqp.ProtoAMQP)} {
		nc := n.dial()
		_, _ = nc.Write(hello)
		if _, err := io.Copy(io.Discard, nc); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatalf("%q: %v", hello, err)
		}
	}
	// The third that doesn't open is refused at once, while two wait.
	slow := start(t, func(c *Config) { c.MaxPending = 2 })
	slow.dial()
	slow.dial()
	slow.waiting(2)
	if k, err := slow.dial().Read(make([]byte, 1)); err == nil {
		t.Fatalf("read %d bytes of a refused connection", k)
	}
}

func (n *node) waiting(want int) {
	n.t.Helper()
	for end := time.Now().Add(patience); ; {
		n.s.mu.Lock()
		got := n.s.waiting
		n.s.mu.Unlock()
		if got == want {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("%d wait to be opened, want %d", got, want)
		}
		<-time.After(time.Millisecond)
	}
}

// Graceful stop, checklist 20: Close(amqp:connection:forced) reaches the client, and Run ends with all its goroutines.
func TestStop(t *testing.T) {
	var busy atomic.Int32
	n := start(t, func(c *Config) {
		c.OnBusy = func(b bool) {
			if b {
				busy.Add(1)
			} else {
				busy.Add(-1)
			}
		}
	})
	c := n.connect("c")
	c.receiver(c.begin(), "r", "q", 10)
	n.dial() // still in its SASL layer
	if busy.Load() != 1 {
		t.Fatal("not busy with two connections")
	}
	stopped := make(chan struct{})
	go func() { n.stop(); close(stopped) }()
	if ev := c.await(engine.Closed); ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondConnectionForced {
		t.Fatalf("closed with %v", ev.Err)
	}
	<-stopped
	if busy.Load() != 0 || n.s.Stats().Connections != 0 {
		t.Fatal("busy after the stop")
	}
	if nc, err := net.Dial("tcp", n.s.Addr().String()); err == nil {
		_ = nc.Close()
		t.Fatal("it still listens")
	}
}

// lateListener is a listener whose first Close takes until finish is closed, although it listens no more and a second one returns at once: as the
// system's do.
type lateListener struct {
	net.Listener
	closing       atomic.Bool
	begun, finish chan struct{}
}

func (l *lateListener) Close() error {
	first := l.closing.CompareAndSwap(false, true)
	err := l.Listener.Close()
	if first {
		close(l.begun)
		<-l.finish
	}
	return err
}

// Run returns when its addresses are free: a node that begins anew binds them again at once.
func TestStopFreesTheAddress(t *testing.T) {
	l := &lateListener{begun: make(chan struct{}), finish: make(chan struct{})}
	n := startWith(t, func(s *Server) {
		l.Listener = s.listeners[0].Listener
		s.listeners[0].Listener = l
	})
	stopped := make(chan struct{})
	go func() { n.stop(); close(stopped) }()
	<-l.begun
	select {
	case <-stopped:
		t.Error("Run has returned while its listener is being closed")
	case <-time.After(50 * time.Millisecond):
	}
	close(l.finish)
	<-stopped
}

// A peer that reads nothing doesn't keep a node from stopping.
func TestStopWithoutAReader(t *testing.T) {
	n := start(t)
	ours, theirs := net.Pipe() // takes not one byte that isn't read
	n.s.admit(theirs, &listener{})
	c := &client{t: t, nc: ours, eng: engine.New(engine.Config{})}
	if err := c.eng.Open(*amqp.NewOpen("c")); err != nil {
		t.Fatal(err)
	}
	c.await(engine.Opened)
	began := time.Now()
	n.stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Fatalf("it took %v", took)
	}
	_ = ours.Close()
}

// C12, checklist 112: the end of the epoch closes connections; new ones are refused until the next.
func TestEndOfEpoch(t *testing.T) {
	n := start(t)
	c := n.connect("c")
	n.s.EpochEnded("test")
	if ev := c.await(engine.Closed); ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondConnectionForced {
		t.Fatalf("closed with %v", ev.Err)
	}
	if k, err := n.dial().Read(make([]byte, 1)); err == nil {
		t.Fatalf("read %d bytes of a refused connection", k)
	}
}

// fragile is a log that panics for one kind of client.
type fragile struct {
	frontend.Log
	broken atomic.Bool
	times  int // it panics so often for everything that follows, too
}

func (f *fragile) Propose(body []byte) bool {
	if f.broken.Load() && (f.times > 0 || bytes.Contains(body, []byte("poison"))) {
		f.times--
		panic("poison")
	}
	return f.Log.Propose(body)
}

// A panic closes its own connection, is counted, and the others go on.
func TestPanicIsOneConnections(t *testing.T) {
	n := start(t)
	good := n.connect("good")
	l := good.sender(good.begin(), "s", "q")
	n.s.mu.Lock()
	f := &fragile{Log: n.s.node.Log()}
	f.broken.Store(true)
	n.s.node = frontend.New(n.s.cfg.Frontend, f)
	n.s.node.EpochBegun(n.s.epoch)
	n.s.mu.Unlock()
	bad := n.connect("bad")
	bl := bad.sender(bad.begin(), "s", "q")
	if _, err := bl.Send(engine.Transfer{Tag: []byte{1}, Payload: [][]byte{text("poison")}}); err != nil {
		t.Fatal(err)
	}
	bad.flush()
	for bad.read() == nil {
	}
	good.send(l, text("fine"))
	if n.s.Stats().Panics != 1 {
		t.Fatalf("%+v", n.s.Stats())
	}
}

// Neither does it leave its connection in the log where its end can't be made either: what it held is free again.
func TestPanicAtTheEnd(t *testing.T) {
	n := start(t)
	good := n.connect("good")
	s := good.begin()
	good.send(good.sender(s, "s", "q"), text("1"))
	n.s.mu.Lock()
	f := &fragile{Log: n.s.node.Log(), times: 2}
	n.s.node = frontend.New(n.s.cfg.Frontend, f)
	n.s.node.EpochBegun(n.s.epoch)
	n.s.mu.Unlock()
	bad := n.connect("bad")
	bs := bad.begin()
	bl := bad.sender(bs, "s", "q")
	bad.receiver(bs, "r", "q", 1)
	bad.await(engine.Received)
	f.broken.Store(true)
	if _, err := bl.Send(engine.Transfer{Tag: []byte{1}, Payload: [][]byte{text("poison")}}); err != nil {
		t.Fatal(err)
	}
	bad.flush()
	for bad.read() == nil {
	}
	good.receiver(s, "r", "q", 1)
	good.await(engine.Received)
}

// A client that asks for answers and doesn't read them is held back, and gets all of them once it does.
func TestEchoFlood(t *testing.T) {
	n := start(t)
	c := n.connect("c")
	c.begin()
	const flows = 200_000
	one := amqp.AppendFlow(nil, 0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(0)), IncomingWindow: 10, OutgoingWindow: 10, Echo: true})
	sent := make(chan error, 1)
	go func() {
		_, err := c.nc.Write(bytes.Repeat(one, flows))
		sent <- err
	}()
	answers := 0
	for buf := []byte(nil); answers < flows; {
		b := make([]byte, 64<<10)
		k, err := c.nc.Read(b)
		if err != nil {
			t.Fatalf("after %d answers: %v", answers, err)
		}
		for buf = append(buf, b[:k]...); ; answers++ {
			_, used, err := amqp.DecodeFrame(buf, amqp.Limits{})
			if err != nil {
				break
			}
			buf = buf[used:]
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// A client that vanishes without a word leaves nothing in the log.
func TestResetSocket(t *testing.T) {
	n := start(t)
	c := n.connect("c")
	c.receiver(c.begin(), "r", "q", 10)
	p := n.connect("p")
	p.send(p.sender(p.begin(), "s", "q"), text("1"))
	c.await(engine.Received)
	_ = c.nc.(*net.TCPConn).SetLinger(0)
	_ = c.nc.Close()
	d := n.connect("d")
	d.receiver(d.begin(), "r", "q", 10)
	m := d.await(engine.Received).Delivery
	s, _ := amqp.ParseSections(m.Payload, amqp.Limits{})
	if h, _ := amqp.DecodeHeader(s.Header); h.DeliveryCount != 1 {
		t.Fatalf("header %+v", h)
	}
}

// Garbage closes its own connection with the right error (checklist 118).
func TestGarbage(t *testing.T) {
	n := start(t)
	for _, tc := range []struct {
		name string
		b    []byte
		want amqp.Symbol
	}{
		{"size 4", []byte{0, 0, 0, 4, 2, 0, 0, 0}, amqp.ErrCondFramingError},
		{"huge", []byte{0x7f, 0xff, 0xff, 0xff, 2, 0, 0, 0}, amqp.ErrCondFramingError},
		{"nonsense", []byte{0, 0, 0, 12, 2, 0, 0, 0, 1, 2, 3, 4}, amqp.ErrCondDecodeError},
	} {
		c := n.connect("c")
		if _, err := c.nc.Write(tc.b); err != nil {
			t.Fatal(err)
		}
		if ev := c.await(engine.Closed); ev.Err == nil || ev.Err.AMQP.Condition != tc.want {
			t.Errorf("%s: closed with %v, want %s", tc.name, ev.Err, tc.want)
		}
	}
}
