package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncemq/oncemq/test/cluster"
)

// Row 2: kill -9 of a follower.
func TestRow2KillFollower(t *testing.T) {
	Long(t)
	w := New(t, Options{})
	w.Run(func() {
		for i := range 2 {
			n := w.Follower(i)
			w.Kill(n)
			w.Commits(100, failover)
			w.Start(n)
		}
	})
}

// Rows 4 and 5: all nodes killed again and again, also while they still read their
// logs.
func TestRow4KillAllInALoop(t *testing.T) {
	Long(t)
	w := New(t, Options{})
	w.Run(func() {
		for i := range 12 {
			w.Kill(w.Nodes...)
			for _, n := range w.Nodes {
				n.Start()
			}
			if i%2 == 0 {
				w.For(time.Duration(20*i) * time.Millisecond)
				continue
			}
			w.Commits(10, 2*failover)
		}
	})
}

// Row 6 and 75: SIGTERM to one node after the other, as at an upgrade.
func TestRow75RollingRestart(t *testing.T) {
	Long(t)
	w := New(t, Options{})
	w.Run(func() {
		for _, n := range w.Nodes {
			n.Signal(syscall.SIGTERM)
			w.Note("SIGTERM to node %d", n.ID)
			w.EndsWith(n, 0, failover)
			w.Commits(20, failover)
			w.Start(n)
		}
	})
}

// Row 9: two of three stand still: nothing may be committed meanwhile.
func TestRow9StopMajority(t *testing.T) {
	Long(t)
	w := New(t, Options{})
	w.Run(func() {
		for i := range 2 {
			list := []*cluster.Node{w.Follower(0), w.Follower(1)}
			if i == 1 {
				list[1] = w.Leader()
			}
			w.Stop(list...)
			w.NoCommits(time.Second, 6*time.Second)
			w.Continue(list...)
			w.Commits(100, failover)
		}
	})
}

// Row 10: the leader freezes for 200 ms again and again: no storm of elections.
func TestRow10FreezeLeaderInPulses(t *testing.T) {
	Long(t)
	Need(t)
	w := New(t, Options{})
	w.Run(func() {
		n, f := w.Leader(), w.NewFreezer()
		before, err := n.Status(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for range 15 {
			f.Freeze(n, true)
			w.For(200 * time.Millisecond)
			f.Freeze(n, false)
			w.For(300 * time.Millisecond)
		}
		w.Commits(100, failover)
		after, err := w.Leader().Status(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if after.Term > before.Term+2 {
			t.Errorf("%d terms in 15 pauses of 200 ms", after.Term-before.Term)
		}
	})
}

// Row 13: silent strangers take all file descriptors that are left: the node goes on
// with those that it has, and with what its log and its state need beyond.
func TestRow13FewDescriptors(t *testing.T) {
	Long(t)
	Need(t, "prlimit")
	const limit = 100
	w := New(t, Options{Wrap: func(int) []string { return []string{"prlimit", fmt.Sprintf("--nofile=%d", limit)} }, Rate: 2000})
	w.Run(func() {
		n := w.Leader()
		for range 3 { // a stranger is shown out after a while
			hangUp := w.Dial(n, 2*limit)
			w.Commits(7000, 60*time.Second) // so that files are made
			hangUp()
		}
		w.Commits(100, failover)
	})
}

// Rows 17 and 18: one follower alone on its side.
func TestRow17IsolateFollower(t *testing.T) {
	Long(t)
	w := New(t, Options{Proxies: true})
	w.Run(func() {
		for i := range 2 {
			rejoin := w.Isolate(w.Follower(i))
			w.Commits(500, failover)
			w.For(4 * time.Second)
			rejoin()
			w.Commits(100, failover)
		}
	})
}

// Rows 19 and 20: the kernel lets vanish what others say to the leader, then what a
// follower says to others.
func TestRow19OneWay(t *testing.T) {
	Long(t)
	Need(t, "ip", "setpriv")
	w := New(t, Options{Wrap: AsUsers})
	r := w.NewRoutes()
	w.Run(func() {
		n := w.Leader()
		var heal []func()
		for _, other := range w.Others(n) {
			heal = append(heal, r.Silence(other, n))
		}
		w.LeaderAmong(w.Others(n), failover)
		w.Commits(100, failover)
		for _, h := range heal {
			h()
		}
		n.WaitReady()
		n = w.Follower(0)
		undo := r.Silence(n, w.Others(n)...)
		w.Commits(500, failover)
		undo()
	})
}

// Row 21: two nodes don't hear each other, both hear the third.
func TestRow21Bridge(t *testing.T) {
	Long(t)
	w := New(t, Options{Proxies: true})
	w.Run(func() {
		for i := range 2 {
			a, b := w.Leader(), w.Follower(i)
			w.Link(a, b, cluster.Conditions{Jam: true})
			w.Link(b, a, cluster.Conditions{Jam: true})
			w.Commits(100, 2*failover)
			w.For(4 * time.Second)
			w.Commits(100, 2*failover)
			w.Link(a, b, cluster.Conditions{})
			w.Link(b, a, cluster.Conditions{})
			w.Commits(100, failover)
		}
	})
}

// Row 22: a link that comes and goes every 100 ms.
func TestRow22Flapping(t *testing.T) {
	Long(t)
	w := New(t, Options{Proxies: true})
	w.Run(func() {
		a, b := w.Leader(), w.Follower(0)
		for i := range 60 {
			w.peers[a.ID][b.ID].Refuse(i%2 == 0)
			w.peers[b.ID][a.ID].Refuse(i%2 == 0)
			w.For(100 * time.Millisecond)
		}
		w.Commits(100, failover)
	})
}

// Row 24: everything between nodes takes 100 ms each way.
func TestRow24SlowNetwork(t *testing.T) {
	Long(t)
	w := New(t, Options{Proxies: true, Rate: 20})
	w.Run(func() {
		set := func(c cluster.Conditions) {
			for _, from := range w.Nodes {
				for _, to := range w.Others(from) {
					w.Link(from, to, c)
				}
			}
		}
		set(cluster.Conditions{Delay: 100 * time.Millisecond})
		w.Commits(50, 3*failover)
		set(cluster.Conditions{})
		w.Commits(50, failover)
	})
}

// Row 28: established connections of clients to the leader are reset, again and again.
func TestRow28Reset(t *testing.T) {
	Long(t)
	Need(t, "ss")
	w := New(t, Options{})
	w.Run(func() {
		reset := 0
		for range 5 {
			for _, n := range w.Nodes {
				_, port, _ := strings.Cut(n.AMQP, ":")
				out, err := exec.Command("ss", "-H", "-K", "dport", "=", port).Output()
				if err != nil {
					t.Fatal(err)
				}
				reset += strings.Count(string(out), "ESTAB")
				w.Note("clients of node %d are reset:\n%s", n.ID, out)
			}
			w.Commits(100, failover)
		}
		if reset == 0 {
			t.Error("no connection was reset")
		}
	})
}

// Row 31: one bit is changed on the way from the leader to a follower, and back.
func TestRow31FlippedBit(t *testing.T) {
	Long(t)
	w := New(t, Options{Proxies: true})
	w.Run(func() {
		for range 3 {
			a, b := w.Leader(), w.Follower(0)
			for _, p := range []*cluster.Proxy{w.peers[a.ID][b.ID], w.peers[b.ID][a.ID]} {
				p.Set(true, cluster.Conditions{Flip: true})
				w.Until(failover, "a piece to change", func() bool { return p.Flipped(true) })
				w.Commits(100, failover)
			}
		}
	})
}

// Row 37: power loss of the leader, then of a follower.
func TestRow37PowerLossOfOne(t *testing.T) {
	Long(t)
	Need(t, "mkfs.ext4", "mount")
	w := New(t, Options{Disks: NewLoopDisk})
	w.Run(func() {
		for range 2 {
			for _, n := range []*cluster.Node{w.Leader(), w.Follower(1)} {
				w.PowerLoss(n)
				w.Commits(100, failover)
				w.Start(n)
			}
		}
	})
}

// Row 45: a sync fails on a follower.
func TestRow45SyncFailsOnFollower(t *testing.T) {
	Long(t)
	syncFails(t, func(w *World) *cluster.Node { return w.Follower(0) })
}

// Row 46: the disk of one node lies about syncs, then its power is lost: it finds out what it has forgotten, and gets it from the others.
func TestRow46SyncLies(t *testing.T) {
	Long(t)
	Need(t, "strace", "mkfs.ext4", "mount")
	w := New(t, Options{Disks: NewLoopDisk})
	w.Run(func() {
		n := w.Follower(0)
		end := w.Trace(n, "fsync,fdatasync", "retval=0")
		w.Commits(200, failover)
		w.PowerLoss(n)
		end()
		w.Commits(100, failover)
		w.StartDamaged(n)
	})
}

// Row 52: the file system of the leader meets an error and becomes read-only.
func TestRow52ReadOnly(t *testing.T) {
	Long(t)
	Need(t, "mkfs.ext4", "mount", "losetup")
	w := New(t, Options{Disks: NewLoopDisk})
	w.Run(func() {
		n := w.Leader()
		w.FailDisk(n)
		w.EndsWith(n, 1, failover)
		w.Commits(100, failover)
		w.Remount(n)
		w.Start(n)
	})
}

// Row 53: every sync of the leader takes 300 ms. The others' disks are healthy: leadership moves to one of them.
func TestRow53SlowDisk(t *testing.T) {
	Long(t)
	Need(t, "strace")
	w := New(t, Options{})
	w.Run(func() {
		n := w.Leader()
		end := w.Trace(n, "fsync,fdatasync", "delay_enter=300000")
		w.Commits(200, 2*failover)
		w.LeaderAmong(w.Others(n), 30*time.Second)
		w.Commits(200, 2*failover)
		end()
		n.WaitReady()
	})
}

// Row 54: a sync of the leader never returns. Leadership moves, and the node lets its clients go and ends by itself.
func TestRow54HungDisk(t *testing.T) {
	Long(t)
	Need(t, "strace")
	w := New(t, Options{})
	w.Run(func() {
		n := w.Leader()
		n.ExpectEnd()
		end := w.Trace(n, "fsync,fdatasync", "delay_enter=120000000")
		w.LeaderAmong(w.Others(n), 2*failover)
		w.Commits(200, failover)
		w.Until(time.Minute, "the node to give up", func() bool {
			text, err := os.ReadFile(n.LogPath)
			return err == nil && strings.Contains(string(text), "replica: oncemq: the disk answers nothing")
		})
		end() // the tracer keeps a process that has ended as long as its delay lasts
		w.EndsWith(n, 1, failover)
		w.Start(n)
		w.Commits(100, failover)
	})
}

// Rows 57, 58, 60 and 64: stamp, list of nodes, segments, tables and manifests, or all of it are damaged or gone. Row 56 has
// a story of its own.
func TestRow57DamagedFiles(t *testing.T) {
	Long(t)
	w := New(t, Options{})
	w.Run(func() {
		for i, damage := range []func(dir string) error{
			func(dir string) error { return os.Remove(oldest(dir, "log/*.seg")) },
			func(dir string) error { return flip(filepath.Join(dir, "STAMP"), 20) },
			func(dir string) error { return os.Truncate(oldest(dir, "log/*.seg"), 3*4096) },
			func(dir string) error { return os.Truncate(oldest(dir, "log/*.seg"), 0) }, // row 64
			func(dir string) error { return os.Remove(filepath.Join(dir, "STAMP")) },
			func(dir string) error { return flip(filepath.Join(dir, "VOTERS"), 2) },
			func(dir string) error { return flip(newest(dir, "state/MANIFEST-*"), 40) },
			func(dir string) error { return os.Remove(oldest(dir, "state/*.sst")) },
			func(dir string) error { return os.Truncate(oldest(dir, "state/*.sst"), 1000) },
		} {
			n := w.Follower(i % 2)
			if i%3 == 2 {
				n = w.Leader()
			}
			w.Damage(n, damage)
			w.Commits(100, failover)
		}
		w.Lose(w.Follower(0))
	})
}

// Row 61: an older copy of the directory of one node is put back: what it had promised
// since is forgotten; it gets it from the others.
func TestRow61OldCopy(t *testing.T) {
	Long(t)
	w := New(t, Options{})
	w.Run(func() {
		n := w.Follower(0)
		w.Kill(n)
		old := n.Dir + ".old"
		w.run("cp", "-a", n.Dir, old)
		w.Start(n)
		w.Commits(300, failover)
		w.Kill(n)
		whole := n.Dir + ".whole"
		w.run("mv", n.Dir, whole)
		w.run("mv", old, n.Dir)
		w.Note("an old copy is put back on node %d", n.ID)
		w.StartDamaged(n)
		w.Commits(300, failover)
	})
}

// Damage stops a node, so that its state is written out, and damages its directory: it recovers from the others.
func (w *World) Damage(n *cluster.Node, damage func(dir string) error) {
	w.tb.Helper()
	n.Signal(syscall.SIGTERM)
	w.EndsWith(n, 0, failover)
	if err := damage(n.Dir); err != nil {
		w.tb.Fatal(err)
	}
	w.Note("the directory of node %d is damaged", n.ID)
	w.Commits(100, failover)
	w.StartDamaged(n)
}

// Lose takes a node's directory away: the empty one is refused, since it would vote under the old identity. Then it gets back
// what it had.
func (w *World) Lose(n *cluster.Node) {
	w.tb.Helper()
	w.Kill(n)
	whole := n.Dir + ".whole"
	w.run("mv", n.Dir, whole)
	w.Note("the directory of node %d is gone", n.ID)
	n.Start()
	n.ExpectEnd()
	w.EndsWith(n, 1, failover)
	w.Commits(100, failover)
	w.run("rm", "-rf", n.Dir)
	w.run("mv", whole, n.Dir)
	w.Start(n)
}

// Row 55: a limit on the size of files (EFBIG) ends a node with a clean error.
func TestRow55FileSizeLimit(t *testing.T) {
	Long(t)
	Need(t, "prlimit")
	w := New(t, Options{})
	w.Run(func() {
		n := w.Follower(0)
		n.ExpectEnd()
		if out, err := exec.Command("prlimit", "--pid", strconv.Itoa(n.PID()), "--fsize=1048576").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		w.EndsWith(n, 1, failover)
		w.Commits(100, failover)
		w.Start(n)
	})
}
