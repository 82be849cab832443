package client

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// storm is two workers that move messages in transactions and one plain producer, while connections are cut, refused and silenced at
// random bytes. Checked at the end against what the broker holds: every message moved once, every outcome true (C1, C4, C9).
type storm struct {
	*rig
	rng     *rand.Rand
	workers []*worker
	plain   *Sender
	sends   []*Send
	number  int
}

type worker struct {
	name   string
	s      *Session
	in     *Receiver
	out    *Sender
	d      *Delivery
	tx     *Tx
	ending bool
	body   string
	told   map[string]TxOutcome // by receipt, what the caller was told
	n      int
}

func TestStorm(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 20
	}
	conns, outcomes := 0, map[TxOutcome]int{}
	for seed := range seeds {
		conns += runStorm(t, seed, outcomes)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d connections, outcomes %v", conns, outcomes)
	if uint64(conns) < 5*seeds || outcomes[TxCommitted] == 0 || outcomes[TxRolledBack] == 0 || outcomes[TxUnknown] == 0 {
		t.Errorf("too quiet: %d connections, outcomes %v", conns, outcomes)
	}
}

func runStorm(t *testing.T, seed uint64, outcomes map[TxOutcome]int) (conns int) {
	x := &storm{rig: newRig(t), rng: rand.New(rand.NewPCG(seed, 1))}
	for i := range 40 {
		x.c.put("in", fmt.Sprint("m", i))
	}
	for i := range 2 {
		s := x.session(false)
		in := s.NewReceiver("in", "", 3)
		x.run()
		x.workers = append(x.workers, &worker{name: fmt.Sprint(i), s: s, in: in, out: x.sender(s, "out"), told: map[string]TxOutcome{}})
	}
	x.plain = x.sender(x.workers[0].s, "plain")
	for range 400 {
		x.disturb()
		for _, w := range x.workers {
			x.step(w)
		}
		if x.rng.IntN(4) == 0 {
			x.number++
			x.sends = append(x.sends, x.plain.Send(data(fmt.Sprint("p", x.number))))
		}
		if x.rng.IntN(3) > 0 {
			x.run()
		} else {
			for range x.rng.IntN(6) {
				x.move()
			}
		}
		if x.rng.IntN(10) == 0 {
			x.advance(time.Duration(x.rng.IntN(800)) * time.Millisecond)
		}
	}
	x.cutSent, x.cutGot, x.silent, x.refuse = -1, -1, false, 0
	for range 200 {
		x.advance(300 * time.Millisecond)
		for _, w := range x.workers {
			x.step(w)
		}
	}
	x.check(seed)
	for _, w := range x.workers {
		for _, o := range w.told {
			outcomes[o]++
		}
	}
	return x.conns
}

// disturb arms the next trouble.
func (x *storm) disturb() {
	switch x.rng.IntN(12) {
	case 0:
		x.cutSent = x.sent + x.rng.IntN(600)
	case 1:
		x.cutGot = x.got + x.rng.IntN(600)
	case 2:
		x.refuse = x.rng.IntN(5)
	case 3:
		x.silent = true
	case 4, 5:
		x.silent = false
	}
}

// step lets a worker do its next thing.
func (x *storm) step(w *worker) {
	switch {
	case w.tx == nil:
		if w.d = w.in.Take(); w.d == nil {
			return
		}
		tx, err := w.s.Begin()
		x.must(err)
		w.tx, w.ending = tx, false
		w.n++
		w.body = fmt.Sprintf("%s/%s/%d", x.body(w.d), w.name, w.n)
		if err := tx.Settle(w.d, &amqp.Accepted{}); err != nil {
			tx.Rollback()
			w.ending, w.body = true, ""
			return
		}
		_, err = tx.Send(w.out, data(w.body))
		x.must(err)
	case !w.ending:
		w.ending = true
		if x.rng.IntN(6) == 0 {
			w.tx.Rollback()
		} else {
			w.tx.Commit()
		}
	case w.tx.Done():
		w.end(w.tx.Result())
	case x.rng.IntN(20) == 0:
		w.end(w.tx.Abandon())
	}
}

func (w *worker) end(o TxOutcome, _ error) {
	if w.body != "" {
		w.told[w.body] = o
	}
	w.tx, w.d = nil, nil
}

func (x *storm) check(seed uint64) {
	t := x.t
	stored := map[string]bool{}
	moved := map[string]int{}
	for _, b := range x.c.queue("out").all {
		if stored[b] {
			t.Errorf("seed %d: %s stored twice", seed, b)
		}
		stored[b] = true
		var m int
		_, _ = fmt.Sscanf(b, "m%d/", &m)
		moved[fmt.Sprint("m", m)]++
	}
	for i := range 40 {
		if n := moved[fmt.Sprint("m", i)]; n != 1 {
			t.Errorf("seed %d: m%d moved %d times", seed, i, n)
		}
	}
	for _, w := range x.workers {
		if w.tx != nil {
			t.Errorf("seed %d: a transaction never ends", seed)
		}
		for body, o := range w.told {
			if o == TxCommitted != stored[body] && o != TxUnknown {
				t.Errorf("seed %d: %s: told %v, stored %v", seed, body, o, stored[body])
			}
		}
	}
	var want []string
	for i, s := range x.sends {
		if !s.Done() || s.Err() != nil {
			t.Errorf("seed %d: plain send %d: %v %v", seed, i, s.Done(), s.Err())
		}
		want = append(want, fmt.Sprint("p", i+1))
	}
	x.stored("plain", want...)
}
