package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

func (r *rig) kinds() (list []string) {
	for _, ev := range r.events {
		switch ev.Kind {
		case Connected:
			list = append(list, fmt.Sprint("connected ", ev.Addr, " ", ev.Failover))
		case Disconnected:
			list = append(list, "disconnected "+ev.Addr)
		case Reconnecting:
			list = append(list, fmt.Sprintf("reconnecting %d", ev.Attempt))
		case ReconnectFailed:
			list = append(list, "failed")
		case Closed:
			list = append(list, fmt.Sprint("closed ", ev.Err))
		}
	}
	r.events = nil
	return list
}

// A lost connection goes to the next address at once; events tell it in order.
func TestReconnectAtOnce(t *testing.T) {
	r := newRig(t)
	r.session(false)
	before := r.now
	r.refuse = 1
	r.cut()
	r.run()
	want := []string{"connected a:1 false", "disconnected a:1", "reconnecting 1", "failed", "reconnecting 2", "connected c:3 true"}
	if got := r.kinds(); !slices.Equal(got, want) {
		t.Errorf("events\n%q, want\n%q", got, want)
	}
	if r.now != before {
		t.Errorf("it took %v", r.now.Sub(before))
	}
}

// Whole rounds of refused dials wait from 20 ms to 5 s, jittered.
func TestReconnectBackoff(t *testing.T) {
	r := newRig(t)
	r.session(false)
	r.refuse = 1000
	r.cut()
	for range 60 {
		for r.move() {
		}
		at := r.core.Deadline()
		r.now = at
		r.core.Tick(at)
	}
	var delays []time.Duration
	for _, ev := range r.events {
		if ev.Kind == Reconnecting && ev.Delay > 0 {
			delays = append(delays, ev.Delay)
		}
	}
	if len(delays) < 20 || delays[0] > 20*time.Millisecond || delays[0] < 10*time.Millisecond {
		t.Fatalf("delays %v", delays)
	}
	last := delays[len(delays)-1]
	if last > 5*time.Second || last < 2500*time.Millisecond {
		t.Errorf("the last is %v", last)
	}
}

// A node that says nothing for 2 s while an answer is due is given up; another takes over with a higher attempt, and nothing is unknown.
func TestTakeOverOfSilentNode(t *testing.T) {
	x := newTransfer(t, false)
	x.work()
	x.tx.Commit()
	x.conn.input(x.core.TakeOutput(x.serial, nil, x.now), x.now) // applied, never answered
	x.silent = true
	start := x.now
	conns := x.conns
	for x.conns == conns {
		x.move()
		if x.conns > conns {
			break
		}
		x.now = x.core.Deadline()
		x.core.Tick(x.now)
	}
	if d := x.now.Sub(start); d < 2*time.Second || d > 2100*time.Millisecond {
		t.Errorf("given up after %v, want 2 s", d)
	}
	x.silent = false
	x.run()
	if o, err := x.tx.Result(); o != TxCommitted {
		t.Fatal(o, err)
	}
	x.stored("out", "r1")
}

// Silence means nothing while nothing is due; and a byte now and then (the pings) keeps a slow node.
func TestNoTakeOverWithoutNeed(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	in := r.receiver(s, "in")
	if in.Take() != nil {
		t.Fatal("the queue is empty")
	}
	for range 30 {
		r.conn.e.Heartbeat()
		r.advance(5 * time.Second)
	}
	if r.conns != 1 {
		t.Fatalf("%d connections", r.conns)
	}
	out := r.sender(s, "q")
	r.conn.mute = true
	x := out.Send(data("1"))
	for range 20 {
		r.advance(500 * time.Millisecond)
		r.conn.e.Heartbeat()
		r.run()
	}
	if r.conns != 1 || x.Done() {
		t.Fatalf("%d connections, done %v", r.conns, x.Done())
	}
	for _, f := range r.conn.answers {
		f()
	}
	r.run()
	if !x.Done() || x.Err() != nil {
		t.Fatal(x.Err())
	}
}

// Two silent nodes in a row, then waits up to 5 s.
func TestTakeOversBackOff(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	out := r.sender(s, "q")
	out.Send(data("1"))
	r.silent = true
	r.advance(60 * time.Second)
	var delays []time.Duration
	for _, ev := range r.events {
		if ev.Kind == Reconnecting {
			delays = append(delays, ev.Delay)
		}
	}
	if len(delays) < 6 || delays[0] != 0 || delays[1] == 0 {
		t.Fatalf("delays %v", delays)
	}
	r.silent = false
	r.advance(10 * time.Second)
	r.stored("q", "1")
}

// A "no" to the connection that every node would give ends the client; a transient one goes on.
func TestRefusedConnection(t *testing.T) {
	for code, final := range map[amqp.SASLCode]bool{amqp.SASLCodeAuth: true, amqp.SASLCodeSysTemp: false} {
		now := time.Unix(1000, 0)
		c := New(Config{Addrs: []string{"a:1", "b:2"}}, now)
		serial, _ := c.Socket()
		c.Dialed(serial, nil, now)
		srv := engine.NewSASLServer("ANONYMOUS")
		_, _ = srv.Input(c.TakeOutput(serial, nil, now))
		c.Input(serial, srv.TakeOutput(nil), now)
		_, _ = srv.Input(c.TakeOutput(serial, nil, now))
		if _, ok := srv.Next(); !ok {
			t.Fatal("no sasl-init")
		}
		srv.Outcome(code, nil)
		c.Input(serial, srv.TakeOutput(nil), now)
		var no *engine.SASLError
		if c.Over() != final || !errors.As(c.Err(), &no) {
			t.Errorf("code %d: over %v, %v", code, c.Over(), c.Err())
		}
	}
}

// A forced close moves the client, an unauthorized one ends it with all that is under way.
func TestClosedByTheNode(t *testing.T) {
	for condition, final := range map[amqp.Symbol]bool{amqp.ErrCondConnectionForced: false, amqp.ErrCondUnauthorizedAccess: true} {
		r := newRig(t)
		s := r.session(false)
		out := r.sender(s, "q")
		r.conn.mute = true
		x := out.Send(data("1"))
		r.run()
		_ = r.conn.e.Close(&amqp.Error{Condition: condition})
		r.run()
		if r.core.Over() != final || !x.Done() {
			t.Fatalf("%s: over %v, done %v", condition, r.core.Over(), x.Done())
		}
		if final && !errors.Is(x.Err(), ErrUnknown) || !final && x.Err() != nil {
			t.Errorf("%s: %v", condition, x.Err())
		}
		if last := r.kinds(); final && !strings.HasPrefix(last[len(last)-1], "closed ") {
			t.Errorf("%q", last)
		}
	}
}

// Close ends everything in order; what may have been stored is unknown.
func TestClose(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	out := r.sender(s, "q")
	r.conn.mute = true
	x := out.Send(data("1"))
	r.run()
	tx := r.begin(s)
	r.core.Close(r.now)
	r.run()
	if !r.core.Over() || r.core.Err() != nil || !errors.Is(x.Err(), ErrUnknown) || !errors.Is(x.Err(), ErrClosed) {
		t.Fatal(r.core.Over(), r.core.Err(), x.Err())
	}
	if _, ok := tx.RolledBack(); !ok {
		t.Error("an open transaction isn't rolled back")
	}
	if !r.c.sessions[s.id].ended {
		t.Error("the broker wasn't told")
	}
	if serial, _ := r.core.Socket(); serial != 0 {
		t.Error("it wants a socket")
	}
	if y := r.core.OpenSession(false); !y.Opening.Done() || !errors.Is(y.Opening.Err(), ErrClosed) {
		t.Error("a session of a closed client")
	}
}

// MaxElapsed ends a client that finds no node.
func TestMaxElapsed(t *testing.T) {
	now := time.Unix(1000, 0)
	c := New(Config{Addrs: []string{"a:1"}, MaxElapsed: time.Minute}, now)
	for range 1000 {
		serial, _ := c.Socket()
		if serial != 0 {
			c.Dialed(serial, errCut, now)
		}
		if c.Over() {
			break
		}
		now = c.Deadline()
		c.Tick(now)
	}
	if !c.Over() || !errors.Is(c.Err(), errCut) || now.Sub(time.Unix(1000, 0)) > 70*time.Second {
		t.Fatal(c.Over(), c.Err(), now)
	}
}

// The nodes that the broker names are learned.
func TestAddressesLearned(t *testing.T) {
	r := newRig(t)
	o := amqp.NewOpen("x")
	o.Properties = amqp.Map{{Key: amqp.PropFailoverServerList, Value: amqp.List{
		amqp.Map{{Key: amqp.InfoNetworkHost, Value: "d"}, {Key: amqp.InfoPort, Value: uint16(4)}},
		amqp.Map{{Key: amqp.InfoNetworkHost, Value: "a"}, {Key: amqp.InfoPort, Value: int32(1)}},
		amqp.Map{{Key: amqp.InfoPort, Value: uint16(4)}},
		"nonsense",
	}}}
	r.core.learnAddresses(o)
	if !slices.Equal(r.core.addrs, []string{"a:1", "b:2", "c:3", "d:4"}) {
		t.Error(r.core.addrs)
	}
	r.core.cfg.IgnoreServerList, r.core.addrs = true, r.core.addrs[:3]
	if r.core.learnAddresses(o); len(r.core.addrs) != 3 {
		t.Error("against its will it has learned", r.core.addrs)
	}
}

// A large message takes longer than the silence rule, and the node, which reads, says nothing before it has all: it isn't left. One that takes nothing
// more is.
func TestNoTakeOverDuringLongUpload(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	out := r.sender(s, "q")
	out.Send(data(string(make([]byte, 4<<20))))
	r.silent = true
	conns, pieces := r.conns, 0
	for r.core.HasOutput() {
		b := r.core.TakeOutput(r.serial, nil, r.now)
		if len(b) == 0 {
			break
		}
		pieces++
		r.toC = append(r.toC, r.conn.input(b, r.now)...)
		r.now = r.now.Add(1900 * time.Millisecond)
		r.core.Tick(r.now)
	}
	if r.conns != conns || r.core.Addr() == "" || pieces < 4 {
		t.Fatalf("left after %d pieces", pieces)
	}
	r.now = r.now.Add(200 * time.Millisecond) // all is written for 2.1 s
	r.core.Tick(r.now)
	if r.core.Addr() != "" {
		t.Error("a node that has everything and says nothing isn't left")
	}
}

// What was given up before any node had opened it must not pile up until one does.
func TestGivenUpSessionsDontPileUp(t *testing.T) {
	r := newRig(t)
	r.run()
	r.refuse = 1000
	r.cut()
	r.run()
	for range 2000 {
		s := r.core.OpenSession(false)
		s.Close()
		if !s.Closing.Done() {
			t.Fatal("Close waits for a node")
		}
	}
	if n := len(r.core.sessions); n != 0 {
		t.Errorf("%d sessions are kept", n)
	}
}

// A connection that answered anything, be it a session's resumption, starts the back-off and its round anew, however soon it is lost: kills in a row
// cost no waiting.
func TestAnswerResetsBackoff(t *testing.T) {
	for _, work := range []bool{true, false} {
		r := newRig(t)
		s := r.session(false)
		out := r.sender(s, "q")
		for range 50 {
			if work {
				x := out.Send(data("1"))
				r.run()
				r.must(x.Err())
			}
			r.events = nil
			r.refuse = 2 // of three addresses
			r.cut()
			r.run()
			attempt := 0
			for _, ev := range r.events {
				if ev.Kind == Reconnecting {
					if attempt++; ev.Attempt != attempt || ev.Delay != 0 {
						t.Fatalf("dial %d after a connection that worked: attempt %d, delay %v", attempt, ev.Attempt, ev.Delay)
					}
				}
			}
			if attempt != 3 || r.core.Addr() == "" {
				t.Fatalf("%d dials", attempt)
			}
		}
	}
}

// Nodes that resume the session and end it each time are not called at full speed.
func TestEndedSessionsBackOff(t *testing.T) {
	for _, closed := range []bool{false, true} {
		r := newRig(t)
		r.session(false)
		conns := r.conns
		end := r.now.Add(20 * time.Second)
		for r.now.Before(end) {
			if r.conn != nil && r.core.Addr() != "" {
				if closed {
					_ = r.conn.e.Close(&amqp.Error{Condition: amqp.ErrCondInternalError, Description: "no"})
				} else {
					r.conn.e.Sessions(func(es *engine.Session) {
						_ = es.End(&amqp.Error{Condition: amqp.ErrCondInternalError, Description: "no"})
					})
				}
				r.run()
			}
			r.advance(20 * time.Millisecond)
		}
		if n := r.conns - conns; n < 8 || n > 60 {
			t.Errorf("closed %v: %d connections in 20 s", closed, n)
		}
	}
}

// A node that refuses a further session for a limit is left to the others: only that session fails, with the reason.
func TestSessionLimit(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	r.c.sessionLimit = true
	other := r.core.OpenSession(false)
	r.run()
	var no *amqp.Error
	if !errors.As(other.Opening.Err(), &no) || no.Condition != amqp.ErrCondResourceLimitExceeded || r.conns != 1 {
		t.Fatalf("%v %v, %d connections", other.Opening.Done(), other.Opening.Err(), r.conns)
	}
	x := r.sender(s, "q").Send(data("1"))
	r.run()
	r.must(x.Err())
}

// A process that stood still for longer than the silence rule finds its Tick before the node's bytes: they are read first. One look later silence is
// silence.
func TestNoTakeOverAfterOversleeping(t *testing.T) {
	for _, answered := range []bool{true, false} {
		r := newRig(t)
		s := r.session(false)
		out := r.sender(s, "q")
		x := out.Send(data("1"))
		r.silent = true
		r.run()
		r.now = r.now.Add(10 * time.Second)
		r.core.Tick(r.now)
		if r.core.Addr() == "" {
			t.Fatal("left although it was the client that slept")
		}
		r.silent = !answered
		r.now = r.now.Add(400 * time.Millisecond)
		r.run()
		r.now = r.now.Add(200 * time.Millisecond)
		r.core.Tick(r.now)
		if left := r.core.Addr() == ""; left == answered || x.Done() != answered {
			t.Errorf("answered %v: left %v, done %v", answered, left, x.Done())
		}
	}
}

// While a Close waits for its answer the engine's next tick may pass: nobody serves it, so that Deadline must not name it, or the driver
// goes round and round until the node is given up.
func TestClosingNeedsNoEngineTick(t *testing.T) {
	r := newRig(t)
	r.session(false)
	r.now = r.core.Deadline().Add(-time.Second)
	r.silent = true
	r.core.Close(r.now)
	r.move()
	for !r.core.Over() {
		at := r.core.Deadline()
		if !at.After(r.now) {
			t.Fatalf("Deadline %v is not after %v", at, r.now)
		}
		r.now = at
		r.core.Tick(r.now)
	}
}

// C4: a node that doesn't answer the first transaction's control link is silent as well: nothing else may be under way.
func TestSilenceAtTheCoordinator(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	snd := r.sender(s, "q")
	r.silent = true
	tx := r.begin(s)
	_, err := tx.Send(snd, data("x"))
	r.must(err)
	tx.Commit()
	r.advance(2500 * time.Millisecond)
	if r.conns < 2 {
		t.Fatalf("%d connections: the client waits on a silent node", r.conns)
	}
	r.silent = false
	r.advance(3 * time.Second)
	if !tx.Done() || tx.outcome != TxCommitted {
		t.Errorf("done %v, outcome %v", tx.Done(), tx.outcome)
	}
}

// The answer to Begin and a Close in one read: what was to be attached then is attached on the next connection, and nothing has failed.
func TestReconnectClosedBehindBegin(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	snd, rcv := r.sender(s, "q"), r.receiver(s, "q")
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	r.c.closeBehind = true
	r.cut()
	r.advance(time.Second)
	if r.c.closeBehind || r.conns < 3 || snd.Err() != nil || rcv.Err() != nil || s.Err() != nil {
		t.Fatalf("%d connections; sender %v, receiver %v, session %v", r.conns, snd.Err(), rcv.Err(), s.Err())
	}
	tx.Commit()
	r.run()
	if o, err := tx.Result(); o != TxCommitted || err != nil {
		t.Errorf("commit: %v, %v", o, err)
	}
	// The same with a session that is opened only then, whose links wait for it.
	r.c.closeBehind = true
	other := r.core.OpenSession(false)
	late := other.NewSender("q", "")
	r.advance(time.Second)
	if !late.Attaching.Done() || late.Err() != nil || other.Err() != nil {
		t.Errorf("sender of a new session: %v, %v, session %v", late.Attaching.Done(), late.Err(), other.Err())
	}
}
