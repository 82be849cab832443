// Package export is messages as JSON lines: out of a queue, through the admin API and without any effect on it, and into one, over AMQP
// in transactions.
//
// Invariants: a line holds all of a message, whatever AMQP types are in it (a message that the sections of a line can't say exactly stands in it
// encoded as well); a queue's messages come in its order, each that is there throughout exactly once; what an import says is
// in, is committed.
//
// cmd/oncemq calls it. It must not know storage, raft or the state.
package export
