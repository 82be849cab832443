package client

import "time"

// EventKind says which fields of an Event hold.
type EventKind uint8

// The kinds.
const (
	// Finished: Op has ended.
	Finished EventKind = iota + 1
	// Queued: Op, which is a Send's, was handed to the connection or ended before: SendAsync returns.
	Queued
	// Available: Receiver has a delivery to take, or has failed.
	Available
	// Connected: Addr is connected; Failover unless it is the first connection.
	Connected
	// Disconnected: Addr was lost for Err.
	Disconnected
	// Reconnecting: dial number Attempt since the loss follows after Delay.
	Reconnecting
	// ReconnectFailed: a dial or its handshake failed for Err.
	ReconnectFailed
	// AddressesChanged: Addrs is the list from now on.
	AddressesChanged
	// Closed: the client is over, for Err or by Close.
	Closed
)

// Event is something that the driver passes on. Which fields hold says Kind.
type Event struct {
	Kind     EventKind
	Failover bool
	Op       *Op
	Receiver *Receiver
	Addr     string
	Addrs    []string
	Attempt  int
	Delay    time.Duration
	Err      error
}

// Next is the next event in order, false if there is none.
func (c *Core) Next() (Event, bool) {
	if c.nextEvent == len(c.events) {
		return Event{}, false
	}
	ev := c.events[c.nextEvent]
	c.events[c.nextEvent] = Event{}
	c.nextEvent++
	if c.nextEvent == len(c.events) {
		c.nextEvent, c.events = 0, c.events[:0]
	}
	return ev, true
}

func (c *Core) emit(ev Event) { c.events = append(c.events, ev) }

// available tells whose receiver it is that there is something to take.
func (c *Core) available(r *Receiver) {
	if c.asker != nil && c.asker.replies == r {
		c.asker.take()
		return
	}
	c.emit(Event{Kind: Available, Receiver: r})
}

// queued tells the driver that a send was handed over or is done with.
func (c *Core) queued(x *Send) {
	if x.then == nil {
		c.emit(Event{Kind: Queued, Op: &x.Op})
	}
}
