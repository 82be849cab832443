package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncemq/oncemq/internal/engine"
)

// phase is where the connection stands.
type phase uint8

const (
	phaseWaiting phase = iota // until retryAt
	phaseDialing
	phaseOpening // socket there, SASL and Open under way
	phaseOpen
	phaseClosing // our Close is sent
	phaseOver
)

// Socket says which socket should exist: its serial and address. 0: none. The driver dials a serial that it
// doesn't know, once, and closes any other socket.
func (c *Core) Socket() (serial uint32, addr string) {
	if c.phase == phaseWaiting || c.phase == phaseOver {
		return 0, ""
	}
	return c.serial, c.addrs[c.at]
}

func (c *Core) dial() {
	c.serial++
	c.dials++
	c.phase = phaseDialing
}

// Dialed tells how the dial of serial ended.
func (c *Core) Dialed(serial uint32, err error, now time.Time) {
	if serial != c.serial || c.phase != phaseDialing {
		return
	}
	if err != nil {
		c.broken(fmt.Errorf("dial %s: %w", c.addrs[c.at], err), now)
		return
	}
	c.phase = phaseOpening
	var mechanisms []engine.SASLMechanism
	if c.cfg.Mechanisms != nil {
		mechanisms = c.cfg.Mechanisms()
	}
	c.sasl = engine.NewSASLClient(engine.SASLClientConfig{Hostname: c.cfg.Hostname, Mechanisms: mechanisms})
	c.saslSays = true
	c.conn = engine.New(engine.Config{IdleTimeout: c.cfg.IdleTimeout, ChannelMax: 1023, HandleMax: 1023})
	c.due, c.dueSince, c.lastIn, c.bulk, c.slept, c.progress = true, now, now, false, false, false
	c.engineTick = time.Time{}
}

// Lost tells that the socket of serial broke.
func (c *Core) Lost(serial uint32, err error, now time.Time) {
	if serial != c.serial {
		return
	}
	switch c.phase {
	case phaseOpening, phaseOpen:
		c.broken(fmt.Errorf("connection to %s: %w", c.addrs[c.at], err), now)
	case phaseClosing:
		c.over(nil)
	default: // not the present socket's
	}
}

// broken gives the present dial or connection up and decides about the next.
func (c *Core) broken(err error, now time.Time) {
	was := c.phase
	c.lastErr = err
	if was == phaseOpen {
		c.emit(Event{Kind: Disconnected, Addr: c.addrs[c.at], Err: err})
		c.lostAt, c.dials = now, 0
	} else {
		c.emit(Event{Kind: ReconnectFailed, Err: err})
	}
	switch {
	case c.progress && was == phaseOpen, was == phaseOpen && now.Sub(c.openedAt) >= time.Second && !errors.Is(err, ErrSilent):
		c.failures = 0
	default:
		c.failures++
	}
	if c.progress {
		c.takeovers = 0
	}
	if errors.Is(err, ErrSilent) {
		c.takeovers++
	}
	c.conn, c.sasl, c.due, c.progress = nil, nil, false, false
	for _, s := range c.sessions {
		s.lost()
	}
	c.dropEnded()
	if c.closing {
		c.over(nil)
		return
	}
	if c.cfg.MaxElapsed > 0 && now.Sub(c.lostAt) >= c.cfg.MaxElapsed {
		c.fail(err)
		return
	}
	c.at = (c.at + 1) % len(c.addrs)
	c.retry(c.delay(), now)
}

// delay is how long to wait before the next dial: nothing until every address was tried, and nothing after the first two silent nodes.
func (c *Core) delay() time.Duration {
	rounds := max(c.failures/len(c.addrs), c.takeovers-1)
	if rounds <= 0 {
		return 0
	}
	d := c.cfg.MaxBackoff
	if rounds < 30 {
		d = min(d, c.cfg.MinBackoff<<(rounds-1))
	}
	return d/2 + time.Duration(c.rng.Int64N(int64(d/2)+1))
}

func (c *Core) retry(delay time.Duration, now time.Time) {
	c.emit(Event{Kind: Reconnecting, Attempt: c.dials + 1, Delay: delay})
	if delay == 0 {
		c.dial()
		return
	}
	c.phase, c.retryAt = phaseWaiting, now.Add(delay)
}

// Deadline is when to call Tick; the zero time: never. It changes with every other call.
func (c *Core) Deadline() time.Time {
	switch c.phase {
	case phaseWaiting:
		return c.retryAt
	case phaseOpening, phaseOpen:
		at := c.engineTick
		if c.due {
			if silent := c.silentAt(); at.IsZero() || silent.Before(at) {
				at = silent
			}
		}
		return at
	case phaseClosing:
		return c.silentAt() // the engine's timers mean nothing behind Close: Tick doesn't serve them
	default:
		return time.Time{}
	}
}

// silentAt is when the node has been silent for too long.
func (c *Core) silentAt() time.Time {
	since := c.lastIn
	if c.dueSince.After(since) {
		since = c.dueSince
	}
	return since.Add(c.cfg.Silence)
}

// oversleep is how late a Tick may come and still prove that it was the node that was silent, and how long the node's bytes then have to be read.
const oversleep = 500 * time.Millisecond

// overslept: it was this process that stood still, and what the node said meanwhile perhaps waits in the socket. It is believed once per connection
// and sign of life.
func (c *Core) overslept(now time.Time) bool {
	if c.slept || now.Sub(c.silentAt()) < oversleep {
		return false
	}
	c.slept, c.dueSince = true, now.Add(oversleep-c.cfg.Silence)
	return true
}

// Tick does what is due at now: the next dial, heartbeats, and the move away from a silent node (C4).
func (c *Core) Tick(now time.Time) {
	switch c.phase {
	case phaseWaiting:
		if !now.Before(c.retryAt) {
			c.dial()
		}
	case phaseOpening, phaseOpen:
		c.due = c.answerDue()
		if c.due && !now.Before(c.silentAt()) && !c.overslept(now) {
			c.broken(fmt.Errorf("connection to %s: %w", c.addrs[c.at], ErrSilent), now)
			return
		}
		if c.sasl == nil {
			c.engineTick = c.conn.Tick(now)
			c.handle(now)
		}
	case phaseClosing:
		if !now.Before(c.silentAt()) {
			c.over(nil)
		}
	default: // dialling and over: the driver has the next word
	}
}

// fail closes the client for an answer that no other node would give differently.
func (c *Core) fail(err error) {
	c.closeErr = err
	c.over(err)
}

// over ends everything.
func (c *Core) over(err error) {
	if c.phase == phaseOver {
		return
	}
	c.phase, c.conn, c.sasl, c.due = phaseOver, nil, nil, false
	if err == nil {
		err = ErrClosed
	}
	for _, s := range c.sessions {
		s.lost()
		s.fail(err)
	}
	c.sessions = nil
	if c.asker != nil {
		c.asker.fail(err)
	}
	c.emit(Event{Kind: Closed, Err: c.closeErr})
}
