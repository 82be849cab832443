package failover

import (
	"context"
	"net/http"
	"syscall"
	"testing"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/test/cluster"
)

// TestRow111RollingRestart: all nodes are restarted in turn under load. Programs hear of nothing but transactions that are rolled
// back, and that truthfully; every consumer goes on behind each restart, and what was committed is there once, in order.
func TestRow111RollingRestart(t *testing.T) {
	w := newWorld(t)
	l := startLoad(t, w, w.Nodes[0], w.Nodes[1])
	l.goesOn(w, 10)
	for _, n := range w.Nodes {
		n.Signal(syscall.SIGTERM)
		n.Wait()
		l.goesOn(w, 5)
		w.revive(n)
		l.goesOn(w, 5)
	}
	if l.from.happened("restored") == 0 || l.to.happened("restored") == 0 {
		t.Error("a program had no need to move")
	}
	l.check()
}

// TestRow113LeaderMoves: the leader moves from node to node under load: links go on, nobody's transaction is rolled back.
func TestRow113LeaderMoves(t *testing.T) {
	w := newWorld(t)
	l := startLoad(t, w, w.Nodes[0], w.Nodes[1])
	l.goesOn(w, 10)
	leader := w.Leader()
	for range 2 * len(w.Nodes) {
		leader = w.Nodes[leader.ID%len(w.Nodes)]
		w.moveLeader(leader)
		l.goesOn(w, 5)
	}
	for _, r := range []*remote{l.from, l.to} {
		if r.happened("interrupted") > 0 || r.happened("exception") > 0 {
			t.Error("a connection was lost, or a send")
		}
	}
	if n := l.rolledBack.Load(); n > 0 {
		t.Errorf("%d transactions were rolled back", n)
	}
	l.check()
}

// moveLeader has another node lead, once it has what the leader has: before that it is refused.
func (w *world) moveLeader(to *cluster.Node) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	w.until("the leader has moved", func() bool {
		_ = admin.Call(ctx, to.Admin, http.MethodPost, "/api/v1/cluster/transfer", map[string]int{"to": to.ID}, nil)
		return w.leader(to) == uint64(to.ID)
	})
}

// TestRow112Starting: a node that runs without a majority behind it refuses nobody for good: a program that was connected, and one
// that begins, try it again and again, and go on with their links when the other nodes run.
func TestRow112Starting(t *testing.T) {
	w := newWorld(t)
	home := w.Nodes[0]
	uri := w.uri(home, "failover.maxReconnectDelay=50")
	r := opened(t, w, home)
	moves := connected(t, uri)
	moves.do("plain", "session", "auto")
	moves.receives("plain", "in", "m1", false)
	w.holds(w.other(home), "in", 1) // or its acknowledgement may be lost
	for _, n := range w.Nodes {
		n.Kill()
	}
	begins := newRemote(t)
	before := w.front(home).Came()
	home.Start()
	connect := begins.start("main", "connect", uri)
	w.until("the node that starts was tried", func() bool { return w.front(home).Came() >= before+20 })
	if !connect.under() {
		t.Fatalf("connecting to a node that starts ended with %q", connect.message)
	}
	for _, n := range w.Nodes[1:] {
		n.Start()
	}
	connect.ok()
	begins.do("plain", "session", "auto")
	begins.do("plain", "send", "in", "m3")
	for i, text := range []string{"m2", "m3"} {
		moves.receives("plain", "in", text, i == 0)
	}
	moves.receivesNothing("plain", "in")
	for _, p := range []*remote{r, moves, begins} {
		p.leaves()
	}
}
