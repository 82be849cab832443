package sim

import (
	"fmt"
	"time"
)

// restBound is for how long the state may hold what no living client has, once all are healed and have ended what they had
// begun: the grace period of those that died.
const restBound = 120 * time.Second

// keeper is a client that can say what it has not settled.
type keeper interface {
	holds(queue string) uint64
}

// rest is the other half of K10: what the state has handed out is with living clients, and nowhere else. A delivery that
// neither a client has nor anybody can get is lost for all that it is worth, though it is counted.
func (w *world) rest() {
	if w.fatal != "" || len(w.jobs) == 0 { // a scenario's clients say for themselves what they have
		return
	}
	var stuck string
	var out, held uint64
	look := time.Duration(0)
	w.runUntil(w.now+restBound, func() bool {
		if w.now < look {
			return false
		}
		look = w.now + 50*time.Millisecond
		stuck = ""
		for _, q := range w.machine().Queues() {
			if q.Name != "a" && q.Name != "b" && q.Name != "c" {
				continue
			}
			held = 0
			for _, j := range w.jobs {
				if k, ok := j.(keeper); ok {
					held += k.holds(q.Name)
				}
			}
			if out = q.InFlight; out != held {
				stuck = q.Name
				return false
			}
		}
		return true
	})
	if stuck != "" && w.fatal == "" {
		w.fail("K10", "%v after everything was healed %d messages of %s are handed out, and living clients have %d", restBound, out, stuck, held)
	}
}

// probeBound is for how long a node may not serve a new client, once all are healed.
const probeBound = 20 * time.Second

// probe opens a session at every node that lives (K10): each serves, and not only the cluster as a whole. A node that has forgotten
// what it acknowledged is passed over: it has to end as soon as it finds out, and that may be now. So is one that leaves the cluster, be it meanwhile.
func (w *world) probe() {
	if w.fatal != "" || len(w.jobs) == 0 {
		return
	}
	w.recovered()
	probes := map[*node]*goClient{}
	for _, n := range w.nodes {
		if n.up && !n.forgot {
			a, k := w.newCoreAt(fmt.Sprintf("probe%d", n.id), []string{address(n.id)})
			probes[n] = w.openSession(a, k, false, func() {})
		}
	}
	missing := func() (n *node) {
		for _, n := range w.nodes {
			if g := probes[n]; g != nil && (!g.s.Opening.Done() || g.s.Opening.Err() != nil) && !w.leaves(n) {
				return n
			}
		}
		return nil
	}
	w.runUntil(w.now+probeBound, func() bool { return missing() == nil })
	if n := missing(); n != nil {
		w.fail("K10", "%s gets no session from its node, %v after everything was healed", probes[n].a.name, probeBound)
	}
	for _, n := range w.nodes {
		if g := probes[n]; g != nil {
			g.leave()
		}
	}
}
