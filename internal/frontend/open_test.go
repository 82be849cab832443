package frontend

import (
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// Checklist 9, 10: what Open offers is real, and names the other nodes.
func TestOpenOffers(t *testing.T) {
	r := newRig(t, Config{Dev: true, Servers: func(secure bool) []Server {
		if secure {
			t.Error("the client came without TLS")
		}
		return []Server{{Host: "10.0.0.2", Port: 5672}, {Host: "10.0.0.3", Port: 5673}}
	}})
	p := r.open("a", func(o *amqp.Open) {
		o.DesiredCapabilities = []amqp.Symbol{amqp.CapSoleConnection, amqp.CapDelayedDelivery, amqp.CapAnonymousRelay, amqp.CapSharedSubs}
	})
	o := p.cl.Remote()
	if !symbolIn(o.OfferedCapabilities, amqp.CapAnonymousRelay) || !symbolIn(o.OfferedCapabilities, amqp.CapSoleConnection) ||
		!symbolIn(o.OfferedCapabilities, amqp.CapDelayedDelivery) || !symbolIn(o.OfferedCapabilities, amqp.CapSharedSubs) {
		t.Fatalf("offered %v", o.OfferedCapabilities)
	}
	v, _ := o.Properties.Lookup("failover-server-list")
	list, _ := v.(amqp.List)
	if len(list) != 2 {
		t.Fatalf("failover-server-list %v", v)
	}
	first, _ := list[0].(amqp.Map)
	if host, _ := first.Lookup("network-host"); host != "10.0.0.2" {
		t.Fatalf("%v", first)
	}
	if !o.IdleTimeout.Set || o.IdleTimeout.V != 20_000 || o.MaxFrameSize != amqp.DefaultMaxFrameSize {
		t.Fatalf("%+v", o)
	}
}

// Checklist 8, [1.4]: what is pipelined behind Open is held until ConnOpen is applied, then answered in order.
func TestPipelinedBehindOpen(t *testing.T) {
	r := newRig(t)
	p := r.connect()
	// By hand, since our engine waits for what it needs: header, open, begin, attach, flow.
	b := amqp.AppendProtoHeader(nil, amqp.ProtoAMQP)
	b = amqp.AppendFrame(b, 0, amqp.NewOpen("proton"), nil)
	begin := amqp.NewBegin()
	begin.IncomingWindow, begin.OutgoingWindow = 100, 100
	b = amqp.AppendFrame(b, 0, begin, nil)
	b = amqp.AppendFrame(b, 0, receiverAttach("r", "q"), nil)
	b = amqp.AppendFlow(b, 0, &amqp.Flow{IncomingWindow: 100, OutgoingWindow: 100, Handle: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(5))})
	r.log.held = true
	p.cut = true // its client end stays out of it
	n := p.fe.Input(b, r.now)
	p.fe.Flush(r.now)
	if n == len(b) || !p.fe.Held() {
		t.Fatal("it didn't wait")
	}
	if out := p.fe.TakeOutput(nil, r.now); len(out) > 8 {
		t.Fatalf("answered before ConnOpen is applied: % x", out)
	}
	r.log.held = false
	for range 5 {
		r.log.step(t)
		n += p.fe.Input(b[n:], r.now)
		p.fe.Flush(r.now)
	}
	if n != len(b) {
		t.Fatalf("%d of %d bytes consumed", n, len(b))
	}
	q := r.open("p")
	q.sendText(q.sender(q.begin(), "q"), "1")
	out := p.fe.TakeOutput(nil, r.now)
	var names []string
	for len(out) > 0 {
		f, n, err := amqp.DecodeFrame(out, amqp.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		names, out = append(names, amqp.NameOf(f.Body)), out[n:]
	}
	if len(names) != 4 || names[0] != "open" || names[1] != "begin" || names[2] != "attach" || names[3] != "transfer" {
		t.Fatalf("answered %v", names)
	}
}

// ConnOpen that isn't applied within 5 s: Open{connection-establishment-failed}, Close(forced), and nothing stays behind.
func TestOpenTimeout(t *testing.T) {
	r := newRig(t)
	p := r.connect()
	_ = p.cl.Open(*amqp.NewOpen("a"))
	r.log.held = true
	r.wait(5100 * time.Millisecond)
	ev := p.find(engine.Opened)
	if _, failed := ev.Open.Properties.Lookup(string(amqp.PropConnectionEstablishmentFail)); !failed {
		t.Fatalf("open %+v", ev.Open)
	}
	if ev = p.find(engine.Closed); ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondConnectionForced {
		t.Fatalf("%v", ev.Err)
	}
	r.log.held = false
	r.pump()
	if n := len(r.log.m.Connections()); n != 0 {
		t.Fatalf("%d connections stay in the log", n)
	}
}

// [1.5], checklist 11, 12: a clash of sole connections refuses the newcomer and has the old one probed; once that is gone the
// newcomer gets in.
func TestSoleConnection(t *testing.T) {
	sole := func(o *amqp.Open) { o.DesiredCapabilities = []amqp.Symbol{amqp.CapSoleConnection} }
	r := newRig(t)
	old := r.open("a", sole)
	p := r.connect()
	o := amqp.NewOpen("a")
	sole(o)
	_ = p.cl.Open(*o)
	ev := p.find(engine.Opened)
	if v, _ := ev.Open.Properties.Lookup(string(amqp.PropConnectionEstablishmentFail)); v != true {
		t.Fatalf("%v", ev.Open.Properties)
	}
	ev = p.find(engine.Closed)
	if ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondInvalidField {
		t.Fatalf("%v", ev.Err)
	}
	if v, _ := ev.Err.AMQP.Info.Lookup("invalid-field"); v != amqp.InfoContainerID {
		t.Fatalf("info %v", ev.Err.AMQP.Info)
	}
	if !old.fe.TakeProbe() || old.fe.TakeProbe() {
		t.Fatal("the old connection is to be probed, once")
	}
	if n := len(old.fe.TakeOutput(nil, r.now)); n != 8 {
		t.Fatalf("the probe wrote %d bytes", n)
	}
	old.lose(command.EndSilent)
	r.open("a", sole)
	r.open("a") // without the wish they coexist
	r.open("b", sole)
}

// [1.4]: a later attempt of the same client process ends its former connection; a former attempt is refused.
func TestTakeOver(t *testing.T) {
	r := newRig(t)
	p := r.open("a", ours(1, 1))
	q := r.open("a", ours(1, 3))
	if ev := p.find(engine.Closed); ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondConnectionForced {
		t.Fatalf("%v", ev.Err)
	}
	late := r.connect()
	o := amqp.NewOpen("a")
	ours(1, 2)(o)
	_ = late.cl.Open(*o)
	late.find(engine.Closed)
	q.begin()
	r.open("a", ours(2, 1)) // another process coexists
	q.none(engine.Closed)
}

// C12: the end of the epoch closes connections, never links.
func TestEndOfEpoch(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	p.receiver(p.begin(), "q", 1)
	p.fe.EndEpoch("ended", r.now)
	if ev := p.find(engine.Closed); ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondConnectionForced {
		t.Fatalf("%v", ev.Err)
	}
	q := r.open("b")
	r.log.down = true
	q.sender2("q")
	if ev := q.find(engine.Closed); ev.Err == nil || ev.Err.AMQP.Condition != amqp.ErrCondConnectionForced {
		t.Fatalf("%v", ev.Err)
	}
}

// sender2 attaches without waiting for the answer.
func (p *pair) sender2(address string) {
	s := p.begin()
	_, _ = s.Attach(*senderAttach("x", address))
}

// Checklist 15: silence of the client ends the connection, as silence.
func TestIdleTimeout(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	p.cut = true
	r.now = r.now.Add(41 * time.Second)
	p.fe.Tick(r.now)
	p.fe.Flush(r.now)
	if !p.fe.Done() {
		t.Fatal("still open")
	}
	r.pump()
	if n := len(r.log.m.Connections()); n != 0 {
		t.Fatal("still in the log")
	}
}

// Design, silence pings: our client hears from us every 500 ms while an answer is due, under the lease only.
func TestSilencePings(t *testing.T) {
	for _, tc := range []struct {
		name   string
		open   func(*amqp.Open)
		lease  time.Duration
		lag    time.Duration
		frames int
	}{
		{"ours", ours(1, 1), time.Second, 0, 3},
		{"not ours", func(*amqp.Open) {}, time.Second, 0, 0},
		{"no lease", ours(1, 1), 0, 0, 0},
		{"lag", ours(1, 1), time.Second, 2500 * time.Millisecond, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			p := r.open("a", tc.open)
			s := p.sender(p.begin(), "q")
			before := p.wrote
			r.wait(2 * time.Second)
			if p.wrote != before {
				t.Fatal("pings without an answer due")
			}
			r.log.held = true
			r.log.lease, r.log.lag = tc.lease, tc.lag
			p.sendText(s, "1")
			before = p.wrote
			r.wait(1700 * time.Millisecond)
			if got := (p.wrote - before) / 8; got != tc.frames {
				t.Fatalf("%d empty frames, want %d", got, tc.frames)
			}
		})
	}
}

// Access: one question for every action, and the answer is no by default.
//
// Rows 26 and 27.
func TestAccess(t *testing.T) {
	asked := map[Right]string{}
	yes := map[Right]bool{}
	cfg := Config{Access: func(principal string, right Right, address string) bool {
		asked[right] = principal + " " + address
		return yes[right]
	}}
	for _, tc := range []struct {
		name  string
		right Right
		do    func(p *pair) (refused amqp.Symbol)
	}{
		{"send", RightSend, func(p *pair) amqp.Symbol { return p.refusal(senderAttach("s", "q")) }},
		{"consume", RightConsume, func(p *pair) amqp.Symbol { return p.refusal(receiverAttach("r", "q")) }},
		{"outcome", RightSend, func(p *pair) amqp.Symbol { return p.refusal(senderAttach("s", addressOutcome)) }},
		{"name", RightSend, func(p *pair) amqp.Symbol { return p.refusal(senderAttach("s", addressTx)) }},
		{"relay", RightSend, func(p *pair) amqp.Symbol {
			m := append(amqp.AppendProperties(nil, &amqp.Properties{To: "q"}), text("x")...)
			d := p.send(p.sender(p.begin(), ""), engine.Transfer{Payload: [][]byte{m}})
			p.r.pump()
			return condition(d)
		}},
		{"create", RightCreate, func(p *pair) amqp.Symbol {
			yes[RightSend] = true
			defer delete(yes, RightSend)
			return p.refusal(senderAttach("s", "new"))
		}},
	} {
		r := newRig(t, cfg)
		p := r.open("a")
		clear(asked)
		if c := tc.do(p); c != amqp.ErrCondUnauthorizedAccess && !(tc.right == RightCreate && c == amqp.ErrCondNotFound) {
			t.Errorf("%s: refused with %q", tc.name, c)
		}
		if asked[tc.right] == "" {
			t.Errorf("%s: nobody asked for the right to %s", tc.name, tc.right)
		}
	}
	n := New(Config{}, nil)
	for right := RightSend; right <= RightManage; right++ {
		if n.Allow(Anonymous, right, "q") {
			t.Errorf("%s is allowed by default", right)
		}
	}
	if dev := New(Config{Dev: true}, nil); !dev.Allow(Anonymous, RightSend, "q") || dev.Allow("bob", RightSend, "q") {
		t.Error("--dev lets ANONYMOUS in, and nobody else")
	}
}

func condition(d *engine.Delivery) amqp.Symbol {
	if s, ok := d.State.(*amqp.Rejected); ok && s.Error != nil {
		return s.Error.Condition
	}
	return ""
}

// refusal attaches and gives the condition with which that is refused: "" if it isn't.
func (p *pair) refusal(a *amqp.Attach) amqp.Symbol {
	p.r.t.Helper()
	_, ev := p.attach(p.begin(), a)
	if !ev.Refused {
		return ""
	}
	ev = p.find(engine.LinkDetached)
	if ev.Err == nil || !ev.Closed {
		p.r.t.Fatalf("refused without Detach(closed, error): %+v", ev)
	}
	return ev.Err.AMQP.Condition
}

// Checklist 15: a client that announces a short idle-time-out hears from us in time, from the first moment on.
func TestHeartbeats(t *testing.T) {
	r := newRig(t)
	p := r.open("a", func(o *amqp.Open) { o.IdleTimeout = amqp.Some(uint32(2000)) })
	before := p.wrote
	if wake := p.fe.Wake(); wake.After(r.now.Add(time.Second)) {
		t.Fatalf("the first tick is due in %v", wake.Sub(r.now))
	}
	for range 40 { // tick only when asked for
		r.now = r.now.Add(100 * time.Millisecond)
		if !p.fe.Wake().After(r.now) {
			p.fe.Tick(r.now)
		}
		r.pump()
	}
	if n := (p.wrote - before) / 8; n < 3 || n > 5 {
		t.Fatalf("%d empty frames in 4 s", n)
	}
}

// A large message that takes its time is no reason to leave this node: the client hears from us while it arrives.
func TestPingsWhileAMessageArrives(t *testing.T) {
	for _, whole := range []bool{true, false} {
		r := newRig(t)
		p := r.open("a", ours(1, 1))
		s := p.begin()
		p.sender(s, "q")
		part := amqp.AppendTransfer(nil, s.Channel(), &amqp.Transfer{
			Handle: 0, DeliveryID: amqp.Some(uint32(0)), DeliveryTag: []byte("p"), More: true,
		}, text("part"))
		if !whole {
			part = part[:len(part)-3] // not even a frame
		}
		if n := p.fe.Input(part, r.now); (n == len(part)) != whole {
			t.Fatalf("%d of %d bytes consumed", n, len(part))
		}
		p.cut = true // the client end isn't in it
		frames := 0
		for range 16 {
			r.now = r.now.Add(100 * time.Millisecond)
			if !p.fe.Wake().After(r.now) {
				p.fe.Tick(r.now)
			}
			frames += len(p.fe.TakeOutput(nil, r.now)) / 8
		}
		if frames != 3 {
			t.Fatalf("%d empty frames in 1.6 s", frames)
		}
	}
}
