// Package replica is a node's part in the replicated log: it takes commands from the
// connections that live here, gets them through the leader onto the disks of a
// majority, applies them to the state machine in order, and hands the effects back. It
// is the only importer of raft.
//
// The way of a command: [Replica.Propose] (propose.go) numbers it in the node's
// unbroken sequence [1.1] and keeps it until this replica has applied it; the leader
// (pack.go) packs the records of all nodes into entries and stamps them (clock.go);
// raft's output is routed in ready.go; append.go writes the log, one sync for whatever
// has gathered; apply.go applies, writes the changes to the store and delivers the
// effects.
//
// Invariants:
//
//   - Nothing is answered before a majority has it on disk (C14), unless the directory
//     is marked "safety off" (safety.go says what then happens).
//   - A failed write or sync is final: Options.Fatal is called and has to end the process.
//   - Effects reach the [Mailbox] in log order, after their entry's changes were handed
//     to the store, and only those of this node's present epoch.
//   - The queues from the storage goroutines back to raft are unbounded; a bound there
//     deadlocks (raft waits for the append queue while the append waits for raft).
//
// What decides are step functions, values in and values out: core.step and core.ready
// (raft), appender.step, applier.step. What surrounds them is one body too (steps.go): queues,
// and who gets what a step puts out. [Replica] drives it with a thin goroutine for each step
// (drive.go), [Stepper] leaves that to its caller, so that a simulator runs a cluster in one.
//
// Callers: the process (cmd/oncemq, tests) opens, runs and stops it; frontend proposes
// through an interface of its own; admin asks through the process. The package must not
// know AMQP, nor what commands mean beyond those of the node itself.
package replica
