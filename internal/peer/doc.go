// Package peer is the connections between nodes: who may speak (a handshake with a stamp
// of cluster, history, node and voters), what a byte means (frames with a checksum, drawn
// in docs/format/peer.md), and whether the other side is alive.
//
// Every node dials every other node twice and sends on what it dialled: the urgent stream
// carries what is small and must not wait (heartbeats, votes, acknowledgements, notes), the
// bulk stream carries log entries and records. Within one stream order holds; a stream
// that is lost begins anew, empty.
//
// A connection of a third kind brings the files of a checkpoint to the node that dialled it ([Network.Fetch], [Source]).
//
// Invariants: nothing is dropped silently: Send reports false; a frame with a bad checksum
// or length ends its connection; a stranger's first frame is at most 1 KiB; a node of another
// cluster, history, version or list of voters is refused with a message that both sides log.
//
// package replica calls it and implements [Handler]. The package knows nothing of raft
// (messages are bytes) nor of commands (records are bytes). New starts no goroutine, Run
// does, and returns when all are gone.
package peer
