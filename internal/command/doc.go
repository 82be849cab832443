// Package command is the vocabulary that the broker's two sides share with the
// replicated log: what a home node asks for (commands), how the leader packs it
// (entries and records), and what comes back once an entry is applied (effects).
//
// The encodings here are replicated and stored: docs/format/entry.md draws every
// byte. An encoding may only be changed under a new entry version, and an unknown
// version or command kind stops the node instead of being skipped, since skipping
// would make replicas differ (architecture.md, Versions).
//
// Callers: frontend and admin build commands; replica packs and ships them;
// state decodes and applies them and answers with effects, which frontend
// receives. The package does no I/O, reads no clock, draws no random number and
// starts no goroutine; values are not safe for concurrent mutation. It must not
// know AMQP frames, Pebble keys or raft.
package command
