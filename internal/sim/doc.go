// Package sim runs a whole cluster in one goroutine from one seed: the real state, replica (raft included), frontend, engine
// and client.Core, on simulated disks, with a simulated network, clock and clients. Nothing in it waits: every message, write,
// timer and fault is an event in one queue, and the same seed gives the same events, byte for byte.
//
// [Run] is one world: a workload under faults, then everything is healed, the queues are drained, and the checkers (K1 to K6,
// K8 to K11 and K14 of the test plan, and the coverage counters K15) compare what the clients were told with what there is. What is small,
// queues and the outcomes of transactions, has to be linearizable (K7): its histories go to [Config].Judge, as the search for an
// order takes a module that only tests need.
//
// What stands for what: a node is a replica.Stepper and a frontend.Node with its Conns, driven in the order of package server;
// a crash drops all of it but the disk. A Go client is a client.Core; somebody else's is an engine.Conn: one as Qpid JMS is,
// takers that poll or hold, one that numbers its sends by itself, and a hostile one, whose bytes are wrong.
//
// In some worlds an operator changes the members ([world.startOperator]): nodes join, leave and take each other's places, under the same
// faults and for the same checkers; K8 then also says that no id is used twice and that only who was removed ends as one that was, K10
// that the members become those that were asked for.
//
// The interleavings of the design (numbers such as [1.1]) are played as stories of their own, in worlds without chance:
// testdata/README.md is their table, and testdata has their transcripts.
//
// A failure is replayed by its seed: `make sim SEEDS=1 SEED=n` prints the transcript.
package sim
