package sim

import (
	"fmt"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
)

// mover consumes from a queue, and produces to others, in transactions (W3). Some it rolls back, some it abandons, about some
// another client is asked.
type mover struct {
	*goClient
	from   string
	to     []string
	r      *client.Receiver
	snds   []*client.Sender
	left   int
	number int
	tx     *client.Tx
	t      *txn
	open   bool // an end was asked for and not told
}

func (w *world) newMover(name, from string, to []string, transactions int) *mover {
	x := &mover{from: from, to: to, left: transactions}
	x.goClient = w.newGoClient(name, w.chance(30), func() {
		x.r = x.s.NewReceiver(from, "", []int{1, 3, 20}[w.rng.IntN(3)])
		for _, q := range to {
			x.snds = append(x.snds, x.s.NewSender(q, ""))
		}
		x.think()
	})
	return x
}

func (x *mover) think() { x.a.soon(0, x.pace, x.next) }

// next does the next thing: begin, add an operation, or end.
func (x *mover) next() {
	switch {
	case x.ended() || x.open:
		return
	case x.tx == nil && (x.left == 0 || x.w.winding):
		return
	case x.tx == nil:
		x.begin()
	case x.tx.Ended() != nil: // it was rolled back meanwhile
		x.end(x.w.chance(50))
	case len(x.t.sends)+len(x.t.settles) > 0 && (x.w.chance(40) || x.w.winding):
		x.end(x.w.chance(80))
	case x.w.winding:
		x.end(false)
	default:
		x.work()
	}
	x.think()
}

func (x *mover) begin() {
	tx, err := x.s.Begin()
	if err != nil {
		return
	}
	x.left--
	x.number++
	x.tx = tx
	x.t = x.w.newTx(fmt.Sprintf("%s/%d", x.a.name, x.number))
	x.t.id, x.t.named = tx.ID(), true
	x.w.curious(x.goClient, x.t)
}

// work adds a delivery or a send, or both.
func (x *mover) work() {
	if x.w.chance(70) {
		if d, arrived := x.k.take(x.r); d != nil {
			if m := x.w.delivered(x.a.name, x.from, d.Payload); m != nil {
				x.w.handedOut(x.a, m, x.from, d.Attempt(), arrived)
				x.settle(d, m)
			}
		}
	}
	if !x.w.chance(60) {
		return
	}
	i := x.w.rng.IntN(len(x.snds))
	m := x.w.newMessage(x.to[i])
	m.tx = x.t
	if _, err := x.tx.Send(x.snds[i], m.payload()); err != nil {
		m.sent = undone
		return
	}
	x.w.ops++
	x.t.sends = append(x.t.sends, m)
}

func (x *mover) settle(d *client.Delivery, m *message) {
	if err := x.tx.Settle(d, &amqp.Accepted{}); err != nil {
		return
	}
	x.w.ops++
	h := &holding{m: m, tx: x.t}
	m.settles = append(m.settles, h)
	x.t.settles = append(x.t.settles, h)
}

// end commits or rolls back, and perhaps doesn't wait.
func (x *mover) end(commit bool) {
	tx, t := x.tx, x.t
	x.open = true
	x.w.ops++
	kind := Rollback
	if commit {
		kind = Commit
	}
	op := x.w.invoke(&t.object, x.a.name, kind)
	if commit {
		t.asked = true
		for _, m := range t.sends {
			m.begun = true
		}
		tx.Commit()
	} else {
		tx.Rollback()
	}
	finished := false
	x.k.then(&tx.Op, func() {
		if finished {
			return
		}
		finished = true
		outcome, reason := tx.Result()
		x.told(t, op, outcome, reason)
	})
	if !finished && x.w.chance(5) {
		x.a.soon(0, thinkLong, func() {
			if finished || x.ended() {
				return
			}
			finished = true
			x.w.count("commit abandoned")
			outcome, reason := tx.Abandon()
			x.told(t, op, outcome, reason)
		})
	}
	if commit && x.w.chance(5) {
		x.w.askSoon(t)
	}
}

func (x *mover) told(t *txn, op *Operation, outcome client.TxOutcome, reason error) {
	if outcome == client.TxUnknown {
		x.w.say("%s: unknown: %v", t.name, reason)
	}
	x.w.ended(t, op, outcome, x.a.name)
	x.tx, x.t, x.open = nil, nil, false
	x.think()
}

func (x *mover) holds(queue string) uint64 {
	if queue != x.from || x.r == nil || x.ended() {
		return 0
	}
	return uint64(x.r.Held())
}

func (x *mover) over() bool {
	return x.ended() || x.tx == nil && x.s.Opening.Done()
}

func (x *mover) about() string { return x.a.name + " moves" }
