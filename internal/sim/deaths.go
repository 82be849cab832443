package sim

import (
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// lastWord lets a node die right behind something that it wrote to a client: the answer arrives, and has to be true without the
// node (C14).
func (w *world) lastWord(n *node, steps int) {
	if n.up {
		n.writes = 1 + steps%16
	}
}

// wrote counts writes to clients down to the last one.
func (n *node) wrote() {
	if n.writes == 0 {
		return
	}
	if n.writes--; n.writes > 0 {
		return
	}
	n.after(0, func() {
		n.w.count("died behind an answer")
		n.crash(false)
		n.restartLater()
	})
}

// flap lets a node die again and again, each time soon after it got an epoch, and come back at once, while the other nodes'
// disks are slow: what it said in a former life may still be on its way to the log [1.2].
func (w *world) flap(n *node, steps int) {
	if !n.up || len(w.nodes) == 1 {
		return
	}
	w.count("flapping node")
	n.flaps = 2 + steps%3
	for _, other := range w.nodes {
		if other != n {
			other.slow = w.between(50*time.Millisecond, 600*time.Millisecond)
			w.after(4*time.Second, func() { other.slow = 0 })
		}
	}
	n.crash(false)
	n.backAtOnce()
}

// flapped plans the next death of a node that has got its epoch.
func (n *node) flapped() {
	if n.flaps == 0 {
		return
	}
	n.flaps--
	n.after(n.w.between(time.Millisecond, 500*time.Millisecond), func() {
		n.crash(false)
		n.backAtOnce()
	})
}

// backAtOnce starts the process again within a few milliseconds.
func (n *node) backAtOnce() {
	life := n.life
	n.w.after(n.w.between(time.Millisecond, 10*time.Millisecond), func() {
		if n.life == life && !n.up {
			n.start()
		}
	})
}

// standStill stops the first node that has a hand-out in its hands, for as long as it takes the others to give its epoch up:
// the message goes to somebody else, and the node must not write it any more [3.8].
func (w *world) standStill(steps int) {
	w.stands = 1700*time.Millisecond + time.Duration(steps)*50*time.Millisecond
}

// stood begins that, if one of the effects is a hand-out.
func (n *node) stood(effects []command.Effect) {
	if n.w.stands == 0 || n.paused || n.w.calm {
		return
	}
	for i := range effects {
		if effects[i].Kind == command.EffectDeliver {
			n.w.count("stood still with a hand-out")
			n.w.pauseNode(n, n.w.stands)
			n.w.stands = 0
			return
		}
	}
}
