package faults

import (
	"testing"
	"time"

	"github.com/oncemq/oncemq/test/cluster"
)

// failover is how long the next commit may take after a leader is lost. The contract
// says 2.5 s; the machine of a test may have other things to do.
const failover = 10 * time.Second

// Row 1: kill -9 of the leader under load.
func TestRow1KillLeader(t *testing.T) {
	w := New(t, Options{})
	w.Run(func() {
		for range 2 {
			n := w.Leader()
			w.Kill(n)
			w.Commits(1, failover)
			w.For(time.Second)
			w.Start(n)
		}
	})
}

// Row 3: kill -9 of all nodes at one instant.
func TestRow3KillAll(t *testing.T) {
	Need(t)
	w := New(t, Options{})
	w.Run(func() {
		w.NewFreezer().Kill()
		w.Start(w.Nodes...)
		w.Commits(100, failover)
	})
}

// Row 7: the leader stands still and wakes up: it must not answer from what it knew.
func TestRow7StopLeader(t *testing.T) {
	w := New(t, Options{})
	w.Run(func() {
		for range 2 {
			n := w.Leader()
			w.Stop(n)
			w.LeaderAmong(w.Others(n), failover)
			w.Commits(100, failover)
			w.Continue(n)
			n.WaitReady()
			w.Commits(100, failover)
		}
	})
}

// Rows 16 and 25: the leader is cut off from the others while its clients reach it,
// and all that was said meanwhile arrives in the end.
func TestRow16IsolateLeader(t *testing.T) {
	w := New(t, Options{Proxies: true})
	w.Run(func() {
		n := w.Leader()
		rejoin := w.Isolate(n)
		w.LeaderAmong(w.Others(n), failover)
		w.Commits(100, failover)
		w.Until(failover, "the isolated leader to step down", func() bool {
			st, err := n.Status(w.ctx)
			return err == nil && st.Role != "leader"
		})
		w.For(5 * time.Second)
		rejoin()
	})
}

// Row 15, with three nodes: a follower stands still, then the power of the other is
// lost, so that what the two that are left had agreed on is with the leader alone that
// stands still next. The two that know less go on: nothing accepted may be missing.
func TestRow15PauseAndPowerLoss(t *testing.T) {
	Need(t, "mkfs.ext4", "mount")
	w := New(t, Options{Disks: NewLoopDisk})
	w.Run(func() {
		for range 2 {
			leader, late, other := w.Leader(), w.Follower(0), w.Follower(1)
			w.Stop(late)
			w.Commits(300, failover)
			w.PowerLoss(other)
			w.Stop(leader)
			w.Continue(late)
			other.Start()
			w.LeaderAmong(w.Others(leader), 2*failover)
			w.Commits(100, failover)
			w.Continue(leader)
			for _, n := range w.Nodes {
				n.WaitReady()
			}
			w.Commits(100, failover)
		}
	})
}

// Row 26: what clients say to a node hangs in the network; they go on elsewhere, and
// then it arrives.
func TestRow26JamClients(t *testing.T) {
	w := New(t, Options{Proxies: true})
	w.Run(func() {
		for _, n := range w.Nodes {
			front := w.fronts[n.ID]
			front.Set(true, cluster.Conditions{Jam: true})
			w.Note("what clients say to node %d hangs", n.ID)
			w.For(4 * time.Second) // they move after 2 s of silence
			w.Commits(100, failover)
			front.Set(true, cluster.Conditions{})
			w.Note("it arrives")
			w.Commits(100, failover)
		}
	})
}

// Row 38: power loss of all nodes: what was not synced is gone. ONCEMQ_LOSSES is how often; `make power LOSSES=50` sets it.
func TestRow38PowerLossOfAll(t *testing.T) {
	Need(t, "mkfs.ext4", "mount")
	w := New(t, Options{Disks: NewLoopDisk})
	w.Run(func() {
		for range setting(t, "ONCEMQ_LOSSES", 2) {
			w.PowerLoss(w.Nodes...)
			w.Start(w.Nodes...)
			w.Commits(100, failover)
		}
	})
}

// Row 44: a sync fails once on the leader: it ends and does not try again, and the
// others take over.
func TestRow44SyncFailsOnLeader(t *testing.T) {
	syncFails(t, (*World).Leader)
}

// syncFails has a sync of a node fail once: that ends it, and the others go on.
func syncFails(t *testing.T, victim func(w *World) *cluster.Node) {
	t.Helper()
	Need(t, "strace")
	w := New(t, Options{})
	w.Run(func() {
		n := victim(w)
		n.ExpectEnd()
		end := w.Trace(n, "fsync,fdatasync", "error=EIO:when=1")
		w.EndsWith(n, 1, failover)
		end()
		w.Commits(100, failover)
		w.Start(n)
	})
}

// Row 56: a bit of the log of one node, once synced, is another: the node doesn't serve
// from it, and recovers from the others, which go on.
func TestRow56FlippedBit(t *testing.T) {
	w := New(t, Options{})
	w.Run(func() {
		w.Damage(w.Follower(0), func(dir string) error { return flip(oldest(dir, "log/*.seg"), 4096+100) })
	})
}
