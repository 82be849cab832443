// Package node assembles one node from a validated configuration: the replica, the
// AMQP listener and the admin listener, started and stopped in the right order.
//
// Invariants: clients are accepted only once the replica has an epoch; on the way
// down the answers of discharges in flight go out first, then clients are moved on,
// then leadership, then the disk is flushed. When Run returns, nothing that it
// started is left.
//
// cmd/oncemq calls it, and tests that want a whole node in process. It decides
// nothing about messages, and must not know AMQP, raft or storage.
package node
