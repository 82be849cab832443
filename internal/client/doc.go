// Package client is the Go client's core: connection, sessions, numbers, resend,
// replay and resolve, as a step machine. Bytes and calls go in, events and bytes come
// out. The root package drives it with goroutines and sockets, a simulator in one
// goroutine.
//
// It does no I/O, reads no clock (the time is handed in) and starts no goroutine; one
// caller at a time owns a [Core] and all that hangs on it. It doesn't know what a
// message holds (but for the requests to $oncemq.outcome).
//
// # How it is driven
//
//	serial, addr := core.Socket()        // the socket that should exist; dial it, drop any other
//	core.Dialed(serial, err, now)        // what the dial brought
//	n, ok := core.Input(serial, b, now)  // what came; keep b[n:]
//	out := core.TakeOutput(serial, spare, now)
//	core.Lost(serial, err, now)          // the socket broke
//	core.Tick(now)                       // at core.Deadline()
//	for ev, ok := core.Next(); ok; …     // after each of these and after each operation
//
// # Invariants
//
//   - An outcome is reported once and is true: Committed and RolledBack come from the broker, or RolledBack from the fact that no
//     discharge that commits was ever handed to a socket (contract C4, C10).
//   - A number is taken when a transfer is handed to the engine, and is used again only for the same message.
//   - "Known through" (C2) never passes a transaction without an answer; one whose definite result
//     no caller has seen is named as unknown.
//   - What is not finished survives the loss of a connection, unless the session is gone.
package client
