package sim

import (
	"encoding/binary"
	"time"
)

// handOut is the newest hand-out of a message that anybody has got.
type handOut struct {
	attempt uint32
	at      time.Duration
	to      *agent
}

// attemptOf is the last part of a delivery-tag of ours, behind incarnation and message (wire.md).
func attemptOf(tag []byte) uint32 {
	if len(tag) != 20 {
		return 0
	}
	return binary.BigEndian.Uint32(tag[16:])
}

// handedOut is K11: once somebody has a newer hand-out of a message, no node writes an older one [3.8]. What was on its way, or
// lay at a client that stood still or has lost its connection, may come late. It came to the client at arrived or later: what that has
// asked for in advance lies there for as long as it is busy.
func (w *world) handedOut(a *agent, m *message, queue string, attempt uint32, arrived time.Duration) {
	if queue != m.queue {
		return
	}
	last := &m.newest
	if attempt >= last.attempt {
		*last = handOut{attempt, w.now, a}
		return
	}
	w.count("late hand-out")
	onItsWay := w.knobs.clientDelay[1] + time.Millisecond
	if a.sock == nil || a.away || a.sock.late() || a.wentOn > last.at || arrived <= last.at+onItsWay {
		return
	}
	w.fail("K11", "%s got hand-out %d of %s %v after %s got hand-out %d", a.name, attempt, m.id, arrived-last.at, last.to.name, last.attempt)
}
