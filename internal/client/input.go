package client

import (
	"time"

	"github.com/oncemq/oncemq/internal/engine"
)

// Input takes bytes that came over the socket of serial and says how many it consumed; the rest is to be handed in again with
// more behind it. false: that socket isn't wanted any more.
func (c *Core) Input(serial uint32, b []byte, now time.Time) (consumed int, wanted bool) {
	if !c.has(serial) {
		return len(b), false
	}
	if len(b) > 0 {
		c.lastIn, c.slept = now, false
	}
	if c.sasl != nil {
		n, err := c.sasl.Input(b)
		consumed, c.saslSays = n, true
		if err != nil {
			c.saslFailed(err, now)
			return len(b), false
		}
		if !c.sasl.Done() {
			return consumed, true
		}
		c.sasl = nil
		if err := c.sendOpen(); err != nil {
			c.broken(err, now)
			return len(b), false
		}
	}
	n, err := c.conn.Input(b[consumed:], now)
	consumed += n
	c.handle(now)
	if !c.has(serial) {
		return consumed, false
	}
	if err != nil {
		c.broken(err, now)
		return consumed, false
	}
	c.engineTick = c.conn.Tick(now)
	if c.due && c.phase != phaseClosing {
		c.due = c.answerDue()
	}
	return consumed, true
}

// has says that serial is the present socket and can carry bytes.
func (c *Core) has(serial uint32) bool {
	return serial == c.serial && c.conn != nil && (c.phase == phaseOpening || c.phase == phaseOpen || c.phase == phaseClosing)
}

// TakeOutput hands over bytes to be written to the socket of serial, empty if there are none. spare is the next buffer. The
// result may be given back as spare when it is written.
func (c *Core) TakeOutput(serial uint32, spare []byte, now time.Time) []byte {
	if !c.has(serial) {
		return nil
	}
	if c.sasl != nil {
		c.saslSays = false
		return c.sasl.TakeOutput(spare)
	}
	out := c.conn.TakeOutput(spare, now)
	if len(out) > 0 {
		switch {
		case c.phase != phaseOpen:
		case !c.due:
			c.due, c.dueSince = c.answerDue(), now
		case c.bulk:
			c.dueSince = now // the last piece was written: the node reads, and can't answer what it hasn't got yet
		}
		c.bulk = c.conn.Backlog() > 0
	}
	return out
}

// HasOutput says that TakeOutput would give bytes.
func (c *Core) HasOutput() bool {
	if c.sasl != nil {
		return c.saslSays
	}
	return c.conn != nil && c.conn.HasOutput()
}

// handle works the engine's events off and moves on what they let.
func (c *Core) handle(now time.Time) {
	for c.conn != nil {
		ev, ok := c.conn.Next()
		if !ok {
			break
		}
		c.dispatch(ev, now)
	}
	if c.phase == phaseOpen {
		for _, s := range c.sessions {
			if s.dirty {
				s.pump()
			}
		}
		c.dropEnded()
	}
}

func (c *Core) dispatch(ev engine.Event, now time.Time) {
	switch ev.Kind {
	case engine.Opened:
		c.opened(ev.Open, now)
	case engine.Closed:
		c.closed(ev.Err, now)
	case engine.SessionBegun:
		if s, ok := ev.Session.Data.(*Session); ok && s.on == ev.Session {
			s.begun(ev.Begin)
			s.dirty = true
		} else {
			_ = ev.Session.End(nil) // no broker begins a session
		}
	case engine.SessionEnded:
		if s, ok := ev.Session.Data.(*Session); ok && s.on == ev.Session {
			s.ended(ev.Err, now)
		}
	default:
		c.dispatchLink(ev)
	}
}

// terminus is what hangs on an engine link: a Sender, a Receiver or a coordinator.
type terminus interface {
	attached(ev *engine.Event)
	detached(ev *engine.Event)
	moved(ev *engine.Event) // everything else
	present() *engine.Link
	owner() *Session
}

func (c *Core) dispatchLink(ev engine.Event) {
	if ev.Link == nil {
		return
	}
	t, ok := ev.Link.Data.(terminus)
	if !ok || t.present() != ev.Link {
		switch ev.Kind {
		case engine.LinkAttached: // no broker attaches links
			if !ev.Link.Local() {
				_ = ev.Link.Detach(true, nil)
			}
		case engine.LinkDetached:
			_ = ev.Link.Detach(true, nil)
		default: // late, for a link that is given up
		}
		return
	}
	t.owner().dirty = true
	switch ev.Kind {
	case engine.LinkAttached:
		t.attached(&ev)
	case engine.LinkDetached:
		t.detached(&ev)
	default:
		t.moved(&ev)
	}
}

// answerDue says whether the node owes us anything: silence then means that it is gone (C4).
func (c *Core) answerDue() bool {
	if c.phase != phaseOpen {
		return c.phase == phaseOpening || c.phase == phaseClosing
	}
	for _, s := range c.sessions {
		if s.answerDue() {
			return true
		}
	}
	return false
}
