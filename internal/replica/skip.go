package replica

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Skip is an entry that this node passes over [4.4]: the one of that index and term, and
// no other, since only that is the same on all nodes.
type Skip struct{ Index, Term uint64 }

// Skips are the entries that a node passes over.
type Skips []Skip

func (s Skips) has(e *pb.Entry) bool {
	return len(s) > 0 && slices.Contains(s, Skip{e.GetIndex(), e.GetTerm()})
}
