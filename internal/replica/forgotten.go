package replica

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/store"
)

// forgotten is an error where a leader's message shows that this node has acknowledged
// entries that its log doesn't have: a disk lied about a sync, or an older copy of the
// directory was put back. A heartbeat carries no commit index beyond what its receiver
// has acknowledged as synced in that term, so one beyond the log's end says just that.
// Raft would panic over it. The log can't know it by itself (docs/format/log.md), and
// the node must not go on: its answers counted towards majorities [8.2].
func (c *core) forgotten(m *pb.Message) error {
	if m.GetType() != pb.MsgHeartbeat || m.GetTerm() < c.term {
		return nil
	}
	return c.acknowledged(m.GetCommit(), m.GetFrom())
}

// acknowledged is an error where the log doesn't have entry index, which another node says that this one has acknowledged: a
// heartbeat of its leader, or a note of what every node has. The note reaches a node that a new leader can't help, as it has
// heard nothing of it and has cut what it lacks.
func (c *core) acknowledged(index, by uint64) error {
	last := c.stored()
	if index <= last {
		return nil
	}
	return fmt.Errorf("%w: this node has acknowledged entry %d, as node %d knows, and its log ends with %d: the disk lost what it had synced, or an older copy was put back; "+
		"it must not vote before it has got all of that from a leader", store.ErrCorrupt, index, by, last)
}
