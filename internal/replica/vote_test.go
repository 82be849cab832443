package replica

import (
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// votesAsked counts what node 1 has sent to ask for votes.
func (w *stepped) votesAsked() (n int) {
	const header = 12 // of a peer's frame
	for _, f := range w.wire {
		m := new(pb.Message)
		if f.from == 1 && proto.Unmarshal(f.frame[header:], m) == nil && m.GetType() == pb.MsgVote {
			n++
		}
	}
	return n
}

// A candidate asks for votes only once its term and its own vote are on its disk: a leader by others' votes alone that crashed
// before would lead the same term a second time, with other entries.
func TestVotesAreAskedForBehindTheAppend(t *testing.T) {
	w := newStepped(t, 1)
	candidate := w.nodes[0]
	for range 200 {
		w.now += 5 * time.Millisecond
		candidate.Raft(w.now, 0)
		if w.votesAsked() > 0 {
			t.Fatal("votes were asked for before the candidate's own was written")
		}
		wire := w.wire
		w.wire = nil
		for _, f := range wire {
			if err := w.nodes[f.to-1].Receive(f.from, f.frame); err != nil {
				t.Fatal(err)
			}
		}
		for _, voter := range w.nodes[1:] { // their time stands: they don't campaign
			voter.Raft(0, 0)
			if err := voter.Append(); err != nil {
				t.Fatal(err)
			}
		}
		if candidate.Status().Role == roleCandidate {
			break
		}
	}
	if role := candidate.Status().Role; role != roleCandidate {
		t.Fatalf("node 1 is %s", role)
	}
	if err := candidate.Append(); err != nil {
		t.Fatal(err)
	}
	if n := w.votesAsked(); n != 2 {
		t.Errorf("%d votes were asked for behind the append, want 2", n)
	}
}
