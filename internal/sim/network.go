package sim

import "time"

// Times of package peer's network, as its code and the kernel have them.
const (
	redialFirst = 5 * time.Millisecond
	redialLast  = 250 * time.Millisecond
)

// link is what a node sends to a peer: two ordered streams, up or down together. The other direction is the peer's own link.
// A stream's frames never overtake each other, but where the seed's network isn't TCP.
type link struct {
	w        *world
	from, to *node
	up       bool
	epoch    int // rises with every loss: what was under way is lost with it

	arrives [2]time.Duration // of the last frame, by stream
	blocked bool             // one way of a partition: what is sent waits, as in a TCP that goes on repeating
	frames  [2][][]byte      // on their way, in order
	held    [2]int           // frames whose time came while the link was blocked
	gone    bool             // PeerGone was called since the loss
	refused bool             // with refused
	dialing bool
}

// send queues a frame; false: the link is down.
func (l *link) send(urgent bool, frame []byte) bool {
	if !l.up {
		return false
	}
	s := 0
	if urgent {
		s = 1
	}
	if l.w.sent != nil && l.w.sent(l, s, frame) {
		return true
	}
	l.carry(s, frame)
	return true
}

// carry lets a frame arrive, or does to it what the seed's network does.
func (l *link) carry(s int, frame []byte) {
	w := l.w
	delay := w.between(w.knobs.nodeDelay[0], w.knobs.nodeDelay[1])
	if w.wild() {
		switch {
		case w.chance(w.knobs.drop):
			w.count("node frame dropped")
			return
		case w.chance(w.knobs.duplicate):
			w.count("node frame duplicated")
			l.stray(s, frame, delay*3)
		case w.chance(w.knobs.reorder):
			w.count("node frame overtaken")
			l.stray(s, frame, delay*10)
			return
		case w.rng.IntN(1000) < w.knobs.corrupt:
			w.count("node frame corrupted")
			frame = append([]byte(nil), frame...)
			frame[w.rng.IntN(len(frame))] ^= 1 << w.rng.IntN(8)
		}
	}
	l.frames[s] = append(l.frames[s], frame)
	l.move(s, delay)
}

// stray lets a frame arrive out of its stream's order.
func (l *link) stray(s int, frame []byte, delay time.Duration) {
	l.later(delay, func() {
		if l.blocked {
			l.frames[s] = append(l.frames[s], frame)
			l.held[s]++
			return
		}
		l.deliver(frame)
	})
}

// move plans the arrival of one frame of a stream: of the first that is there then.
func (l *link) move(s int, delay time.Duration) {
	l.arrives[s] = max(l.arrives[s], l.w.now+delay)
	l.later(l.arrives[s]-l.w.now, func() {
		if l.blocked {
			l.held[s]++
			return
		}
		frame := l.frames[s][0]
		l.frames[s] = l.frames[s][1:]
		l.deliver(frame)
	})
}

// later plans f, unless the link is lost before.
func (l *link) later(d time.Duration, f func()) {
	epoch := l.epoch
	l.w.after(d, func() {
		if l.epoch == epoch {
			f()
		}
	})
}

// deliver gives a frame to the peer's process, once it isn't paused.
func (l *link) deliver(frame []byte) {
	epoch := l.epoch
	l.to.run(l.to.life, func() {
		if l.epoch != epoch {
			return
		}
		l.w.mix(frame)
		if err := l.to.step.Receive(uint64(l.from.id), frame); err != nil {
			l.w.say("n%d breaks the stream from n%d: %v", l.to.id, l.from.id, err)
			l.lose()
			return
		}
		l.to.kick()
	})
}

// silent: the peer's machine is off. The sender's TCP gives up after a while.
func (l *link) silent() {
	epoch := l.epoch
	l.w.after(l.w.between(time.Second, 10*time.Second), func() {
		if l.epoch == epoch {
			l.lose()
		}
	})
}

// block begins one way of a partition. If it lasts, the sender's TCP gives up.
func (l *link) block() {
	if l.blocked {
		return
	}
	l.blocked = true
	epoch := l.epoch
	l.w.after(l.w.between(time.Second, 10*time.Second), func() {
		if l.blocked && l.epoch == epoch {
			l.lose()
		}
	})
}

// unblock ends it; what waits arrives, late.
func (l *link) unblock() {
	if !l.blocked {
		return
	}
	l.blocked = false
	held := l.held
	l.held = [2]int{}
	for s, n := range held {
		for range n {
			l.move(s, l.w.between(l.w.knobs.nodeDelay[0], l.w.knobs.nodeDelay[1]))
		}
	}
}

// lose breaks the link: the sender is told, and dials anew.
func (l *link) lose() {
	if !l.up {
		return
	}
	l.drop()
	l.w.count("node stream lost")
	l.from.after(l.w.between(0, 2*time.Millisecond), func() {
		l.from.step.PeerLost(uint64(l.to.id))
		l.from.kick()
		l.dial(redialFirst)
	})
}

// drop forgets what is under way.
func (l *link) drop() {
	l.up = false
	l.epoch++
	l.frames, l.held = [2][][]byte{}, [2]int{}
	l.arrives = [2]time.Duration{}
	l.gone, l.refused, l.dialing = false, false, false
}

// redial dials soon, whatever pause was planned: the peer has shown that it is there.
func (l *link) redial() {
	if l.up || !l.from.up {
		return
	}
	l.epoch++
	l.dialing = false
	l.dial(redialFirst)
}

// dial tries to get the link up after a while, and again until it is.
func (l *link) dial(pause time.Duration) {
	if l.up || l.dialing {
		return
	}
	l.dialing = true
	epoch := l.epoch
	l.from.after(pause, func() {
		if l.epoch != epoch || l.up {
			return
		}
		l.dialing = false
		back := l.w.link(l.to, l.from)
		cut := l.blocked || back.blocked
		switch {
		case l.to.up && !cut && !l.to.paused:
			if l.stranger() {
				return
			}
			l.up = true
			l.w.say("n%d reaches n%d", l.from.id, l.to.id)
			l.from.step.PeerUp(uint64(l.to.id))
			l.from.kick()
			return
		case !l.to.up && !cut && !l.to.dark && !l.refused:
			l.gone, l.refused = true, true
			l.from.step.PeerGone(uint64(l.to.id), true)
			l.from.kick()
		case (cut || l.to.dark || l.to.paused) && !l.gone:
			l.gone = true
			l.from.step.PeerGone(uint64(l.to.id), false)
			l.from.kick()
		}
		l.dial(l.w.between(redialFirst, redialLast))
	})
}

// link is what from sends to.
func (w *world) link(from, to *node) *link { return w.links[from.id-1][to.id-1] }

// eachLink calls f for all links that a node has to or from others.
func (n *node) eachLink(f func(l *link, outgoing bool)) {
	for _, other := range n.w.nodes {
		if other != n {
			f(n.w.link(n, other), true)
			f(n.w.link(other, n), false)
		}
	}
}
