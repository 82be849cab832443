// Package certs builds every tls.Config of the project, from PEM files: for listeners
// and for the client.
//
// Invariants: TLS 1.3 and nothing older; a peer's certificate is verified wherever one
// is asked for; a listener reads its files anew when they change, without a restart,
// and goes on with what it had while they don't fit together.
//
// Callers: server's listeners through node, and the Go client. It must not know users,
// AMQP or configuration flags.
package certs
