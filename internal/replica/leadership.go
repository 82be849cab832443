package replica

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
)

// transferWait bounds how long a hand-over of leadership is waited for.
const transferWait = 3 * time.Second

// mayStop says whether the cluster goes on without this node, and why.
func (c *core) mayStop() (ok bool, why string) {
	switch {
	case c.alone():
		return true, "this node is the only one that votes: the cluster stands still without it"
	case !c.votes(c.self):
		return true, "this node doesn't vote"
	case c.lead == 0:
		return false, "no leader is known"
	}
	fit := map[command.NodeID]bool{}
	for id, up := range c.failover.up {
		fit[command.NodeID(id)] = up
	}
	if c.leads() {
		c.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
			fit[command.NodeID(id)] = fit[command.NodeID(id)] && pr.RecentActive && pr.State == tracker.StateReplicate
		})
	}
	for _, voters := range [][]command.NodeID{c.config.Voters, c.config.Outgoing} {
		n := 0
		for _, id := range voters {
			if uint64(id) != c.self && fit[id] {
				n++
			}
		}
		if len(voters) > 0 && n <= len(voters)/2 {
			return false, fmt.Sprintf("without this node %d of %d voters would be left that answer and are up to date; a majority is needed", n, len(voters))
		}
	}
	return true, "a majority of the voters answers without this node"
}

// Transfer hands leadership over to node to, 0: to any voter that fits; it asks the leader where that is another node, and returns once
// another one leads. Errors: ErrNotLeading, with the reason; ErrNoQuorum where there is no leader; ctx's.
func (r *Replica) Transfer(ctx context.Context, to command.NodeID) error {
	before := r.Status()
	switch {
	case before.Leader == 0:
		return fmt.Errorf("no leader is known: %w", ErrNoQuorum)
	case before.Leader == to:
		return nil
	}
	r.askTransfer(before.Leader, to)
	ctx, cancel := context.WithTimeout(ctx, transferWait)
	defer cancel()
	r.until(ctx, func() bool {
		now := r.Status()
		return now.Leader != 0 && now.Leader != before.Leader && (to == 0 || now.Leader == to)
	})
	now := r.Status()
	switch {
	case now.Leader != 0 && now.Leader != before.Leader && (to == 0 || now.Leader == to):
		return nil
	case to == 0:
		return fmt.Errorf("%w: node %d still leads; no other voter answers and is up to date", ErrNotLeading, now.Leader)
	default:
		return fmt.Errorf("%w: node %d leads; node %d has to be a voter that answers, is up to date and doesn't leave the cluster", ErrNotLeading, now.Leader, to)
	}
}

// askTransfer asks the leader, which may be this node, to hand leadership over.
func (s *steps) askTransfer(lead, to command.NodeID) {
	if lead == s.opts.Node {
		s.events.put(event{kind: evTransfer, from: uint64(to)})
	} else {
		s.network.SendNote(uint64(lead), peer.Note{Kind: peer.NoteTransfer, Node: uint64(to)})
	}
}

// StepDown hands leadership over if this node has it. Errors as Transfer's.
func (r *Replica) StepDown(ctx context.Context) error {
	if st := r.Status(); st.Leader != st.Node {
		return nil
	}
	return r.Transfer(ctx, 0)
}
