package oncemq

import "time"

// Event is a fact about the client's connection. Events are handed to Config.OnEvent in the order of the facts, from one goroutine;
// they carry values, not the Client, so that a handler can't re-enter.
type Event interface{ event() }

// Connected: a connection is open. Failover is false for the first one.
type Connected struct {
	// Addr is the node's address as dialled.
	Addr string
	// Failover: it replaces one that was lost.
	Failover bool
}

// Disconnected: the connection was lost or given up.
type Disconnected struct {
	// Addr is the node's address as dialled.
	Addr string
	// Err is why.
	Err error
}

// Reconnecting: the client tries another address, at once or after Delay.
type Reconnecting struct {
	// Attempt counts dials since the connection was lost, 1 and up.
	Attempt int
	// Delay is how long it waits before that.
	Delay time.Duration
}

// ReconnectFailed: one dial failed; the client goes on.
type ReconnectFailed struct {
	// Err is why.
	Err error
}

// AddressesChanged: the cluster named its nodes.
type AddressesChanged struct {
	// Addrs is the whole list from now on.
	Addrs []string
}

// Blocked: a sender has been without credit for a second while sends wait.
type Blocked struct {
	// Reason says which address.
	Reason string
}

// Unblocked: no sender waits for credit any more.
type Unblocked struct{}

// Closed: the client is closed, the last event.
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
