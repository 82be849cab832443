package client

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		state amqp.DeliveryState
		then  []string
		dead  int
		count uint32
	}{
		{&amqp.Accepted{}, []string{"m2"}, 0, 0},
		{&amqp.Rejected{Error: &amqp.Error{Condition: "x:y"}}, []string{"m2"}, 1, 0},
		{&amqp.Released{}, []string{"m2", "m1"}, 0, 0},
		{&amqp.Modified{DeliveryFailed: true}, []string{"m2", "m1"}, 0, 1},
	} {
		t.Run(fmt.Sprintf("%T", c.state), func(t *testing.T) {
			r := newRig(t)
			r.c.put("in", "m1", "m2")
			s := r.session(false)
			in := r.receiver(s, "in")
			d := r.take(in, 1)[0]
			x := d.Settle(c.state)
			r.run()
			if !x.Done() || x.Err() != nil {
				t.Fatal(x.Done(), x.Err())
			}
			if y := d.Settle(c.state); y != x {
				t.Error("a repeat is another settlement")
			}
			if len(r.c.sessions[s.id].results[in.name]) != 0 {
				t.Error("the third step is missing: the broker keeps the result")
			}
			for _, want := range c.then {
				d := r.take(in, 1)[0]
				if got := r.body(d); got != want {
					t.Errorf("then comes %q, want %q", got, want)
				}
				if want == "m1" {
					if h := header(t, d); h.DeliveryCount != c.count || h.FirstAcquirer || d.Attempt() != 2 {
						t.Errorf("again with %+v, attempt %d", h, d.Attempt())
					}
				}
			}
			if len(r.c.queue("in").dead) != c.dead {
				t.Error("dead letters:", r.c.queue("in").dead)
			}
		})
	}
}

// Accept, cut after every byte in both directions: nil, and the message is gone once ([3.3], C6).
func TestAcceptCutAtEveryByte(t *testing.T) {
	story := func(cutSent, cutGot int) (sent, got int) {
		r := newRig(t)
		r.c.put("in", "m1", "m2", "m3")
		s := r.session(false)
		in := r.receiver(s, "in")
		ds := r.take(in, 2)
		sent, got = r.sent, r.got
		if cutSent >= 0 {
			r.cutSent = r.sent + cutSent
		}
		if cutGot >= 0 {
			r.cutGot = r.got + cutGot
		}
		x, y := ds[0].Settle(&amqp.Accepted{}), ds[1].Settle(&amqp.Released{})
		r.advance(3 * time.Second)
		where := fmt.Sprintf("cut after %d, %d", cutSent, cutGot)
		if !x.Done() || x.Err() != nil || !y.Done() || y.Err() != nil {
			t.Fatalf("%s: accept %v %v, release %v %v", where, x.Done(), x.Err(), y.Done(), y.Err())
		}
		bodies := map[string]int{}
		for d := in.Take(); d != nil; d = in.Take() {
			bodies[r.body(d)]++
		}
		if len(bodies) != 2 || bodies["m2"] != 1 || bodies["m3"] != 1 {
			t.Fatalf("%s: then come %v", where, bodies)
		}
		return r.sent - sent, r.got - got
	}
	sent, got := story(-1, -1)
	for n := 0; n <= sent; n++ {
		story(n, -1)
	}
	for n := 0; n <= got; n++ {
		story(-1, n)
	}
}

// After the grace the message is elsewhere: Accept says so, before and after the resume, and what was prefetched comes anew (C6).
func TestDeliveryLost(t *testing.T) {
	r := newRig(t)
	r.c.put("in", "m1", "m2", "m3")
	s := r.session(false)
	in := r.receiver(s, "in")
	ds := r.take(in, 2)
	r.refuse = 1000
	r.cut()
	r.run()
	x := ds[0].Settle(&amqp.Accepted{})
	r.c.sessions[s.id].expire()
	r.refuse = 0
	r.advance(10 * time.Second)
	y := ds[1].Settle(&amqp.Accepted{})
	if !x.Done() || !errors.Is(x.Err(), ErrDeliveryLost) || !y.Done() || !errors.Is(y.Err(), ErrDeliveryLost) {
		t.Fatal(x.Done(), x.Err(), y.Done(), y.Err())
	}
	for i, d := range r.take(in, 3) {
		if got := r.body(d); got != fmt.Sprint("m", i+1) || d.Attempt() != 2 {
			t.Errorf("then comes %q, attempt %d", got, d.Attempt())
		}
	}
}

// A late acceptance of a delivery that state gave to another attempt is answered "lost".
func TestAcceptOfLostDelivery(t *testing.T) {
	r := newRig(t)
	r.c.put("in", "m1")
	s := r.session(false)
	in := r.receiver(s, "in")
	d := r.take(in, 1)[0]
	delete(r.c.sessions[s.id].held[in.name], string(d.tag))
	x := d.Settle(&amqp.Accepted{})
	r.run()
	if !x.Done() || !errors.Is(x.Err(), ErrDeliveryLost) {
		t.Fatal(x.Done(), x.Err())
	}
}

// A delivery lost before the commit makes the whole transaction roll back (C2: the count).
func TestCommitWithLostDelivery(t *testing.T) {
	x := newTransfer(t, false)
	x.work()
	x.run()
	x.refuse = 1000
	x.cut()
	x.run()
	x.c.sessions[x.s.id].expire()
	x.refuse = 0
	x.advance(10 * time.Second)
	x.tx.Commit()
	x.run()
	if o, err := x.tx.Result(); o != TxRolledBack || !errors.Is(err, ErrDeliveryLost) {
		t.Fatal(o, err)
	}
	x.stored("out")
}

// OnFailover Rollback: the open transaction is rolled back, what it consumed comes again, redelivered; the session is usable at once; the
// application's own rollback succeeds (S1, S2, S3).
func TestOnFailoverRollback(t *testing.T) {
	for _, own := range []bool{false, true} {
		x := newTransfer(t, true)
		x.work()
		x.run()
		x.cut()
		x.run()
		if own {
			x.tx.Rollback()
			if o, _ := x.tx.Result(); !x.tx.Done() || o != TxRolledBack {
				t.Fatal("S2:", o)
			}
		} else {
			if _, err := x.tx.Send(x.out, data("late")); !errors.Is(err, ErrTxDone) {
				t.Fatal("S1:", err)
			}
			if _, ok := x.tx.RolledBack(); !ok {
				t.Fatal("S1: not rolled back")
			}
		}
		x.stored("out")
		x.d = x.take(x.in, 1)[0]
		if h := header(t, x.d); x.body(x.d) != "m1" || h.DeliveryCount != 1 {
			t.Fatalf("S1: then comes %q with %+v", x.body(x.d), h)
		}
		x.work()
		x.tx.Commit()
		x.run()
		if o, err := x.tx.Result(); o != TxCommitted {
			t.Fatal("S3:", o, err)
		}
		x.stored("out", "r1")
	}
}

// A rollback on the way while the connection is lost: what was enlisted comes back as a failed attempt (C8).
func TestRollbackThenCut(t *testing.T) {
	for _, written := range []bool{false, true} {
		x := newTransfer(t, false)
		x.work()
		x.run()
		x.tx.Rollback()
		if written {
			x.core.TakeOutput(x.serial, nil, x.now)
		}
		x.cut()
		x.run()
		if o, _ := x.tx.Result(); !x.tx.Done() || o != TxRolledBack {
			t.Fatal(o)
		}
		ds := x.take(x.in, 2)
		for _, d := range ds {
			if h := header(t, d); x.body(d) == "m1" && h.DeliveryCount != 1 {
				t.Errorf("m1 comes again with %+v", h)
			}
		}
	}
}

// A receiver closed between Accept and Commit keeps what the transaction has taken, over a failover as well; the rest returns.
func TestReceiverClosedBeforeCommit(t *testing.T) {
	for _, cut := range []bool{false, true} {
		x := newTransfer(t, false)
		x.work()
		x.in.Close()
		x.run()
		x.waiting("in", "m2")
		if !x.in.Closing.Done() {
			t.Fatal("Close waits for the transaction")
		}
		if cut {
			x.cut()
			x.run()
		}
		x.tx.Commit()
		x.run()
		if o, err := x.tx.Result(); o != TxCommitted {
			t.Fatalf("cut %v: %v, %v", cut, o, err)
		}
		x.waiting("in", "m2")
		if len(x.s.receivers) != 0 {
			t.Error("the link is still there")
		}
	}
}

// Credit is topped up at half and never beyond the prefetch; with a prefetch of 1 only a waiting taker has credit.
func TestPrefetch(t *testing.T) {
	r := newRig(t)
	for i := range 50 {
		r.c.put("in", fmt.Sprint("m", i))
	}
	s := r.session(false)
	in := s.NewReceiver("in", "", 10)
	r.run()
	if n := len(r.c.queue("in").ready); n != 40 {
		t.Fatalf("%d left, want 40", n)
	}
	r.take(in, 4)
	if n := len(r.c.queue("in").ready); n != 40 {
		t.Fatalf("%d left, want 40", n)
	}
	r.take(in, 1)
	if n := len(r.c.queue("in").ready); n != 35 {
		t.Fatalf("%d left, want 35", n)
	}
	one := s.NewReceiver("in", "", 1)
	r.run()
	if n := len(r.c.queue("in").ready); n != 35 {
		t.Fatalf("%d left before the first Take, want 35", n)
	}
	if one.Take() != nil {
		t.Fatal("taken without credit")
	}
	r.take(one, 1)
	if n := len(r.c.queue("in").ready); n != 34 {
		t.Fatalf("%d left, want 34", n)
	}
}

// Another outcome after the first is refused: its caller must not be told of success.
func TestSettleOtherwise(t *testing.T) {
	r := newRig(t)
	r.c.put("in", "m1", "m2")
	s := r.session(false)
	in := r.receiver(s, "in")
	ds := r.take(in, 2)
	first := ds[0].Settle(&amqp.Accepted{})
	if x := ds[0].Settle(&amqp.Released{}); !errors.Is(x.Err(), ErrSettled) {
		t.Errorf("released while accepting: %v %v", x.Done(), x.Err())
	}
	r.run()
	if !first.Done() || first.Err() != nil {
		t.Fatal(first.Done(), first.Err())
	}
	if x := ds[0].Settle(&amqp.Modified{}); !errors.Is(x.Err(), ErrSettled) {
		t.Errorf("modified after it was accepted: %v %v", x.Done(), x.Err())
	}
	if x := ds[0].Settle(&amqp.Accepted{}); x != first {
		t.Error("accepted again: another settlement")
	}
	if list := ds[1].Through(); len(list) != 1 || list[0] != ds[1] {
		t.Errorf("through: %v", list)
	}
}

// Through takes what came before, also where its own delivery is settled by itself.
func TestThroughSettled(t *testing.T) {
	r := newRig(t)
	r.c.put("in", "m1", "m2", "m3", "m4")
	in := r.receiver(r.session(false), "in")
	ds := r.take(in, 4)
	ds[2].Settle(&amqp.Accepted{})
	r.run()
	if list := ds[2].Through(); !slices.Equal(list, ds[:3]) {
		t.Errorf("%d deliveries, want the first 3", len(list))
	}
}

// A receiver that is closed while an outcome is under way learns it first, over a lost connection as well; where its link ends without the answer that
// is unknown, not lost.
func TestReceiverClosedWhileSettling(t *testing.T) {
	for _, how := range []string{"close", "close, cut", "detached"} {
		r := newRig(t)
		r.c.put("in", "m1")
		s := r.session(false)
		in := r.receiver(s, "in")
		d := r.take(in, 1)[0]
		r.conn.mute = true
		x := d.Settle(&amqp.Accepted{})
		r.run()
		if x.Done() {
			t.Fatal("not mute")
		}
		var want error
		switch how {
		case "close":
			in.Close()
			r.run()
			r.conn.unmute()
		case "close, cut":
			in.Close()
			r.run()
			r.cut()
		case "detached":
			want = ErrUnknown
			for _, b := range r.conn.senders {
				_ = b.l.Detach(true, &amqp.Error{Condition: amqp.ErrCondResourceDeleted, Description: "deleted"})
			}
		}
		r.run()
		if !x.Done() || !errors.Is(x.Err(), want) || errors.Is(x.Err(), ErrDeliveryLost) {
			t.Errorf("%s: %v %v, want %v", how, x.Done(), x.Err(), want)
		}
		if how != "detached" && !in.Closing.Done() || len(s.receivers) != 0 {
			t.Errorf("%s: the receiver isn't closed", how)
		}
	}
}

// The same under OnFailover Rollback, where nobody says what became of it on the lost connection: nil only where the message is
// gone, "lost" only where it comes again, else unknown (S5).
func TestAcceptCutAtEveryByteWithRollback(t *testing.T) {
	unknown := 0
	story := func(cutSent, cutGot int) (sent, got int) {
		r := newRig(t)
		r.c.put("in", "m1", "m2")
		in := r.receiver(r.session(true), "in")
		d := r.take(in, 1)[0]
		sent, got = r.sent, r.got
		if cutSent >= 0 {
			r.cutSent = r.sent + cutSent
		}
		if cutGot >= 0 {
			r.cutGot = r.got + cutGot
		}
		x := d.Settle(&amqp.Accepted{})
		r.advance(3 * time.Second)
		sent, got = r.sent-sent, r.got-got
		again := r.body(r.take(in, 1)[0]) == "m1"
		switch err := x.Err(); {
		case !x.Done():
			t.Errorf("cut after %d/%d bytes: no answer", cutSent, cutGot)
		case err == nil && again:
			t.Errorf("cut after %d/%d bytes: accepted, and it comes again", cutSent, cutGot)
		case errors.Is(err, ErrDeliveryLost) && !again:
			t.Errorf("cut after %d/%d bytes: %v, and it is gone", cutSent, cutGot, err)
		case errors.Is(err, ErrUnknown):
			unknown++
		}
		return sent, got
	}
	sent, got := story(-1, -1)
	for n := range sent {
		story(n, -1)
	}
	for n := range got {
		story(-1, n)
	}
	if unknown == 0 {
		t.Error("nothing was ever unknown")
	}
}
