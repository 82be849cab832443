package engine

import (
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// Tick does what is due at now (an empty frame at half of the peer's idle-time-out; Close and the event Closed with ErrIdle
// after Config.IdleTimeout of silence) and says when to call it again; the zero time means never. Call it also after
// Opened, which brings the peer's idle-time-out.
func (c *Conn) Tick(now time.Time) (next time.Time) {
	if c.openIn == nil || !c.openOut || c.closeOut {
		return time.Time{}
	}
	if c.cfg.IdleTimeout > 0 {
		next = c.lastIn.Add(c.cfg.IdleTimeout)
		if !now.Before(next) {
			c.failFor(amqp.ErrCondResourceLimitExceeded, idleDescription, ErrIdle)
			return time.Time{}
		}
	}
	if c.peerIdle > 0 {
		beat := c.lastOut.Add(c.peerIdle / 2)
		if !now.Before(beat) {
			c.Heartbeat()
			c.lastOut = now // should the writer be slow: one empty frame an interval, not one a call
			beat = now.Add(c.peerIdle / 2)
		}
		if next.IsZero() || beat.Before(next) {
			next = beat
		}
	}
	return next
}

// Heartbeat queues an empty frame, if the connection is open and nothing else is to be written.
func (c *Conn) Heartbeat() {
	if c.openOut && !c.closeOut && len(c.out) == 0 && c.pending.s == nil {
		c.out = amqp.AppendFrame(c.out, 0, nil, nil)
	}
}
