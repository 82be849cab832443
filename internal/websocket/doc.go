// Package websocket carries AMQP over WebSocket (RFC 6455), subprotocol "amqp": it makes of a socket, behind its TLS layer where there is
// one, another net.Conn whose bytes are the payload of binary messages. Both sides are here, for package server and for the Go client.
//
// # Invariants
//
//   - Messages are nothing but pieces of one stream of bytes: their bounds mean nothing, neither way.
//   - Nothing is compressed, so no peer can make much of little; no size that a peer declares is allocated.
//   - Time is the caller's: the deadlines of a Conn are those of its socket, in the handshake too.
//   - A request from a web page of another host is refused, unless it is among the origins that were permitted: a browser sends it with
//     whatever its user may do, in particular on this machine.
//
// It must not know AMQP, SASL or TLS.
package websocket
