// Package certs builds every tls.Config of the project, from PEM files: for the clients'
// listeners, for the client, and for connections between nodes, whose authority, certificates
// and join tokens it makes.
//
// Invariants: TLS 1.3 and nothing older; a peer's certificate is verified wherever one
// is asked for, of nodes against the cluster's authority, its id and the node's; files are read
// anew when they change, without a restart, and what was stays in use while they don't fit
// together. No text that this package makes shows a token's secret, but Token.Text.
//
// Callers: server's listeners and package peer through node, and the Go client. It must not know
// users, AMQP, raft or configuration flags.
package certs
