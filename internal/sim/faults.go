package sim

import "time"

// planFaults draws the faults of the workload's time. Each has a number, by which the shrinker leaves it out.
func (w *world) planFaults() {
	for i := range w.knobs.faults {
		at := w.between(0, w.knobs.length)
		run := w.drawFault()
		if w.cfg.Skip[i] {
			continue
		}
		w.faults++
		w.after(at-w.now, func() {
			if !w.calm {
				run()
			}
		})
	}
}

func (w *world) anyNode() *node { return w.nodes[w.rng.IntN(len(w.nodes))] }

// leader is a node that leads, or any.
func (w *world) leader() *node {
	for _, n := range w.nodes {
		if n.up && n.leads {
			return n
		}
	}
	return w.anyNode()
}

// drawFault chooses what will happen.
func (w *world) drawFault() func() {
	n := w.anyNode()
	lasts := w.between(50*time.Millisecond, 4*time.Second)
	steps := 1 + w.rng.IntN(40)
	target := func() *node {
		if steps%2 == 0 {
			return w.leader()
		}
		if w.operator != nil { // it may be one that has come since
			return w.nodes[(n.id+steps)%len(w.nodes)]
		}
		return n
	}
	if w.knobs.real && w.rng.IntN(2) == 0 {
		return func() { w.diskFault(target(), lasts, steps) }
	}
	switch w.rng.IntN(27) {
	case 0, 1, 2, 3:
		return func() {
			if t := target(); t.up {
				t.dies = steps
			}
		}
	case 4:
		return func() { w.everyoneDies(steps) }
	case 5, 6:
		return func() { w.partition(target(), lasts, steps) }
	case 7:
		return func() { w.pauseNode(target(), lasts) }
	case 8:
		return func() { w.shiftClock(target(), steps) }
	case 9, 10:
		return func() { w.cutClients(steps) }
	case 11:
		return func() { w.jamClient(lasts, steps) }
	case 17, 18, 19:
		return func() { w.loseAnswer(target(), steps) }
	case 16, 24, 25:
		return func() { w.sendAway(steps) }
	case 12:
		return func() { w.killClient(steps%4 == 0, steps) }
	case 13:
		return func() { w.slowDisk(target(), lasts) }
	case 20, 21:
		return func() { w.lastWord(target(), steps) }
	case 22:
		return func() { w.flap(n, steps) }
	case 23, 26:
		return func() { w.standStill(steps) }
	case 14:
		return func() { w.force(target(), steps) }
	default:
		return func() { w.diskFault(target(), lasts, steps) }
	}
}

// loseAnswer lets a node apply something for a client, which then never hears of it from there: the node dies, or its sockets
// break [2.1].
func (w *world) loseAnswer(n *node, steps int) {
	if !n.up {
		return
	}
	n.onEffect = func() {
		w.count("answer lost")
		w.say("n%d has answers that nobody gets", n.id)
		if steps%3 > 0 {
			n.crash(steps%9 == 1)
			n.restartLater()
			return
		}
		for _, c := range append([]*conn(nil), n.order...) {
			c.s.cut() // what the node writes from now on goes nowhere
		}
	}
}

// everyoneDies loses all nodes within a few steps of each other.
func (w *world) everyoneDies(steps int) {
	w.count("all nodes die")
	for _, n := range w.nodes {
		if n.up {
			n.dies = steps + w.rng.IntN(5)
		}
	}
}

// partition cuts a node off, both ways or one, with its clients or without.
func (w *world) partition(n *node, lasts time.Duration, kind int) {
	w.say("n%d is cut off, kind %d, for %v", n.id, kind%6, lasts)
	w.count("partition")
	n.eachLink(func(l *link, outgoing bool) {
		if kind%3 == 0 || outgoing == (kind%3 == 1) {
			l.block()
		}
	})
	if kind%6 < 3 {
		w.cutOff[n.id] = true
	}
	w.after(lasts, func() { w.mend(n) })
}

func (w *world) mend(n *node) {
	n.eachLink(func(l *link, _ bool) { l.unblock() })
	delete(w.cutOff, n.id)
}

func (w *world) pauseNode(n *node, lasts time.Duration) {
	n.pause()
	life := n.life
	w.after(lasts, func() {
		if n.life == life {
			n.resume()
		}
	})
}

// shiftClock sets a wall clock forward or back.
func (w *world) shiftClock(n *node, steps int) {
	w.count("clock jump")
	w.clocksRight = false
	n.civil = time.Duration(steps-20) * 15 * time.Minute // far less than what outcomes are kept for
	w.say("n%d's wall clock is off by %v", n.id, n.civil)
}

// living are the sockets that carry something.
func (w *world) living() []*socket {
	list := w.open[:0]
	for _, s := range w.open {
		if !s.dead() {
			list = append(list, s)
		}
	}
	w.open = list
	return list
}

// cutClients breaks sockets: one, or all of a node.
func (w *world) cutClients(steps int) {
	open := append([]*socket(nil), w.living()...)
	if len(open) == 0 {
		return
	}
	s := open[steps%len(open)]
	for _, other := range open {
		if other == s || steps%5 == 0 && other.node == s.node {
			w.count("socket cut")
			w.say("%s is cut", other.name)
			other.cut()
		}
	}
}

// jamClient stops one direction of a socket, and lets what gathered go on later [1.4]; or never.
func (w *world) jamClient(lasts time.Duration, steps int) {
	open := w.living()
	if len(open) == 0 {
		return
	}
	s := open[steps%len(open)]
	p := s.up
	if steps%3 == 0 {
		p = s.down
	}
	if steps%7 == 0 {
		w.count("socket loses one way")
		w.say("%s loses one way", s.name)
		p.vanish()
		return
	}
	w.count("socket jammed")
	w.say("%s is jammed for %v", s.name, lasts)
	p.jammed = true
	w.after(lasts, p.release)
}

func (w *world) killClient(silent bool, steps int) {
	a := w.agents[steps%len(w.agents)]
	if w.asker != nil && a == w.asker.a {
		return
	}
	if steps%3 == 0 {
		w.count("client pause")
		a.pause(w.between(100*time.Millisecond, 4*time.Second))
		return
	}
	a.die(silent)
}

// sendAway breaks a client's connection and stops it for longer than the grace period behind a reset: what it holds goes to
// others. A mover's commit then has operations missing [2.1]; a consumer settles what is not its own any more [3.3].
func (w *world) sendAway(steps int) {
	var movers []*agent
	var takers []*consumer
	for _, j := range w.jobs {
		switch x := j.(type) {
		case *mover:
			if !x.ended() && x.a.sock != nil {
				movers = append(movers, x.a)
			}
		case *consumer:
			if !x.ended() && x.left > 0 {
				takers = append(takers, x)
			}
		}
	}
	switch {
	case len(takers) > 0 && (steps%2 == 0 || len(movers) == 0):
		takers[steps/2%len(takers)].away = true
	case len(movers) > 0:
		w.goAway(movers[steps/2%len(movers)])
	}
}

// goAway breaks a client's connection, and stops it.
func (w *world) goAway(a *agent) {
	if a.sock == nil {
		return
	}
	w.count("client away for too long")
	a.sock.cut()
	a.pause(w.between(5500*time.Millisecond, 8*time.Second))
}

func (w *world) slowDisk(n *node, lasts time.Duration) {
	w.count("slow disk")
	w.say("n%d's disk is slow", n.id)
	n.slow = w.between(10*time.Millisecond, 1500*time.Millisecond)
	w.after(lasts, func() { n.slow = 0 })
}

// force makes an election.
func (w *world) force(n *node, steps int) {
	n.run(n.life, func() {
		w.count("forced election")
		if steps%3 == 0 {
			n.step.Transfer(0)
		} else {
			n.step.Campaign()
		}
		n.kick()
	})
}
