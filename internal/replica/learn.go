package replica

import (
	"fmt"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/store"
)

// A commit index isn't in any promise: who comes back from a crash may know an older one than before, and raft finds the newer one by electing a leader
// first. Behind a change of the voters that may need the votes of those that the change has removed, and these may refuse: what their logs
// have at the end was never on the disk of the one that stays. So who is asked for a vote says what it knows to be committed. An entry with the
// same index and term is the same entry everywhere, and what is committed once is so for ever: a node that has it in its log may take the word of
// anybody for it. Raft has no message for that; the node writes it down and begins anew.

// tellCommit answers a request for a vote, beside raft's own answer, with what is committed.
func (c *core) tellCommit(m *pb.Message) {
	if t := m.GetType(); t != pb.MsgPreVote && t != pb.MsgVote || !c.safety || c.commit == 0 {
		return
	}
	if term, err := c.storage.Term(c.commit); err == nil {
		c.out.notes = append(c.out.notes, outNote{m.GetFrom(), peer.Note{Kind: peer.NoteCommit, Index: c.commit, Number: term}})
	}
}

// standstill is for how long there was no leader when a change of the voters is looked for among what others know to be committed: elections end sooner.
func (c *core) standstill() time.Duration { return 4 * electionTicks * c.limits.Tick }

// learnCommit takes another node's word for what is committed, where that is a change of the voters and nobody is elected without it.
func (c *core) learnCommit(n *peer.Note) {
	if !c.safety || c.lead != 0 || c.now-c.leaderless < c.standstill() || n.Index <= c.commit || n.Index > c.last {
		return
	}
	if term, err := c.storage.Term(n.Index); err != nil || term != n.Number {
		return
	}
	entries, err := c.storage.Entries(c.commit+1, n.Index+1, 1<<20)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.GetType() != pb.EntryNormal {
			status := c.node.BasicStatus()
			c.logger.Info("another node knows that a change of the voters is committed; this node takes it and begins anew", "entry", n.Index)
			c.out.raise = &store.HardState{Term: status.GetTerm(), Vote: status.GetVote(), Commit: n.Index}
			return
		}
	}
}

// raised ends a replica whose commit index was raised on disk.
func raised(commit uint64) error {
	return fmt.Errorf("%w: entry %d is committed, as another node knows", ErrInstalled, commit)
}
