package sim

import "time"

// startStrangers starts clients with queues of their own, or with other manners than ours. room bounds how many.
func (w *world) startStrangers(room int, any func() string) {
	if w.knobs.polls && room >= 2 {
		room -= 2
		w.private = append(w.private, "d")
		p := w.newProducer("dp", "d", 80)
		p.pace = 8 * w.knobs.think
		w.jobs = append(w.jobs, p, w.newTaker("d0", "d", 0))
	}
	if w.knobs.twins && room >= 3 {
		room -= 3
		w.private = append(w.private, "e")
		p := w.newProducer("ep", "e", 60)
		p.pace = 6 * w.knobs.think
		w.jobs = append(w.jobs, p)
		one, two := w.newTaker("e0", "e", time.Second), w.newTaker("e1", "e", time.Second)
		two.at = (one.at + 1) % w.reach()
		w.jobs = append(w.jobs, one, two)
	}
	if w.knobs.numbers && room >= 1 {
		room--
		w.jobs = append(w.jobs, w.newNumbered("n0", any(), 30))
	}
	if w.knobs.hostile && room >= 1 {
		w.jobs = append(w.jobs, w.newHostile("hostile0", "hostile-queue", 8))
	}
}
