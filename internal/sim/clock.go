package sim

import (
	"fmt"
	"time"
)

// event is something that happens at a moment of the world's time.
type event struct {
	at  time.Duration
	seq uint64 // of two at one moment the one that was planned first is first
	run func()
}

// events is a heap, the first event on top.
type events []event

// push adds an event. Package container/heap would make a copy in the heap of each: a world has ten thousands.
func (q *events) push(e event) {
	*q = append(*q, e)
	s := *q
	i := len(s) - 1
	for i > 0 {
		above := (i - 1) / 2
		if !e.before(&s[above]) {
			break
		}
		s[i], i = s[above], above
	}
	s[i] = e
}

// pop takes the first event out.
func (q *events) pop() event {
	s := *q
	first, n := s[0], len(s)-1
	last := s[n]
	s[n] = event{}
	*q = s[:n]
	i := 0
	for 2*i+1 < n {
		below := 2*i + 1
		if below+1 < n && s[below+1].before(&s[below]) {
			below++
		}
		if !s[below].before(&last) {
			break
		}
		s[i], i = s[below], below
	}
	if n > 0 {
		s[i] = last
	}
	return first
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// began is the civil moment of every world's beginning.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// after plans run.
func (w *world) after(d time.Duration, run func()) {
	w.seq++
	w.queue.push(event{w.now + max(d, 0), w.seq, run})
}

// runUntil lets everything happen that is due up to the moment, or until stop holds.
func (w *world) runUntil(moment time.Duration, stop func() bool) {
	for len(w.queue) > 0 && w.queue[0].at <= moment && w.fatal == "" {
		e := w.queue.pop()
		w.now = e.at
		w.steps++
		e.run()
		if stop != nil && stop() {
			return
		}
		if w.steps > w.cfg.MaxSteps {
			w.fail("K10", "%d steps and no end: something goes round and round; %s", w.steps, w.stand())
			w.fatal = "steps"
		}
	}
	if w.fatal == "" {
		w.now = max(w.now, moment)
	}
}

// stand is where the nodes are, for a world that doesn't end.
func (w *world) stand() (s string) {
	for _, n := range w.nodes {
		if !n.up {
			s += fmt.Sprintf("n%d is down; ", n.id)
			continue
		}
		st := n.step.Status()
		s += fmt.Sprintf("n%d is %s in term %d, commit %d, applied %d, epoch %d, lag %v; ", n.id, st.Role, st.Term, st.Commit, st.Applied,
			st.Epoch, st.Lag)
	}
	return s
}

// timer is one moment that can be moved: only the newest plan counts.
type timer struct {
	at   time.Duration // 0: none
	plan uint64
}

// set plans run at the moment in place of what was planned.
func (t *timer) set(w *world, at time.Duration, run func()) {
	at = max(at, w.now)
	if t.at == at && t.plan != 0 {
		return
	}
	t.plan++
	t.at = at
	plan := t.plan
	w.after(at-w.now, func() {
		if t.plan == plan {
			t.at = 0
			t.plan++
			run()
		}
	})
}

// stop drops the plan.
func (t *timer) stop() { t.at = 0; t.plan++ }

// between draws a time from the range.
func (w *world) between(from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	return from + time.Duration(w.rng.Int64N(int64(to-from)))
}

// chance is true in p of 100.
func (w *world) chance(p int) bool { return w.rng.IntN(100) < p }
