package oncemq

import (
	"log/slog"
	"time"

	"github.com/oncemq/oncemq/internal/client"
)

// Event is a fact about the client's connection. Events are handed to Config.OnEvent in the order of the facts, from one goroutine;
// they carry values, not the Client, so that a handler can't re-enter.
type Event interface{ event() }

// Connected tells that a connection is open. Failover is false for the first one.
type Connected struct {
	// Addr is the node's address as dialled.
	Addr string
	// Failover: it replaces one that was lost.
	Failover bool
}

// Disconnected tells that the connection was lost or given up.
type Disconnected struct {
	// Addr is the node's address as dialled.
	Addr string
	// Err is why.
	Err error
}

// Reconnecting tells that the client tries another address, at once or after Delay.
type Reconnecting struct {
	// Attempt counts dials since the connection was lost, 1 and up.
	Attempt int
	// Delay is how long it waits before that.
	Delay time.Duration
}

// ReconnectFailed tells that one dial failed; the client goes on.
type ReconnectFailed struct {
	// Err is why.
	Err error
}

// AddressesChanged tells that the cluster named its nodes.
type AddressesChanged struct {
	// Addrs is the whole list from now on.
	Addrs []string
}

// Blocked tells that a node gives no credit to a sender whose sends wait. This version never tells it.
type Blocked struct {
	// Reason says which address.
	Reason string
}

// Unblocked tells that no sender waits for credit any more. This version never tells it.
type Unblocked struct{}

// Closed tells that the client is closed, the last event.
type Closed struct {
	// Err is nil after Client.Close, else why the client gave up.
	Err error
}

func (Connected) event()        {}
func (Disconnected) event()     {}
func (Reconnecting) event()     {}
func (ReconnectFailed) event()  {}
func (AddressesChanged) event() {}
func (Blocked) event()          {}
func (Unblocked) event()        {}
func (Closed) event()           {}

// tell queues an event of the core's. Called with mu held.
func (d *driver) tell(ev client.Event) {
	var e Event
	switch ev.Kind {
	case client.Connected:
		e = Connected{Addr: ev.Addr, Failover: ev.Failover}
		d.isUp()
	case client.Disconnected:
		e = Disconnected{Addr: ev.Addr, Err: public(ev.Err)}
	case client.Reconnecting:
		e = Reconnecting{Attempt: ev.Attempt, Delay: ev.Delay}
	case client.ReconnectFailed:
		e = ReconnectFailed{Err: public(ev.Err)}
	case client.AddressesChanged:
		e = AddressesChanged{Addrs: ev.Addrs}
	case client.Closed:
		e = Closed{Err: public(ev.Err)}
		d.isUp()
	default:
		return
	}
	d.queue = append(d.queue, e)
	poke(d.notify)
}

// isUp lets Dial return.
func (d *driver) isUp() {
	if !d.first {
		d.first = true
		d.up.finished()
	}
}

// events hands events to the application and the logger, until Closed.
func (d *driver) events() {
	defer d.wg.Done()
	for range d.notify {
		d.mu.Lock()
		queue := d.queue
		d.queue = nil
		d.mu.Unlock()
		for _, e := range queue {
			d.log(e)
			if d.cfg.OnEvent != nil {
				d.cfg.OnEvent(e)
			}
			if _, last := e.(Closed); last {
				return
			}
		}
	}
}

func (d *driver) log(e Event) {
	log := d.cfg.Logger
	if log == nil {
		return
	}
	log = log.With(slog.String("client", d.cfg.ClientID))
	switch e := e.(type) {
	case Connected:
		log.Debug("connected", "addr", e.Addr, "failover", e.Failover)
	case Disconnected:
		log.Warn("connection lost", "addr", e.Addr, "err", e.Err)
	case Reconnecting:
		log.Debug("reconnecting", "attempt", e.Attempt, "delay", e.Delay)
	case ReconnectFailed:
		log.Debug("reconnect failed", "err", e.Err)
	case AddressesChanged:
		log.Debug("addresses changed", "addrs", e.Addrs)
	case Closed:
		log.Debug("closed", "err", e.Err)
	}
}
