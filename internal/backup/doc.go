// Package backup is the stream that a backup of a cluster is: written from a checkpoint of one node's state, read by who
// verifies it or makes a node's directory of it (faults row 80).
//
// Invariants:
//
//   - A backup is one consistent cut: the state after exactly one entry of the log, with everything in it, of every queue,
//     session and user.
//   - A stream that is cut off, or in which any bit is another, is [ErrDamaged]; none of it counts. A directory becomes a node's
//     with the last write of a restore, or not at all.
//   - A restored cluster has a new history (C1): nothing of the old one's sessions is found in it.
//   - Memory is bounded: a block at a time.
//
// package node writes backups for the admin API, cmd/oncemq reads them. The package knows nothing of AMQP, nor of what the
// state's keys mean. docs/format/backup.md draws the bytes. A backup holds everybody's messages and what passwords are checked
// with: whoever has it can read the one and try the other.
package backup
