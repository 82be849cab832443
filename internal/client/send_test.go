package client

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

func TestSend(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	out := r.sender(s, "q")
	var sends []*Send
	for i := range 5 {
		sends = append(sends, out.Send(data(strconv.Itoa(i))))
	}
	r.run()
	for _, x := range sends {
		if !x.Done() || x.Err() != nil {
			t.Fatalf("%v %v", x.Done(), x.Err())
		}
	}
	r.stored("q", "0", "1", "2", "3", "4")
	if out.first != nil || out.handed > 0 || r.core.answerDue() {
		t.Error("something is left")
	}
}

// Sends 1–5 are pipelined, 3 is refused, and the connection is cut after every byte in either direction: each is stored once, in order,
// and 3 keeps its refusal ([1.6], C9, C11).
func TestSendsCutAtEveryByte(t *testing.T) {
	story := func(t *testing.T, cutSent, cutGot int) *rig {
		r := newRig(t)
		r.c.sendRefusal = func(body string) *amqp.Error {
			if body == "3" {
				return &amqp.Error{Condition: amqp.ErrCondResourceLimitExceeded}
			}
			return nil
		}
		s := r.session(false)
		out := r.sender(s, "q")
		if cutSent >= 0 {
			r.cutSent = r.sent + cutSent
		}
		if cutGot >= 0 {
			r.cutGot = r.got + cutGot
		}
		sent, got := r.sent, r.got
		var sends []*Send
		for i := 1; i <= 5; i++ {
			sends = append(sends, out.Send(data(strconv.Itoa(i))))
		}
		r.advance(3 * time.Second)
		r.sent, r.got = r.sent-sent, r.got-got
		for i, x := range sends {
			var no *amqp.Error
			if refused := errors.As(x.Err(), &no); !x.Done() || refused != (i == 2) || !refused && x.Err() != nil {
				t.Fatalf("cut after %d, %d: send %d: done %v, %v", cutSent, cutGot, i+1, x.Done(), x.Err())
			}
		}
		r.stored("q", "1", "2", "4", "5")
		return r
	}
	probe := story(t, -1, -1)
	for n := 0; n <= probe.sent; n++ {
		story(t, n, -1)
	}
	for n := 0; n <= probe.got; n++ {
		story(t, -1, n)
	}
}

// A send taken back before its first byte was handed over is not stored; afterwards it can't be taken back, and goes on.
func TestSendWithdrawn(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	out := r.sender(s, "q")
	cause := errors.New("given up")
	x := out.Send(data("1"))
	if !x.Withdraw(cause) || !errors.Is(x.Err(), cause) || !x.Unstored() {
		t.Fatal("an unwritten send can be taken back")
	}
	x = out.Send(data("2"))
	r.core.TakeOutput(r.serial, nil, r.now) // into the void
	if x.Withdraw(cause) {
		t.Fatal("a written send can't be taken back")
	}
	r.cut()
	r.run()
	if !x.Done() || x.Err() != nil {
		t.Fatal(x.Err())
	}
	r.stored("q", "2")
	r.refuse = 1000
	r.cut()
	x = out.Send(data("3"))
	r.run()
	if !x.Withdraw(cause) || !x.Unstored() {
		t.Fatal("without a connection nothing is written")
	}
	r.refuse = 0
	r.advance(10 * time.Second)
	r.stored("q", "2")
}

// Without credit sends wait, and those of a transaction behind them too; order holds over both (C11).
func TestSendWaitsForCredit(t *testing.T) {
	r := newRig(t)
	r.c.credit = 2
	s := r.session(false)
	out := r.sender(s, "q")
	r.c.credit = 0 // no further credit
	var sends []*Send
	for i := range 4 {
		sends = append(sends, out.Send(data(strconv.Itoa(i))))
	}
	r.run()
	if !sends[1].Done() || sends[2].Done() || sends[2].Queued() {
		t.Fatal("two have credit")
	}
	if !sends[2].Withdraw(errCut) {
		t.Fatal("it was never handed over")
	}
	r.c.credit = 100
	r.conn.e.Sessions(func(es *engine.Session) {
		es.Links(func(l *engine.Link) { _ = l.SetCredit(100, false) })
	})
	r.run()
	if !sends[3].Done() {
		t.Fatal("credit came")
	}
	r.stored("q", "0", "1", "3")
}

// Plain sends during an open transaction of one session, on the same link and on another, go their own way: stored at once, whatever becomes of the
// transaction (issue: tests before code).
func TestPlainSendInOpenTransaction(t *testing.T) {
	for _, commit := range []bool{true, false} {
		r := newRig(t)
		s := r.session(false)
		a, b := r.sender(s, "a"), r.sender(s, "b")
		tx := r.begin(s)
		var plain []*Send
		for i := range 3 {
			_, err := tx.Send(a, data(fmt.Sprint("tx", i)))
			r.must(err)
			plain = append(plain, a.Send(data(fmt.Sprint("plain", i))))
			_, err = tx.Send(b, data(fmt.Sprint("tx", i)))
			r.must(err)
			if i == 1 {
				r.run()
				r.cut() // replay must not double the plain ones
			}
		}
		r.run()
		for _, x := range plain {
			if !x.Done() || x.Err() != nil {
				t.Fatal(x.Done(), x.Err())
			}
		}
		r.stored("a", "plain0", "plain1", "plain2")
		if commit {
			tx.Commit()
		} else {
			tx.Rollback()
		}
		r.run()
		if commit {
			r.stored("a", "plain0", "plain1", "plain2", "tx0", "tx1", "tx2")
			r.stored("b", "tx0", "tx1", "tx2")
		} else {
			r.stored("a", "plain0", "plain1", "plain2")
			r.stored("b")
		}
	}
}

// A replay keeps the order of each link, also when credit is scarce (C6, C11).
func TestReplayOrder(t *testing.T) {
	r := newRig(t)
	r.c.put("in", "m0", "m1", "m2")
	s := r.session(false)
	in, a := r.receiver(s, "in"), r.sender(s, "a")
	ds := r.take(in, 3)
	tx := r.begin(s)
	var want []string
	for i := range 300 {
		if i%100 == 0 {
			r.must(tx.Settle(ds[i/100], &amqp.Accepted{}))
		}
		want = append(want, strconv.Itoa(i))
		_, err := tx.Send(a, data(strconv.Itoa(i)))
		r.must(err)
	}
	r.run()
	for range 3 {
		r.c.credit = 7
		r.cut()
		r.run()
	}
	tx.Commit()
	r.run()
	if o, err := tx.Result(); o != TxCommitted {
		t.Fatal(o, err)
	}
	r.stored("a", want...)
	r.waiting("in")
	if len(r.c.decided) != 1 {
		t.Errorf("decided %d", len(r.c.decided))
	}
}

// A transacted send taken back for want of credit is no part of the transaction: its count holds.
func TestTxSendWithdrawn(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	r.c.credit = 1
	a := r.sender(s, "a")
	r.c.credit = 1000
	tx := r.begin(s)
	r.run()
	_, err := tx.Send(a, data("1"))
	r.must(err)
	r.c.credit = 0
	x, err := tx.Send(a, data("2"))
	r.must(err)
	if x.Queued() {
		t.Fatal("there was credit for one")
	}
	if !tx.WithdrawSend(x, errCut) {
		t.Fatal("it was never handed over")
	}
	tx.Commit()
	r.run()
	if o, err := tx.Result(); o != TxCommitted {
		t.Fatal(o, err)
	}
	r.stored("a", "1")
}

// A session that is gone leaves plain sends on the wire unknown, and sends the others in the new one (C9).
func TestSendsOfExpiredSession(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	out := r.sender(s, "q")
	x := out.Send(data("1"))
	r.core.TakeOutput(r.serial, nil, r.now)
	y := out.Send(data("2")) // never taken
	r.c.refuseResume = true
	r.cut()
	r.run()
	if !x.Done() || !errors.Is(x.Err(), ErrUnknown) || !errors.Is(x.Err(), ErrExpired) || x.Unstored() {
		t.Errorf("the written one: %v", x.Err())
	}
	if !y.Done() || y.Err() != nil {
		t.Errorf("the other: %v", y.Err())
	}
	r.stored("q", "2")
}

// An attach that the broker refuses ends its sender alone, with the condition.
func TestSenderRefused(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	x := s.NewSender("forbidden", "")
	good := s.NewSender("q", "")
	r.run()
	var no *amqp.Error
	if !x.Attaching.Done() || !errors.As(x.Attaching.Err(), &no) || no.Condition != amqp.ErrCondUnauthorizedAccess {
		t.Fatalf("%v", x.Attaching.Err())
	}
	if good.Attaching.Err() != nil || !good.Attaching.Done() {
		t.Fatal(good.Attaching.Err())
	}
	if y := x.Send(data("1")); !y.Done() || y.Err() == nil {
		t.Fatal("a refused sender sends")
	}
	if slices.Contains(s.senders, x) {
		t.Error("it is still attached anew")
	}
}

// Close waits for what is on the way.
func TestSenderAndSessionClose(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	a, b := r.sender(s, "a"), r.sender(s, "b")
	x := a.Send(data("1"))
	a.Close()
	r.run()
	if !x.Done() || x.Err() != nil || !a.Closing.Done() {
		t.Fatal(x.Err(), a.Closing.Done())
	}
	y := b.Send(data("2"))
	s.Close()
	r.run()
	if !y.Done() || y.Err() != nil || !s.Closing.Done() || len(r.core.sessions) != 0 {
		t.Fatal(y.Err(), s.Closing.Done())
	}
	if bs := r.c.sessions[s.id]; !bs.ended || !bs.clean {
		t.Error("the broker didn't see a clean end")
	}
	if _, err := s.Begin(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// What waits for credit is not owed by the node: its silence is no reason to leave it.
func TestNoTakeOverWhileWaitingForCredit(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	r.begin(s).Commit()
	r.run()
	r.c.credit = 0
	out := r.sender(s, "q")
	x := out.Send(data("1"))
	tx := r.begin(s)
	_, err := tx.Send(out, data("2"))
	r.must(err)
	tx.Commit()
	r.advance(15 * time.Second)
	if r.conns != 1 || x.Done() || tx.Done() {
		t.Fatalf("%d connections, done %v %v", r.conns, x.Done(), tx.Done())
	}
}

// A session that is closed while its connection is gone resolves what was on the wire before it ends.
func TestSessionCloseResolves(t *testing.T) {
	r := newRig(t)
	s := r.session(false)
	out := r.sender(s, "q")
	x := out.Send(data("1"))
	r.core.TakeOutput(r.serial, nil, r.now)
	r.cut()
	s.Close()
	r.run()
	if !x.Done() || x.Err() != nil || !s.Closing.Done() || !r.c.sessions[s.id].ended {
		t.Fatal(x.Done(), x.Err(), s.Closing.Done())
	}
	r.stored("q", "1")
}

// A message that exceeds the link's limit is no part of its transaction, which commits with the rest (C2: the count); plain, it is refused by itself.
func TestTooLarge(t *testing.T) {
	x := newTransfer(t, false)
	x.c.maxMessageSize = 100
	out := x.sender(x.s, "out")
	tx := x.begin(x.s)
	_, err := tx.Send(out, data("small"))
	x.must(err)
	big, err := tx.Send(out, data(string(make([]byte, 200))))
	x.must(err)
	x.run()
	var no *amqp.Error
	if !big.Done() || !errors.As(big.Err(), &no) || no.Condition != amqp.ErrCondMessageSizeExceeded {
		t.Fatal(big.Done(), big.Err())
	}
	plain := out.Send(data(string(make([]byte, 200))))
	if !errors.As(plain.Err(), &no) || plain.Unstored() {
		t.Fatal(plain.Done(), plain.Err())
	}
	tx.Commit()
	x.run()
	if o, err := tx.Result(); o != TxCommitted {
		t.Fatal(o, err)
	}
	x.stored("out", "small")
}

// Replayed to a node with a lower limit, a transaction whose message is too large now is rolled back, not committed without it.
func TestTooLargeOnReplay(t *testing.T) {
	x := newTransfer(t, false)
	x.work()
	x.run()
	x.c.maxMessageSize = 3
	x.cut()
	x.tx.Commit()
	x.run()
	if o, err := x.tx.Result(); !x.tx.Done() || o != TxRolledBack {
		t.Fatal(x.tx.Done(), o, err)
	}
	x.stored("out")
}
