// Package frontend is what AMQP means at this broker: the events of an engine.Conn become commands for the replicated
// log, and the effects of applied entries become operations on the engine.
//
// A [Conn] is pure: no socket, no goroutine, no clock. One goroutine, the connection's loop in package server, owns it,
// hands in bytes, effects, barrier answers and the time, and takes bytes out. [Node] is what the connections of a node
// share: the [Log], identity, access and quirks; it is safe for concurrent use.
//
// # Rules
//
//   - Nothing is answered before this node's replica has applied the entry that decides it (C14).
//   - The commands of one socket read are one record: they gather until [Conn.Flush].
//   - What was handed out waits here, not in the engine, until the socket takes it, so that "unwritten" is true (C8),
//     and it is given to the engine only under the node's lease [3.8].
//   - Every action asks [Node.Allow] first; the answer is no by default.
//   - State hands out against an allowance, never against link credit [3.4]; credit and drain stay here [4.6].
//
// It must not know raft, storage, sockets or goroutines. Only package server calls it.
package frontend
