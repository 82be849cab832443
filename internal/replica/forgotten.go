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
	last := c.stored()
	if m.GetCommit() <= last {
		return nil
	}
	return fmt.Errorf("%w: this node has acknowledged entry %d to node %d, and its log ends with %d: the disk lost what it had synced, or an older copy was put back; "+
		"put the newest directory of this node back, since this version can't fill it from its peers", store.ErrCorrupt, m.GetCommit(), m.GetFrom(), last)
}
