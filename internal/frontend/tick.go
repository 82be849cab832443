package frontend

import (
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// When things that no event brings are looked at.
const (
	// pingTime is how often our client hears from us while an answer is due (design: silence, not latency, moves a client).
	pingTime = 500 * time.Millisecond
	// idleTick is the longest time between two ticks.
	idleTick = 5 * time.Second
	// watchTick is that of a connection with consumers or transactions: lease and lag.
	watchTick = time.Second
	// soonTick is that of one that waits for a lease or for credit.
	soonTick = 20 * time.Millisecond
	// shortTick is that of one whose senders wait for room.
	shortTick = 250 * time.Millisecond
	// leaseLoss and lagLimit close the connection [3.5, 3.8].
	leaseLoss = 5 * time.Second
	lagLimit  = 10 * time.Second
)

// WriteStuck tells since when a write has been waiting for the socket, and that it no longer does (zero time). After 2 s the
// connection's allowances are withdrawn [3.4].
func (c *Conn) WriteStuck(since time.Time) {
	c.stuckSince = since
	if !since.IsZero() {
		c.wakeBy(since.Add(stuckTime + time.Millisecond))
	}
}

// Wake is when Tick wants to be called; it may come nearer in any call of the connection.
func (c *Conn) Wake() time.Time { return c.wake }

func (c *Conn) wakeBy(t time.Time) { c.wake = earliest(c.wake, t) }

// Tick does what is due and says when to call it again (never the zero time), as Wake does.
func (c *Conn) Tick(now time.Time) (next time.Time) {
	c.now = now
	c.wake = time.Time{}
	c.wakeBy(c.tick(now))
	return c.wake
}

func (c *Conn) tick(now time.Time) (next time.Time) {
	next = now.Add(idleTick)
	next = earliest(next, c.eng.Tick(now))
	c.events()
	if c.phase == phaseOpening {
		if !c.deadline.After(now) {
			c.refuseOpen(nil)
		}
		return earliest(next, c.deadline)
	}
	if c.phase != phaseOpen || c.ended {
		return next
	}
	c.watch()
	if c.phase != phaseOpen {
		return now
	}
	next = earliest(next, c.expire())
	next = earliest(next, c.audit())
	next = earliest(next, c.ping())
	if len(c.starved) > 0 {
		c.feed()
		if len(c.starved) > 0 {
			next = earliest(next, now.Add(c.starvedTick()))
		}
	}
	if len(c.producers) > 0 {
		next = earliest(next, c.takeBack())
	}
	if len(c.ready) > 0 && !c.log.LeaseUntil().After(now) {
		next = earliest(next, now.Add(soonTick))
	}
	if len(c.consumers) > 0 || len(c.txs) > 0 || c.due > 0 {
		next = earliest(next, now.Add(watchTick))
	}
	return next
}

// watch closes the connection of a home that has been cut off, or lags too far, so that its client moves (C12).
func (c *Conn) watch() {
	if c.log.LeaseUntil().After(c.now) {
		c.noLease = time.Time{}
	} else if c.noLease.IsZero() {
		c.noLease = c.now
	}
	switch {
	case !c.noLease.IsZero() && c.now.Sub(c.noLease) >= leaseLoss:
		c.force("this node has no majority behind it: connect to another node", command.EndForced)
	case c.log.Lag() > lagLimit:
		c.force("this node lags behind: connect to another node", command.EndForced)
	}
}

// ping tells our client that we live, while an answer is due or something of its own is on the way: only under the lease, and while this replica keeps up.
func (c *Conn) ping() (next time.Time) {
	if !c.ours || c.due == 0 && !c.arriving {
		return next
	}
	if c.now.Sub(c.pinged) >= pingTime {
		c.pinged = c.now
		if c.log.LeaseUntil().After(c.now) && c.log.Lag() < stuckTime {
			c.eng.Heartbeat()
		}
	}
	return c.pinged.Add(pingTime)
}
