package sim

import (
	"time"

	"github.com/oncemq/oncemq/internal/client"
)

// asker is a client that asks for the outcomes of others' transactions (C3).
type asker struct {
	a    *agent
	k    *core
	open int
}

// askSoon has somebody else ask for a transaction that is about to be decided: the answer and what its own client is told
// must be the same.
func (w *world) askSoon(t *txn) {
	if w.asker == nil {
		a, k := w.newCore("asker")
		w.asker = &asker{a: a, k: k}
	}
	w.asker.a.soon(0, 200*time.Millisecond, func() { w.asker.ask(t, nil) })
}

// ask asks, and calls then.
func (x *asker) ask(t *txn, then func()) {
	q := &client.Query{ID: t.id, Decide: true}
	x.open++
	x.a.w.count("outcome asked")
	x.k.c.Ask(q)
	x.k.then(&q.Op, func() {
		x.open--
		x.a.w.say("%s is %q by the log, %v", t.name, q.State, q.Err())
		switch {
		case q.Err() != nil:
		case q.State == "committed":
			t.decide(x.a.w, done, "the log")
		case q.State == "rolled-back":
			t.decide(x.a.w, undone, "the log")
		case q.State == "expired" && t.decided == pending && t.asked:
			x.a.w.fail("K5", "%s expired, though nobody was told how it ended", t.name)
		}
		if then != nil {
			then()
		}
	})
}
