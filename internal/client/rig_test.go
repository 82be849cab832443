package client

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// rig runs a Core against a cluster in one goroutine, with a socket that can be cut after any byte, or fall silent.
type rig struct {
	t    testing.TB
	core *Core
	c    *cluster
	now  time.Time

	serial uint32
	conn   *brokerConn
	toB    []byte // on the wire to the broker
	toC    []byte // to the client, not consumed
	refuse int    // how many dials are refused

	sent, got int // bytes carried over all connections, to the broker and to the client
	// cutSent, cutGot: the socket breaks when so many bytes were carried; -1: never.
	cutSent, cutGot int
	silent          bool // nothing comes back
	events          []Event
	conns           int
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, c: newCluster(t), now: time.Unix(1000, 0), cutSent: -1, cutGot: -1}
	r.core = New(Config{Addrs: []string{"a:1", "b:2", "c:3"}, ContainerID: "test", Nonce: [16]byte{1, 2, 3}, Seed: 7}, r.now)
	return r
}

// run goes on until nothing moves and no timer is due within the next 100 ms.
func (r *rig) run() {
	r.t.Helper()
	for turns := 0; ; turns++ {
		if turns > 20_000 {
			r.t.Fatal("client and broker never come to rest")
		}
		if r.move() {
			continue
		}
		at := r.core.Deadline()
		if at.IsZero() || at.Sub(r.now) > 100*time.Millisecond {
			return
		}
		r.now = at
		r.core.Tick(r.now)
	}
}

// advance lets time pass.
func (r *rig) advance(d time.Duration) {
	r.t.Helper()
	end := r.now.Add(d)
	for {
		r.run()
		at := r.core.Deadline()
		if at.IsZero() || at.After(end) {
			break
		}
		r.now = at
		r.core.Tick(r.now)
	}
	if r.now.Before(end) {
		r.now = end
	}
	r.run()
}

// move carries one piece; false: nothing to do.
func (r *rig) move() bool {
	moved := false
	for ev, ok := r.core.Next(); ok; ev, ok = r.core.Next() {
		r.events = append(r.events, ev)
		moved = true
	}
	if serial, _ := r.core.Socket(); serial != r.serial {
		r.drop()
		r.serial = serial
		if serial == 0 {
			return true
		}
		if r.refuse > 0 {
			r.refuse--
			r.core.Dialed(serial, errors.New("connection refused"), r.now)
			return true
		}
		r.conns++
		r.conn = r.c.connect()
		r.core.Dialed(serial, nil, r.now)
		return true
	}
	if r.conn == nil {
		return moved
	}
	if out := r.core.TakeOutput(r.serial, nil, r.now); len(out) > 0 {
		r.toB = append(r.toB, out...)
	}
	if len(r.toB) > 0 {
		p := r.toB
		r.toB = nil
		cut := false
		if r.cutSent >= 0 && r.sent+len(p) >= r.cutSent {
			p, cut = p[:r.cutSent-r.sent], true
		}
		r.sent += len(p)
		r.toC = append(r.toC, r.conn.input(p, r.now)...)
		if cut {
			r.cutSent = -1
			r.cut()
			return true
		}
		moved = true
	}
	if len(r.toC) == 0 {
		if out := r.conn.e.TakeOutput(nil, r.now); len(out) > 0 {
			r.toC = append(r.toC, out...)
		}
	}
	if len(r.toC) > 0 && !r.silent {
		p := r.toC
		cut := false
		if r.cutGot >= 0 && r.got+len(p) >= r.cutGot {
			p, cut = p[:r.cutGot-r.got], true
		}
		n, wanted := r.core.Input(r.serial, slices.Clone(p), r.now)
		r.got += n
		r.toC = r.toC[n:]
		if cut {
			r.cutGot = -1
			r.cut()
			return true
		}
		if !wanted {
			return true
		}
		moved = moved || n > 0
	}
	return moved
}

// cut breaks the socket.
func (r *rig) cut() {
	r.drop()
	r.core.Lost(r.serial, errCut, r.now)
}

func (r *rig) drop() {
	if r.conn != nil {
		r.conn.lost()
	}
	r.conn, r.toB, r.toC = nil, nil, nil
}

// session, sender, receiver open what a test needs.
func (r *rig) session(rollback bool) *Session {
	r.t.Helper()
	s := r.core.OpenSession(rollback)
	r.run()
	if !s.Opening.Done() || s.Opening.Err() != nil {
		r.t.Fatalf("session: %v %v", s.Opening.Done(), s.Opening.Err())
	}
	return s
}

func (r *rig) sender(s *Session, address string) *Sender {
	r.t.Helper()
	x := s.NewSender(address, "")
	r.run()
	if !x.Attaching.Done() || x.Attaching.Err() != nil {
		r.t.Fatalf("sender: %v %v", x.Attaching.Done(), x.Attaching.Err())
	}
	return x
}

func (r *rig) receiver(s *Session, address string) *Receiver {
	r.t.Helper()
	x := s.NewReceiver(address, "", 0)
	r.run()
	if !x.Attaching.Done() || x.Attaching.Err() != nil {
		r.t.Fatalf("receiver: %v %v", x.Attaching.Done(), x.Attaching.Err())
	}
	return x
}

// take receives n deliveries.
func (r *rig) take(x *Receiver, n int) []*Delivery {
	r.t.Helper()
	var list []*Delivery
	for range n {
		r.run()
		d := x.Take()
		if d == nil {
			r.t.Fatalf("%d deliveries, want %d", len(list), n)
		}
		list = append(list, d)
	}
	r.run()
	return list
}

func (r *rig) begin(s *Session) *Tx {
	r.t.Helper()
	tx, err := s.Begin()
	if err != nil {
		r.t.Fatal(err)
	}
	return tx
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func data(body string) []byte { return amqp.AppendData(nil, []byte(body)) }

func (r *rig) body(d *Delivery) string { return bodyOf(r.t, d.Payload) }

func (r *rig) stored(queue string, want ...string) {
	r.t.Helper()
	if got := r.c.queue(queue).all; !slices.Equal(got, want) {
		r.t.Errorf("%s holds %q, want %q", queue, got, want)
	}
}

// waiting is what stands ready in a queue.
func (r *rig) waiting(queue string, want ...string) {
	r.t.Helper()
	var got []string
	for _, m := range r.c.queue(queue).ready {
		got = append(got, m.body)
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("%s has %q ready, want %q", queue, got, want)
	}
}
