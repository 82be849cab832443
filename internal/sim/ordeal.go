package sim

import "time"

// An ordeal is a story of which chance alone would make little: a node whose disk can't be read any more begins anew with what a leader
// confirms, while the third node is in no state to correct a wrong answer.

// ordealBound is for how long an ordeal waits for what it needs.
const ordealBound = 5 * time.Second

// planOrdeal draws when one begins.
func (w *world) planOrdeal() {
	if !w.knobs.ordeal || len(w.nodes) != 3 || w.knobs.real {
		return
	}
	play := w.oldLeader
	if w.chance(50) {
		play = w.wreckTwice
	}
	w.after(w.between(0, w.knobs.length/2), func() {
		if !w.calm {
			play()
		}
	})
}

// cast are the leader and the others, if all are there and one of them may lose what it has.
func (w *world) cast() (leader, a, b *node, ok bool) {
	leader = w.leader()
	a, b = w.nodes[leader.id%3], w.nodes[(leader.id+1)%3]
	for _, n := range w.nodes {
		if !n.up || n.paused || n.ill || n.hung || n.dies > 0 || n.flaps > 0 {
			return nil, nil, nil, false
		}
	}
	return leader, a, b, leader.leads && w.mayDoom(a)
}

// await calls f as soon as something holds, if it does within ordealBound.
func (w *world) await(holds func() bool, f func()) {
	until := w.now + ordealBound
	var look func()
	look = func() {
		switch {
		case w.calm || w.now > until:
		case holds():
			f()
		default:
			w.after(5*time.Millisecond, look)
		}
	}
	look()
}

// oldLeader stops a leader, which nobody reaches meanwhile, until another one leads and has committed with a second node what the first
// doesn't know. Then that second node loses its disk, and the first goes on, which reaches it and not the other: what it would confirm is
// out of date, and it has to see that nobody but the asker hears it (C14).
func (w *world) oldLeader() {
	old, a, b, ok := w.cast()
	if !ok {
		return
	}
	w.count("ordeal: an old leader")
	w.say("n%d, which leads, stands still and is cut off", old.id)
	old.eachLink(func(l *link, _ bool) { l.block() })
	w.after(2*ordealBound, func() { w.mend(old) })
	w.pauseNode(old, 2*ordealBound)
	at := len(w.committed)
	w.await(func() bool { return (a.up && a.leads || b.up && b.leads) && len(w.committed) > at+3 }, func() {
		asker := a
		if a.leads {
			asker = b
		}
		if !asker.up || !w.mayDoom(asker) {
			return
		}
		w.wreck(asker)
		w.await(func() bool { return asker.recovering }, func() {
			w.count("ordeal: an old leader is asked")
			w.say("n%d goes on, and hears n%d alone", old.id, asker.id)
			w.link(old, asker).unblock()
			w.link(asker, old).unblock()
			old.resume()
		})
	})
}

// wreckTwice lets a node lose its disk, recover and lose it again, while the third has a disk that takes nothing: what was committed in
// between is on the leader's disk alone, beside the one that is lost, and the checkpoint of the first time doesn't have it (C14).
func (w *world) wreckTwice() {
	leader, a, b, ok := w.cast()
	if !ok {
		return
	}
	w.count("ordeal: wrecked twice")
	w.hangDisk(b, 2*ordealBound)
	w.wreck(a)
	at := 0
	w.await(func() bool { return a.up && a.epoch != 0 }, func() {
		at = len(w.committed)
		w.await(func() bool { return len(w.committed) > at+5 && leader.leads }, func() {
			if a.up && w.mayDoom(a) {
				w.count("ordeal: wrecked again")
				w.wreck(a)
			}
		})
	})
}
