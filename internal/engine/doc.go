// Package engine is the AMQP 1.0 protocol between two peers as a pure step machine: bytes and calls go in, events and
// bytes come out. The broker's frontend and the Go client's core drive the same code, each from its own end.
//
// It does no I/O, reads no clock (the time is handed in), starts no goroutine and takes no lock: one goroutine owns a
// [Conn] and everything that hangs on it. It doesn't know what a queue, a transaction or a message is; it moves
// deliveries and says truthfully what became of them.
//
// # How it is driven
//
//	n, err := conn.Input(buf, now)            // what came from the socket; keep buf[n:] for the next call
//	for ev, ok := conn.Next(); ok; ev, ok = conn.Next() { … }
//	spare = write(conn.TakeOutput(spare, now)) // until it is empty
//	deadline := conn.Tick(now)                // heartbeats and idle time-outs; call again at deadline
//
// Input reports what arrived as events, in order, before it returns an error. Operations (Begin, Attach, Send, Dispose, …)
// only queue bytes or deliveries; TakeOutput hands them over.
//
// # Rules
//
//   - What the peer began, its user answers: an Event SessionBegun or LinkAttached of the peer's making waits for
//     Session.Begin, Link.Accept or Link.Refuse; LinkDetached, SessionEnded and Closed of the peer's making wait for
//     Link.Detach, Session.End and Conn.Close. The engine answers by itself only what breaks the protocol, an echo, a
//     heartbeat, and the session window.
//   - SessionEnded ends the session's links, Closed ends all sessions; there is no further event for those beneath.
//   - A server's Conn stops consuming input behind the peer's Open until its own Open is sent, and while
//     Config.MaxBacklog bytes wait to be taken ([Conn.Held]): the frames behind stay in the caller's buffer, to be handed in
//     again once Held is false.
//   - Transfers wait in order in their session's queue and become bytes only in TakeOutput (or Flush), as the peer's window, the
//     link's credit and Config.OutputLimit permit. Until its first frame is made a delivery can be withdrawn without a
//     trace; from when that frame is taken, [Delivery.Written] is true and it may be on the wire.
//   - An unsettled delivery stays in its session's table until either side settled it, its link was detached with
//     closed, or its session ended. Detach without closed keeps it: dispositions still take effect.
//   - Input never panics and never loops over what a peer merely claims. Each error names what it kills ([Error]).
//
// # Ownership
//
// Slices in events alias Input's buffer unless a field says otherwise and live until the next Input; who keeps one
// copies it. The exceptions: decoded performatives (Open, Begin, Attach) and a Delivery's Tag belong to the receiver for
// ever. Slices passed to operations are copied before the call returns, but for a payload's pieces (see Link.Send).
package engine
