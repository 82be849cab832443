package replica

import (
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// Status is a snapshot of a node for the admin API.
type Status struct {
	// Node is this node, Leader the known leader (0: none).
	Node, Leader command.NodeID
	// Role is leader, follower, candidate or pre-candidate; starting before Run has
	// joined the cluster.
	Role string
	// Term, Commit and Applied are raft's; Applied is what the state machine has.
	Term, Commit, Applied uint64
	// Cluster is the cluster's id, zero until it is founded.
	Cluster [16]byte
	// Epoch is the node's present epoch, 0: none.
	Epoch command.Epoch
	// Lag is how long ago the oldest entry that isn't applied yet was committed.
	Lag time.Duration
	// LogBytes is the size of the log, Backlog the bytes proposed and not yet applied.
	LogBytes int64
	Backlog  int
	// SafetyOff: answers come before replication and fsync.
	SafetyOff bool
	// Peers is what is known of the other nodes, by id.
	Peers []PeerStatus
}

// PeerStatus is one other node as seen from here.
type PeerStatus struct {
	Node command.NodeID
	// Connected: both streams to it are up.
	Connected bool
	// Match is the highest index known on its disk; only the leader knows.
	Match uint64
}
