package sim

import (
	"errors"
	"time"

	"github.com/oncemq/oncemq/internal/store"
)

// diskFault draws what a disk does. At the first error the process must end, and answer nothing that rests on what failed (C14).
func (w *world) diskFault(n *node, lasts time.Duration, steps int) {
	if !n.up {
		return
	}
	kind := steps % 8
	if n.disk.real != nil && w.rng.IntN(3) == 0 {
		kind = []int{4, 7}[steps%2] // what only a real disk can show
	}
	switch kind {
	case 0, 1, 2, 4:
		w.failDisk(n, kind, steps, lasts)
	case 3:
		w.hangDisk(n, lasts)
	case 5:
		w.lie(n, lasts)
	case 6:
		if n.disk.real == nil {
			w.wreck(n)
			return
		}
		w.lie(n, lasts)
	default:
		w.flip(n)
		w.wreck(n)
	}
}

// failDisk lets a disk fail once, for ever or for want of space, or lose its power within a write.
func (w *world) failDisk(n *node, kind, steps int, lasts time.Duration) {
	if kind == 2 {
		w.fillDisk(n, lasts)
		return
	}
	w.say("n%d's disk fails", n.id)
	n.ill = true
	switch kind {
	case 0:
		n.disk.Fail(1)
	case 1:
		w.count("disk fails for ever")
		n.disk.FailForever()
	default:
		w.count("power lost within a write")
		n.disk.Unplug(1 + steps/8)
		n.powerless = true
	}
}

// fillDisk leaves no room on a disk for a while: its node waits, and has to go on with everything when there is some again.
func (w *world) fillDisk(n *node, lasts time.Duration) {
	w.count("disk full")
	w.say("n%d's disk is full for %v", n.id, lasts)
	n.disk.Fill()
	w.after(lasts, n.disk.Empty)
}

// hangDisk lets writes answer nothing, for a while.
func (w *world) hangDisk(n *node, lasts time.Duration) {
	w.count("disk hangs")
	w.say("n%d's disk hangs for %v", n.id, lasts)
	n.hung = true
	life := n.life
	w.after(lasts, func() {
		if n.life == life {
			n.hung = false
		}
	})
}

// mayDoom says that a node's disk may lose for good what it called durable: one node's in a world, for two of three that forget are
// a majority, and nothing can be promised then.
func (w *world) mayDoom(n *node) bool {
	return len(w.founders) > 1 && !w.lonely && w.lost == nil && !n.gone && !n.removed && (w.doomed == nil || w.doomed == n)
}

// lie lets a disk's syncs do nothing for a while, and then takes the power away.
func (w *world) lie(n *node, lasts time.Duration) {
	if !w.mayDoom(n) {
		return
	}
	w.doomed = n
	w.count("disk lies")
	w.say("n%d's disk lies", n.id)
	n.disk.Lie()
	w.after(lasts, func() {
		if n.up && n.disk.Unsynced() && !w.calm {
			n.crash(true)
		}
	})
}

// flip ends a node, changes a bit of its disk, and starts it again.
func (w *world) flip(n *node) {
	if n.disk.real == nil || !w.mayDoom(n) {
		return
	}
	n.crash(w.chance(50))
	if n.held {
		return // it lied as well
	}
	where, err := n.disk.real.flip(n.disk)
	if err != nil {
		w.fail("K9", "n%d: a bit can't be changed: %v", n.id, err)
		return
	}
	w.doomed = n
	n.flipped = true
	w.count("bit flipped")
	w.say("n%d's disk has a wrong bit: %s", n.id, where)
	n.hold()
}

// hold keeps a node down whose disk may have forgotten something, until nobody needs it for that.
func (n *node) hold() {
	n.disk.Heal()
	n.held = true
	life := n.life
	var look func()
	look = func() {
		if n.life != life {
			return
		}
		if !n.w.caughtUp(n) {
			n.w.after(100*time.Millisecond, look)
			return
		}
		n.held = false
		n.start()
	}
	n.w.after(n.w.between(n.w.knobs.restart[0], n.w.knobs.restart[1]), look)
}

// isDamage says that an error tells of lost or wrong data.
func isDamage(err error) bool {
	return errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrForeign) || errors.Is(err, store.ErrVersion)
}

// unfit handles the error of a node that can't start, or go on, for its disk; false: nothing is wrong with the disk.
func (n *node) unfit(step string, err error) bool {
	switch {
	case (n.forgot || n.flipped) && isDamage(err):
		what := "forgotten data"
		if n.flipped {
			what = "wrong bit"
		}
		n.w.count(what + " found out")
		if n.recovers() {
			return true
		}
		n.w.say("n%d ends for good: %s: %v", n.id, step, err)
		n.gone = true
		n.crash(false)
		return true
	case n.ill && step == "start" && errors.Is(err, store.ErrDisk):
		n.w.count("start on a failing disk")
		n.w.say("n%d can't start: %v", n.id, err)
		n.crash(false)
		n.disk.Heal()
		n.ill = false
		n.restartLater()
		return true
	}
	return false
}

// cutTail counts what a start had to make of the end of a log.
func (w *world) cutTail(n *node, left store.Left) {
	for _, c := range []struct {
		is   bool
		what string
	}{
		{left.Lost, "unsynced data lost"},
		{left.Torn, "torn tail cut"},
		{left.Reordered, "reordered tail cut"},
		{left.Zeros, "zeros at a log's end"},
		{left.Names, "unsynced name lost"},
	} {
		if c.is {
			w.count(c.what)
		}
	}
	w.say("n%d has lost unsynced data: %+v", n.id, left)
}

// checkForgotten: a node that has forgotten what it had acknowledged has found out, or was filled in by another leader.
func (w *world) checkForgotten() {
	for _, n := range w.nodes {
		if !n.forgot || !n.up {
			continue
		}
		if at := n.step.Status().Applied; at < w.settled {
			w.fail("K9", "n%d has forgotten what it had acknowledged, and goes on at entry %d of %d", n.id, at, w.settled)
		} else {
			w.count("forgotten data filled in")
		}
	}
}
