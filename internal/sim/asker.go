package sim

import (
	"time"

	"github.com/oncemq/oncemq/internal/client"
	"github.com/oncemq/oncemq/internal/command"
)

// asker is a client that asks for the outcomes of others' transactions (C3).
type asker struct {
	a    *agent
	k    *core
	open int
}

// theAsker is the world's.
func (w *world) theAsker() *asker {
	if w.asker == nil {
		a, k := w.newCore("asker")
		w.asker = &asker{a: a, k: k}
	}
	return w.asker
}

// askSoon has somebody else ask for a transaction that is about to be decided: the answer and what its own client is told
// must be the same.
func (w *world) askSoon(t *txn) {
	x := w.theAsker()
	x.a.soon(0, 200*time.Millisecond, func() { w.ask(x.k, t, true, nil) })
}

// curious has a transaction that has begun asked about, several times: by others and by its own client, as a mere look or so
// that it is decided, before and after its end.
func (w *world) curious(own *goClient, t *txn) {
	if !w.chance(10) {
		return
	}
	w.count("transaction watched")
	for range 1 + w.rng.IntN(4) {
		k := w.theAsker().k
		if w.chance(30) {
			k = own.k
		}
		decide := w.chance(25)
		k.a.soon(0, 10*w.knobs.think, func() {
			if !w.winding && (k != own.k || !own.left && !own.ended()) {
				w.ask(k, t, decide, nil)
			}
		})
	}
}

// ask asks, and calls then.
func (w *world) ask(k *core, t *txn, decide bool, then func()) {
	q := &client.Query{ID: t.id, Decide: decide}
	kind := Peek
	if decide {
		kind = Decide
	}
	others := w.asker != nil && w.asker.k == k
	if others {
		w.asker.open++
	}
	op := w.invoke(&t.object, k.a.name, kind)
	w.count("outcome asked")
	k.c.Ask(q)
	k.then(&q.Op, func() {
		if others {
			w.asker.open--
		}
		w.say("%s is %q by the log, as %s is told, %v", t.name, q.State, k.a.name, q.Err())
		if q.Err() != nil {
			op.void = !decide
		} else {
			op.Answer = q.State
			w.told(op)
			w.answered(t, q)
		}
		if then != nil {
			then()
		}
	})
}

// answered takes an answer.
func (w *world) answered(t *txn, q *client.Query) {
	if !q.Decide {
		w.count("peek")
	}
	switch {
	case q.State == "committed":
		t.decide(w, done, "the log")
	case q.State == "rolled-back":
		t.decide(w, undone, "the log")
		if q.Reason == command.ReasonResolved {
			w.count("outcome decided by an asker")
		}
	case q.State == "open":
		w.count("peek at an open transaction")
	case q.State == "expired" && t.decided == pending && t.asked:
		w.fail("K5", "%s expired, though nobody was told how it ended", t.name)
	}
}

// ended takes a transaction's end as its own client is told.
func (w *world) ended(t *txn, op *Operation, outcome client.TxOutcome, who string) {
	switch outcome {
	case client.TxCommitted:
		op.Answer = "committed"
		w.told(op)
		t.decide(w, done, who)
	case client.TxRolledBack:
		op.Answer = "rolled-back"
		w.told(op)
		t.decide(w, undone, who)
	case client.TxUnknown:
		w.count("outcome unknown")
	}
}
