package replica

import (
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// progressOf is what a leader's raft knows of a peer.
func (n *steppedNode) progressOf(peer uint64) (p tracker.Progress) {
	n.core.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id == peer {
			p = pr
		}
	})
	return p
}

// The answer to an append of an earlier term of this leader's says nothing about the peer's log: taken for the acknowledgement
// of an empty one, it would have the leader look for entries that are cut, for ever.
func TestAnswerToAnEarlierTerm(t *testing.T) {
	w := newStepped(t, 1)
	w.ready()
	old := w.leader()
	third := w.nodes[old.id%3].id
	old.Transfer(0)
	var leader *steppedNode
	w.until("another leads, and has not heard of the third", func() bool {
		w.wire = slices.DeleteFunc(w.wire, func(f wired) bool { return f.from == third || f.to == third })
		for _, n := range w.nodes {
			if n != old && n.Status().Role == roleLeader {
				leader = n
			}
		}
		return leader != nil
	})
	before := leader.progressOf(third)
	if before.Match != 0 || before.Next < 2 || before.State != tracker.StateProbe {
		t.Fatalf("the third's progress is %v, match %d, next %d", before.State, before.Match, before.Next)
	}
	term, index, kind := leader.Status().Term, uint64(0), pb.MsgAppResp
	leader.events.put(event{kind: evMessage, from: third, message: &pb.Message{
		Type: &kind, From: &third, To: &leader.id, Term: &term, Index: &index,
	}})
	leader.Raft(w.now-leader.born, w.now.Milliseconds())
	if after := leader.progressOf(third); after.State != before.State || after.Next != before.Next {
		t.Errorf("the third's progress was %v, next %d, and is %v, next %d", before.State, before.Next, after.State, after.Next)
	}
}
