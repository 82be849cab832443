// Package faults plays rows of the fault catalogue (docs/faults.md) on real processes,
// disks and sockets: three nodes under the demo's workload, and what goes wrong with
// them. A [World] is one cluster with what can be made to fail around it: a proxy
// between every pair of nodes and before every node, disks, a freezer, routes, a
// tracer. A test is a story: it calls what goes wrong and waits for what must follow.
//
// What is checked in each story, by its letter in the catalogue:
//
//   - K1 to K5, by package demo's checker over all that was sent and consumed: nothing
//     accepted is lost, nothing is there that nobody sent or that was rolled back,
//     nothing twice, order, transactions whole. No outcome may stay unknown: no fault
//     here outlasts a program's patience, 30 s.
//   - K10: commits go on within a bound that the story names, and after the last fault
//     all nodes become ready.
//   - K14: no node ends by itself, or with another status than the story says, and no
//     log has a panic, a data race or a deadlock.
//
// On Linux as root the tests run in namespaces of their own for mounts and for the
// network (TestMain), so that nothing that they do outlives them. Otherwise, and where
// a program or a feature of the kernel is missing, stories that need it are skipped,
// and say what they miss. Stories that take long need ONCEMQ_LONG=1; `make soak
// MINUTES=n` runs the nemesis, which combines faults as a seed says.
//
// The package knows a node's command line, its admin port and its AMQP port, and
// nothing of how it works; the stories of damage (rows 56 to 66) change its files as
// docs/format draws them.
package faults
