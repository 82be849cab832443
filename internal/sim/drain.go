package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
	"github.com/oncemq/oncemq/internal/state"
)

// Bounds of what must end once everything is healed (K10). A dead client's messages come back after its idle time-out and a
// grace period of 60 s.
const (
	finishBound = 90 * time.Second
	drainBound  = 240 * time.Second
	askBound    = 30 * time.Second
)

// heal ends all faults. In liveness mode one node of three stays dead.
func (w *world) heal() {
	w.say("healed")
	w.calm = true
	for _, n := range w.nodes {
		n.dies, n.writes, n.flaps, n.slow, n.onEffect = 0, 0, 0, 0, nil
		w.mend(n)
		n.resume()
		n.revive()
		n.disk.Heal()
		n.ill, n.hung, n.powerless = false, false, false
	}
	for _, s := range w.living() {
		s.up.release()
		s.down.release()
	}
	if w.cfg.Liveness && len(w.founders) > 1 && !w.lonely && w.lost == nil {
		w.dead = w.nodes[w.rng.IntN(len(w.nodes))]
		if w.doomed != nil {
			w.dead = w.doomed
		}
		w.dead.crash(w.chance(50))
		w.dead.life++ // nobody starts it again
	}
	for _, n := range w.nodes {
		if n != w.dead {
			n.start()
		}
	}
}

// finish lets the clients end what they have begun.
func (w *world) finish() {
	if w.fatal != "" {
		return
	}
	w.winding = true
	for _, a := range w.agents {
		w.after(0, a.pump)
	}
	w.runUntil(w.now+finishBound, func() bool {
		for _, j := range w.jobs {
			if !j.over() {
				return false
			}
		}
		return (w.asker == nil || w.asker.open == 0) && (w.operator == nil || w.operator.over())
	})
	if w.operator != nil && !w.operator.over() {
		w.fail("K10", "the operator has no answer %v after everything was healed", finishBound)
	}
	for _, j := range w.jobs {
		if !j.over() {
			w.fail("K10", "%s and is not done %v after everything was healed", j.about(), finishBound)
		}
	}
	w.settleMembers()
	w.rest()
	w.probe()
	for _, j := range w.jobs {
		if g, ok := j.(interface{ leave() }); ok {
			g.leave()
		}
	}
	w.resolve()
}

// resolve asks the log about every transaction whose client could not learn its outcome, twice: the answer stays the same.
func (w *world) resolve() {
	for _, t := range w.history.txs {
		if !t.asked {
			t.decide(w, undone, "its client, which never asked for the commit")
		}
	}
	var open []*txn
	for _, t := range w.history.txs {
		if t.named && t.decided == pending {
			open = append(open, t)
		}
	}
	if len(open) == 0 {
		return
	}
	for _, t := range open {
		w.askSoon(t)
		w.askSoon(t)
	}
	w.runUntil(w.now+askBound, func() bool { return w.asker.open == 0 && w.decided(open) })
	for _, t := range open {
		if t.decided == pending {
			w.fail("K10", "%s: its outcome can't be learned", t.name)
		}
	}
}

func (w *world) decided(txs []*txn) bool {
	for _, t := range txs {
		if t.decided == pending {
			return false
		}
	}
	return true
}

// drainer takes everything that is left.
type drainer struct {
	*goClient
	queues map[string]bool
	last   map[string]int
	open   int
}

// drain empties all queues, dead letters too.
func (w *world) drain() {
	if w.fatal != "" {
		return
	}
	d := &drainer{queues: map[string]bool{}, last: map[string]int{}}
	d.goClient = w.newGoClient("drain", false, func() {
		for _, q := range slices.Concat([]string{"a", "b", "c"}, w.private, sortedKeys(w.mortal)) {
			d.attach(q)
		}
	})
	look := time.Duration(0)
	w.runUntil(w.now+drainBound, func() bool {
		if w.now < look || d.s.ID() == (client.SessionID{}) {
			return false
		}
		look = w.now + 50*time.Millisecond
		return d.open == 0 && d.empty()
	})
	if w.fatal == "" && !d.empty() {
		w.fail("K10", "%v after everything was healed the queues are not empty: %s", drainBound, d.depths())
	}
	w.settled = uint64(len(w.committed))
	w.runUntil(w.now+3*time.Second, nil) // the followers
	if w.asker != nil {
		w.asker.k.c.Close(w.asker.a.clock())
	}
}

func (d *drainer) attach(queue string) {
	if d.queues[queue] {
		return
	}
	d.queues[queue] = true
	rest := true // nobody holds any: what is there comes in order, whatever became of it before
	for _, q := range d.w.machine().Queues() {
		rest = rest && (q.Name != queue || q.InFlight == 0)
	}
	r := d.s.NewReceiver(queue, "", 100)
	last := map[string]int{}
	take := func() { d.take(r, queue, last, rest) }
	d.k.available[r] = take
	take()
	d.a.pump()
}

func (d *drainer) take(r *client.Receiver, queue string, last map[string]int, rest bool) {
	for x := r.Take(); x != nil; x = r.Take() {
		m := d.w.delivered("drain", queue, x.Payload)
		if m == nil {
			continue
		}
		switch {
		case queue == m.queue && rest && m.producer != "":
			d.w.count("order of a queue at rest")
			if m.n <= last[m.producer] {
				d.w.fail("K4", "at rest %s has %s's number %d behind number %d", queue, m.producer, m.n, last[m.producer])
			}
			last[m.producer] = m.n
		case queue == m.queue:
			d.w.inOrder(last, m, x.Attempt(), "drain")
		}
		d.open++
		s := x.Settle(&amqp.Accepted{})
		d.k.then(&s.Op, func() {
			d.open--
			if s.Err() != nil {
				d.w.fail("K10", "drain can't settle %s: %v", m.id, s.Err())
				return
			}
			m.drained++
			m.dead = queue != m.queue
		})
	}
}

// machine is the machine of a node that knows most.
func (w *world) machine() *state.Machine {
	var best *state.Machine
	at := uint64(0)
	for _, n := range w.nodes {
		if n.up {
			if st := n.step.Status(); best == nil || st.Applied > at {
				best, at = n.step.Machine(), st.Applied
			}
		}
	}
	return best
}

// empty says that no queue has a message, and attaches to dead-letter queues that have come up.
func (d *drainer) empty() bool {
	empty := true
	for _, q := range d.w.machine().Queues() {
		if len(q.Name) > 4 && q.Name[:4] == state.DeadLetterPrefix && d.queues[q.Name[4:]] && !d.queues[q.Name] && q.Depth > 0 {
			d.attach(q.Name)
		}
		if q.Depth > 0 && d.queues[q.Name] {
			empty = false
		}
	}
	return empty
}

func (d *drainer) depths() (s string) {
	for _, q := range d.w.machine().Queues() {
		s += fmt.Sprintf("%s has %d, %d of them in flight; ", q.Name, q.Depth, q.InFlight)
	}
	return s
}
