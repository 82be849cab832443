package client

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// transfer is the story of most tests here: receive one, send one, commit.
type transfer struct {
	*rig
	s   *Session
	in  *Receiver
	out *Sender
	d   *Delivery
	tx  *Tx
}

func newTransfer(t testing.TB, rollback bool) *transfer {
	r := newRig(t)
	r.c.put("in", "m1", "m2")
	s := r.session(rollback)
	x := &transfer{rig: r, s: s, in: r.receiver(s, "in"), out: r.sender(s, "out")}
	warm := r.begin(s) // so that the coordinator is attached
	warm.Commit()
	r.run()
	if o, _ := warm.Result(); o != TxCommitted {
		t.Fatalf("an empty transaction: %v", o)
	}
	x.d = r.take(x.in, 1)[0]
	return x
}

// work does the operations, without giving them time to be written.
func (x *transfer) work() {
	x.t.Helper()
	x.tx = x.begin(x.s)
	x.must(x.tx.Settle(x.d, &amqp.Accepted{}))
	_, err := x.tx.Send(x.out, data("r1"))
	x.must(err)
}

func TestCommit(t *testing.T) {
	x := newTransfer(t, false)
	got := x.got
	x.work()
	x.tx.Commit()
	x.run()
	if o, err := x.tx.Result(); o != TxCommitted || err != nil {
		t.Fatalf("outcome %v, %v", o, err)
	}
	x.stored("out", "r1")
	if x.got == got {
		t.Error("nothing came back")
	}
	if len(x.c.sessions[x.s.id].held[x.in.name]) != 1 { // m2 is prefetched
		t.Errorf("held: %v", x.c.sessions[x.s.id].held)
	}
}

// One round trip: everything up to the discharge is in the first bytes written (client brief: pipelined declare).
func TestCommitIsOneRoundTrip(t *testing.T) {
	x := newTransfer(t, false)
	x.work()
	x.tx.Commit()
	x.toC = append(x.toC, x.conn.input(x.core.TakeOutput(x.serial, nil, x.now), x.now)...)
	if len(x.c.decided) != 2 {
		t.Fatalf("decided %d transactions with one write, want 2", len(x.c.decided))
	}
	x.run()
	if o, _ := x.tx.Result(); o != TxCommitted {
		t.Fatal(o)
	}
}

// The connection is cut after every byte, in both directions, from before the first operation to after the answer, on a session that
// resumes and on one that rolls back. The client must tell what the broker holds (C2, C4, C6; "the lost reply").
func TestCommitCutAtEveryByte(t *testing.T) {
	for _, rollback := range []bool{false, true} {
		t.Run(fmt.Sprintf("rollback=%v", rollback), func(t *testing.T) {
			probe := newTransfer(t, rollback)
			sent, got := probe.sent, probe.got
			probe.work()
			probe.tx.Commit()
			probe.run()
			count := map[TxOutcome]int{}
			for n := sent; n <= probe.sent; n++ {
				count[cutOnce(t, rollback, n, -1)]++
			}
			for n := got; n <= probe.got; n++ {
				count[cutOnce(t, rollback, -1, n)]++
			}
			if count[TxUnknown] > 0 || count[TxCommitted] == 0 || rollback && count[TxRolledBack] == 0 || !rollback && count[TxRolledBack] > 0 {
				t.Errorf("outcomes %v", count)
			}
		})
	}
}

func cutOnce(t *testing.T, rollback bool, cutSent, cutGot int) TxOutcome {
	t.Helper()
	x := newTransfer(t, rollback)
	x.cutSent, x.cutGot = cutSent, cutGot
	x.work()
	x.tx.Commit()
	x.advance(5 * time.Second)
	where := fmt.Sprintf("cut after %d sent, %d received", cutSent, cutGot)
	if !x.tx.Done() {
		t.Fatalf("%s: no outcome", where)
	}
	outcome, reason := x.tx.Result()
	if x.cutSent >= 0 || x.cutGot >= 0 {
		t.Fatalf("%s: never cut", where)
	}
	committed := slices.Contains(x.c.queue("out").all, "r1")
	if committed != (outcome == TxCommitted) {
		t.Fatalf("%s: the client says %v (%v), the broker stored %q", where, outcome, reason, x.c.queue("out").all)
	}
	if committed {
		x.stored("out", "r1")
	} else {
		d := x.take(x.in, 1)[0]
		if b := x.body(d); b != "m1" {
			t.Fatalf("%s: after the rollback comes %q", where, b)
		}
		if h := header(t, d); h.DeliveryCount == 0 || h.FirstAcquirer {
			t.Fatalf("%s: redelivered as %+v", where, h)
		}
	}
	// The session is usable at once (S3, C10).
	tx := x.begin(x.s)
	_, err := tx.Send(x.out, data("next"))
	x.must(err)
	tx.Commit()
	x.run()
	if o, err := tx.Result(); o != TxCommitted {
		t.Fatalf("%s: the next transaction: %v, %v", where, o, err)
	}
	return outcome
}

func header(t testing.TB, d *Delivery) amqp.Header {
	s, err := amqp.ParseSections(d.Payload, amqp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := amqp.DecodeHeader(s.Header)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A caller gives up while the discharge is on the wire and no node answers: Unknown, never RolledBack; later calls learn the truth (C10).
func TestCommitUnknownThenResolved(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(fmt.Sprintf("applied=%v", applied), func(t *testing.T) {
			x := newTransfer(t, false)
			x.work()
			x.tx.Commit()
			if applied {
				x.conn.input(x.core.TakeOutput(x.serial, nil, x.now), x.now)
			} else {
				x.core.TakeOutput(x.serial, nil, x.now) // handed to the socket, never arrived
			}
			x.refuse = 1000
			x.cut()
			x.run()
			if o, _ := x.tx.Abandon(); o != TxUnknown {
				t.Fatalf("outcome %v with no node to ask", o)
			}
			x.refuse = 0
			x.tx.Rollback()
			x.advance(10 * time.Second)
			want := TxRolledBack
			if applied {
				want = TxCommitted
			}
			if o, _ := x.tx.Result(); !x.tx.Done() || o != want {
				t.Fatalf("rollback resolves to %v, want %v", o, want)
			}
			if stored := len(x.c.queue("out").all) == 1; stored != applied {
				t.Errorf("stored: %v", x.c.queue("out").all)
			}
		})
	}
}

// A second Commit after Unknown commits what the first did not, from the operations that the client kept.
func TestCommitAgainAfterUnknown(t *testing.T) {
	x := newTransfer(t, false)
	x.work()
	x.tx.Commit()
	x.core.TakeOutput(x.serial, nil, x.now)
	x.refuse = 1000
	x.cut()
	x.run()
	if o, _ := x.tx.Abandon(); o != TxUnknown {
		t.Fatal(o)
	}
	x.tx.Commit()
	x.refuse = 0
	x.advance(10 * time.Second)
	if o, err := x.tx.Result(); o != TxCommitted {
		t.Fatal(o, err)
	}
	x.stored("out", "r1")
}

// Before the discharge is handed to a socket a failure is a rollback for certain.
func TestCommitGivenUpUnwritten(t *testing.T) {
	x := newTransfer(t, false)
	x.work()
	x.run()
	x.tx.Commit() // queued, not taken
	if o, _ := x.tx.Abandon(); o != TxRolledBack {
		t.Fatalf("outcome %v", o)
	}
	x.run()
	x.stored("out")
	if d := x.take(x.in, 2); x.body(d[0]) != "m2" || x.body(d[1]) != "m1" {
		t.Errorf("then comes %q, %q", x.body(d[0]), x.body(d[1]))
	}
	if err := x.tx.Ended(); !errors.Is(err, ErrTxDone) {
		t.Error(err)
	}
}

// The deadlines of the contract: 2,000 commits after one Unknown leave its outcome kept, and nothing else (C2, [2.3]).
func TestUnknownFollowedBy2000Commits(t *testing.T) {
	x := newTransfer(t, false)
	x.work()
	x.tx.Commit()
	x.conn.input(x.core.TakeOutput(x.serial, nil, x.now), x.now)
	x.refuse = 1000
	x.cut()
	x.run()
	if o, _ := x.tx.Abandon(); o != TxUnknown {
		t.Fatal(o)
	}
	x.refuse = 0
	x.advance(10 * time.Second)
	for range 2000 {
		tx := x.begin(x.s)
		tx.Commit()
		x.run()
		if o, err := tx.Result(); o != TxCommitted {
			t.Fatal(o, err)
		}
	}
	s := x.c.sessions[x.s.id]
	if x.c.outcomes[x.tx.id] != "committed" || !slices.Equal(s.unknown, []uint64{x.tx.number}) || len(x.c.outcomes) > 3 {
		t.Fatalf("kept %d outcomes, unknown %v", len(x.c.outcomes), s.unknown)
	}
	q := &Query{ID: x.tx.id, Decide: true}
	x.core.Ask(q)
	x.run()
	if !q.Done() || q.Err() != nil || q.State != "committed" || q.DecidedAt != time.UnixMilli(1000) {
		t.Fatalf("asked: %+v", q)
	}
	if x.s.known.open() != 0 {
		t.Error("its asker knows it now")
	}
	x.tx.Commit()
	if o, _ := x.tx.Result(); o != TxCommitted {
		t.Fatal("the client knows it by now")
	}
	tx := x.begin(x.s)
	tx.Commit()
	x.run()
	if len(x.c.sessions[x.s.id].unknown) != 0 {
		t.Error("still named as unknown after its caller knows it")
	}
}

// A session may hold 1,000 unknown outcomes, then Begin is refused (C2).
func TestBeginRefusedWith1000Unknown(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	r.begin(s).Commit()
	r.run()
	r.conn.mute = true
	for range maxUnknown {
		tx := r.begin(s)
		tx.Commit()
		r.run()
		if o, _ := tx.Abandon(); o != TxUnknown {
			t.Fatal(o)
		}
	}
	if _, err := s.Begin(); !errors.Is(err, ErrTooManyUnknown) {
		t.Fatalf("Begin: %v (unknown %d)", err, s.unknown())
	}
}

// A refused send shows at commit, with its reason, and nothing of the transaction is stored.
func TestCommitAfterRefusedSend(t *testing.T) {
	x := newTransfer(t, false)
	x.c.sendRefusal = func(string) *amqp.Error {
		return &amqp.Error{Condition: amqp.ErrCondResourceLimitExceeded, Description: "full"}
	}
	for _, pipelined := range []bool{true, false} {
		x.tx = x.begin(x.s)
		_, err := x.tx.Send(x.out, data("r1"))
		x.must(err)
		if !pipelined {
			x.run()
		}
		x.tx.Commit()
		x.run()
		if o, _ := x.tx.Result(); o != TxRolledBack {
			t.Fatal(o)
		}
	}
	x.stored("out")
}

// A commit whose session is gone when the client comes back is asked for; the session goes on under a new identity (C3, C5).
func TestCommitOfExpiredSession(t *testing.T) {
	for _, applied := range []bool{true, false} {
		x := newTransfer(t, false)
		old := x.s.ID()
		x.work()
		x.tx.Commit()
		out := x.core.TakeOutput(x.serial, nil, x.now)
		if applied {
			x.conn.input(out, x.now)
		}
		x.c.refuseResume = true
		x.cut()
		x.advance(5 * time.Second)
		want := TxRolledBack
		if applied {
			want = TxCommitted
		}
		if o, err := x.tx.Result(); !x.tx.Done() || o != want {
			t.Fatalf("applied %v: %v, %v", applied, o, err)
		}
		if x.s.ID() == old {
			t.Fatal("the session kept its identity")
		}
		tx := x.begin(x.s)
		_, err := tx.Send(x.out, data("next"))
		x.must(err)
		tx.Commit()
		x.run()
		if o, err := tx.Result(); o != TxCommitted {
			t.Fatal(o, err)
		}
	}
}

// An open transaction without a commit on the wire is rolled back, for certain, when its session is gone.
func TestOpenTransactionOfExpiredSession(t *testing.T) {
	x := newTransfer(t, false)
	x.work()
	x.run()
	x.c.refuseResume = true
	x.cut()
	x.run()
	if err := x.tx.Ended(); !errors.Is(err, ErrTxDone) {
		t.Fatal(err)
	}
	if reason, ok := x.tx.RolledBack(); !ok || !errors.Is(reason, ErrExpired) {
		t.Fatal(reason)
	}
}

// unknowable leaves x.tx with a commit that was applied and an outcome that can't be learned, on a session that goes on: the control link is lost
// with the answer, and so is every later one.
func unknowable(t *testing.T) *transfer {
	x := newTransfer(t, false)
	x.c.outcomeError = &amqp.Error{Condition: amqp.ErrCondInternalError, Description: "not now"}
	x.work()
	x.conn.refuseDischarge = &amqp.Error{Condition: amqp.ErrCondInternalError, Description: "who knows"}
	x.tx.Commit()
	x.run()
	if o, err := x.tx.Result(); !x.tx.Done() || o != TxUnknown || err == nil {
		t.Fatalf("outcome %v, %v", o, err)
	}
	return x
}

// What ended unknown on a session that goes on is not acknowledged by its next commands: whoever asks later must get the outcome (C2, [2.3]).
func TestUnknownIsNotAcknowledged(t *testing.T) {
	x := unknowable(t)
	for range 3 {
		tx := x.begin(x.s)
		tx.Commit()
		x.run()
		if o, err := tx.Result(); o != TxCommitted {
			t.Fatal(o, err)
		}
	}
	if s := x.c.sessions[x.s.id]; !slices.Equal(s.unknown, []uint64{x.tx.number}) {
		t.Fatalf("known through %d but for %v, want %d excepted", s.known, s.unknown, x.tx.number)
	}
	x.s.Close()
	x.run()
	if x.c.sessions[x.s.id].clean {
		t.Error("a clean close acknowledges it")
	}
}

// A call after Unknown asks anew (C10), and what it learns may then be acknowledged.
func TestCallAfterUnknownAsksAnew(t *testing.T) {
	for _, rollback := range []bool{false, true} {
		x := unknowable(t)
		x.c.outcomeError = nil
		if rollback {
			x.tx.Rollback()
		} else {
			x.tx.Commit()
		}
		if x.tx.Done() {
			t.Fatal("it doesn't ask")
		}
		x.run()
		if o, err := x.tx.Result(); !x.tx.Done() || o != TxCommitted || err != nil {
			t.Fatalf("rollback %v: %v, %v", rollback, o, err)
		}
		if x.s.known.open() != 0 {
			t.Error("still unseen")
		}
	}
}

// A session that fails for another reason than being gone can't answer for its commit; the client asks over another one (C4, S6).
func TestCommitOfFailedSession(t *testing.T) {
	x := newTransfer(t, false)
	x.work()
	x.tx.Commit()
	x.conn.input(x.core.TakeOutput(x.serial, nil, x.now), x.now)
	x.c.resumeError = &amqp.Error{Condition: amqp.ErrCondNotAllowed, Description: "no more"}
	x.cut()
	x.run()
	if o, err := x.tx.Result(); !x.tx.Done() || o != TxCommitted {
		t.Fatalf("outcome %v, %v", o, err)
	}
}
