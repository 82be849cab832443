// Package demo runs a cluster of real processes under a workload, kills and stops
// its nodes at moments that a seed chooses, and checks what came out.
//
// Four producers put numbered orders into a queue; three workers take one order each,
// put its amount into one ledger queue and the negated amount into another, and send
// a receipt, all in one transaction; auditors empty the receipts and the ledgers.
//
// Invariants: the Checker knows only what the programs themselves saw (sent, told
// accepted, received, told committed); it asks the broker nothing and knows none of
// its types. Every event is a real signal to a real process. When Run returns, no
// process that it started is left.
//
// cmd/oncemq calls it, and tests of faults run its [Workload] on clusters that they
// disturb themselves. It speaks to nodes by package oncemq (as any program would)
// and by their admin port, and must not know how a node works.
package demo
