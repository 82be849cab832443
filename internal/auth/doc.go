// Package auth decides who a client is: names and passwords of users, the SASL
// mechanisms' exchanges (SCRAM of RFC 5802 and 7677, PLAIN of RFC 4616, EXTERNAL of
// RFC 4422), and how long somebody who guesses has to wait.
//
// Invariants: a password is never stored, logged or part of an error; of what comes
// from outside nothing but names is repeated, and those quoted. Whoever asks about a
// user that doesn't exist sees the same as for one that does. Secrets are compared in
// constant time.
//
// Callers: server runs a listener's exchanges, node makes the keys of users, the Go
// client takes its side of SCRAM. The package decides on values and does no I/O: users
// are found by a function of the caller's, time is a value, and salts are drawn by the
// caller; only SCRAM's nonces come from crypto/rand, within the library. It must not
// know AMQP frames, TLS or the replicated log.
package auth
