package engine

import "time"

// TakeOutput hands over the bytes to be written now and takes spare, if it has capacity, as its next buffer: the
// result is the caller's and may be given back as spare once it is written. It makes frames of waiting transfers until
// Config.OutputLimit. An empty result means that there is nothing to write. The deliveries whose first frame is in the
// result are Written from now on.
func (c *Conn) TakeOutput(spare []byte, now time.Time) []byte {
	c.reopen()
	c.Flush()
	b := c.out
	if len(b) == 0 {
		if cap(spare) > cap(c.out) {
			c.out = spare[:0]
		}
		return nil
	}
	c.taken += uint64(len(b))
	c.out, c.lazy = spare[:0], 0
	c.lastOut = now
	return b
}

// Flush makes frames of waiting transfers now, as far as window, credit and Config.OutputLimit permit, which TakeOutput does
// otherwise: a frame asked for afterwards, such as a disposition, stands behind each delivery that is Sent then.
func (c *Conn) Flush() {
	c.flush()
	c.pump()
}

// HasOutput says that TakeOutput may give bytes; false means that it gives none.
func (c *Conn) HasOutput() bool {
	return len(c.out) > 0 || c.pending.s != nil || len(c.sendable) > 0 || len(c.reopening) > 0
}

// Lazy says that TakeOutput has only what DisposeLazily asked for, which may as well go with the next that comes.
func (c *Conn) Lazy() bool {
	return c.lazy == len(c.out) && (c.pending.s == nil || c.pending.lazy) && len(c.sendable) == 0 && len(c.reopening) == 0
}

// Backlog is how many bytes wait: frames made and not taken, and the payload of deliveries that are not frames yet.
func (c *Conn) Backlog() int { return len(c.out) + c.waiting }

// Pressing is the part of Backlog that may be written now: without what waits for windows and credit of the peer's.
func (c *Conn) Pressing() int {
	n := len(c.out)
	for _, s := range c.sendable {
		n += s.held
	}
	return n
}

// Taken is how many bytes TakeOutput has handed over in all; Delivery.End is a position in the same count.
func (c *Conn) Taken() uint64 { return c.taken }

// position is where the next frame will begin in the count of Taken.
func (c *Conn) position() uint64 { return c.taken + uint64(len(c.out)) }

// pump makes frames of waiting deliveries, one delivery of each session in turn, as far as they may go.
func (c *Conn) pump() {
	for len(c.sendable) > 0 && len(c.out) < c.cfg.OutputLimit {
		c.turn %= len(c.sendable)
		s := c.sendable[c.turn]
		if s.sendNext() {
			c.turn++
			continue
		}
		s.inSendable = false
		c.sendable = append(c.sendable[:c.turn], c.sendable[c.turn+1:]...)
	}
}

// wake lets pump look at the session again.
func (s *Session) wake() {
	if !s.inSendable && s.peerWindow > 0 && s.queue.len() > 0 && !s.over() {
		s.inSendable = true
		s.conn.sendable = append(s.conn.sendable, s)
	}
}
