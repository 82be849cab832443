// Package server owns the sockets of clients: listeners, SASL, deadlines and the three goroutines of a connection (read,
// write, loop) that drive a frontend.Conn.
//
// # Invariants
//
//   - The loop goroutine alone touches its frontend.Conn. Read and write goroutines only move bytes.
//   - Deliver, EpochBegun and EpochEnded are called by the replica's apply goroutine and never block: an effect's place is
//     reserved by the command or allowance that caused it [4.8].
//   - A panic on a connection closes that connection and is counted; the node lives on.
//   - Run starts every goroutine, and returns when all of them are gone.
//
// It must not know commands' meaning, raft or storage. The program (cmd/oncemq) and tests call it.
package server
