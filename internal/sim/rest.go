package sim

import "time"

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
