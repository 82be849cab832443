package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/store"
)

// A lone node is a cluster of one: the same path.
func TestLoneNode(t *testing.T) {
	begin := time.Now()
	c := newCluster(t, 1, nil)
	if took := time.Since(begin); took > time.Second {
		t.Errorf("ready after %s, want at most 1 s", took)
	}
	m := c.nodes[1]
	for i := range 20 {
		c.write(m, fmt.Sprint(i))
	}
	if got, _, _ := m.box.counts(); got != 20 {
		t.Errorf("%d effects delivered, want 20", got)
	}
	c.kill(1)
	m = c.start(1)
	c.ready()
	if n := c.same(); n != 20 {
		t.Errorf("%d bodies after a kill and a restart, want 20", n)
	}
	if got, _, _ := m.box.counts(); got != 0 {
		t.Errorf("%d effects of the former life delivered [1.2]", got)
	}
}

// Everything written through any node is applied once, everywhere, in the order of its node.
func TestThreeNodes(t *testing.T) {
	begin := time.Now()
	c := newCluster(t, 3, nil)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("three nodes from nothing ready after %s, want at most 3 s", took)
	}
	var wg sync.WaitGroup
	for _, m := range c.nodes {
		for w := range 4 {
			wg.Go(func() {
				for i := range 50 {
					c.write(m, fmt.Sprint(m.id, w, i))
				}
			})
		}
	}
	wg.Wait()
	if n := c.same(); n != 600 {
		t.Errorf("%d bodies applied, want 600", n)
	}
	for _, m := range c.nodes {
		if got, _, _ := m.box.counts(); got != 200 {
			t.Errorf("node %d: %d effects delivered, want its own 200", m.id, got)
		}
	}
}

// [1.1] An entry that is lost alone, with a later one behind it, costs nothing: state asks
// for what is missing, and the home sends it again, in order.
func TestLostEntryIsSentAgain(t *testing.T) {
	var mu sync.Mutex
	lose := map[string]bool{}
	c := newCluster(t, 3, func(o *Options) {
		o.Limits.EntryBytes = 1 // an entry for each record
		o.testDrop = func(entry []byte) bool {
			mu.Lock()
			defer mu.Unlock()
			for text := range lose {
				if strings.Contains(string(entry), text) {
					delete(lose, text)
					return true
				}
			}
			return false
		}
	})
	for _, m := range []*member{c.follower(), c.leader()} {
		mu.Lock()
		lose["lost-one"], lose["lost-two"] = true, true
		mu.Unlock()
		for _, text := range []string{"before", "lost-one", "lost-two"} {
			m.Propose(body(text))
		}
		c.write(m, "behind")
		m.box.mu.Lock()
		got := fmt.Sprintf("%q", m.box.got)
		m.box.mu.Unlock()
		want := fmt.Sprintf("%q", [][]byte{body("before"), body("lost-one"), body("lost-two"), body("behind")})
		if got != want {
			t.Errorf("node %d applied %s, want %s", m.id, got, want)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(lose) != 0 {
		t.Errorf("not lost at all: %v", lose)
	}
	if n := c.same(); n != 8 {
		t.Errorf("%d bodies, want 8", n)
	}
}

// kill -9 of the leader under load: what the survivors proposed is applied once, nothing is
// lost, and it takes a quarter of a second. The killed one comes back and catches up.
func TestLeaderKilled(t *testing.T) {
	c := newCluster(t, 3, nil)
	total := 0
	var gaps []time.Duration
	for round := range 3 {
		l := c.leader()
		var survivors []*member
		for _, m := range c.nodes {
			if m != l {
				survivors = append(survivors, m)
			}
		}
		var wg sync.WaitGroup
		began, killed := make(chan struct{}, 2), make(chan struct{})
		for _, m := range survivors {
			wg.Go(func() {
				for i := range 60 {
					if i == 20 {
						began <- struct{}{}
					}
					c.write(m, fmt.Sprint(round, m.id, i))
				}
			})
		}
		<-began
		<-began
		at := time.Now()
		c.kill(l.id)
		close(killed)
		c.write(survivors[0], "first after the kill")
		gaps = append(gaps, time.Since(at))
		wg.Wait()
		total += 121
		if n := c.same(); n != uint64(total) {
			t.Fatalf("%d bodies applied, want %d", n, total)
		}
		c.start(l.id)
		c.ready()
	}
	c.same()
	slices.Sort(gaps)
	t.Logf("from the kill to the next commit: %v", gaps)
	if gaps[1] > 400*time.Millisecond {
		t.Errorf("median %s from the kill of a leader to the next commit, want at most 400 ms", gaps[1])
	}
}

// [1.2, 3.8] The epoch of a killed node is ended at once, on the word of two.
func TestKilledNodeLosesItsEpochAtOnce(t *testing.T) {
	c := newCluster(t, 3, nil)
	f := c.follower()
	at := time.Now()
	c.kill(f.id)
	l := c.leader()
	c.wait("NodeDown", func() bool { e, _ := l.mach.Epoch(f.id); return e == 0 })
	if took := time.Since(at); took > time.Second {
		t.Errorf("the epoch ended after %s", took)
	}
}

// [1.2, 3.8] A node that is cut off keeps its epoch until the others have been silent to it
// for longer than its lease; it then sees its epoch ended, closes its clients, and gets a new
// one.
func TestCutOffNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	f := c.follower()
	f.WantLease(true)
	c.wait("a lease", func() bool { return time.Until(f.LeaseUntil()) > 0 })
	c.write(f, "before")
	c.same() // the leader has applied that f has an epoch
	at := time.Now()
	c.isolate(f.id, true)
	f.Propose(body("while cut off"))
	l := c.leader2(f.id)
	c.wait("NodeDown", func() bool { e, _ := l.mach.Epoch(f.id); return e == 0 })
	if until := f.LeaseUntil(); time.Now().Before(until) {
		t.Errorf("the epoch was ended %s before the lease", time.Until(until))
	}
	if took := time.Since(at); took > 2500*time.Millisecond {
		t.Errorf("the epoch of a silent node was ended after %s, want about 1.5 s", took)
	}
	c.isolate(f.id, false)
	c.wait("a new epoch", func() bool { _, begun, ended := f.box.counts(); return begun == 2 && ended == 1 })
	c.ready()
	c.write(f, "after")
	if n := c.same(); n != 2 && n != 3 {
		t.Errorf("%d bodies", n)
	}
}

// leader2 is the leader among all but one node.
func (c *cluster) leader2(but command.NodeID) (l *member) {
	c.t.Helper()
	c.wait("a leader of the others", func() bool {
		for _, m := range c.nodes {
			if m.id != but && m.Status().Role == roleLeader {
				l = m
			}
		}
		return l != nil
	})
	return l
}

// [3.8] A leader that is cut off answers no barrier and applies nothing more; the others go
// on. What its home proposed meanwhile is applied once or, since its epoch ends, never.
func TestCutOffLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	old := c.leader()
	c.isolate(old.id, true)
	answer := make(chan bool, 1)
	old.Barrier(func(ok bool) { answer <- ok })
	old.Propose(body("into the void"))
	l := c.leader2(old.id)
	c.write(l, "the others go on")
	c.wait("NodeDown", func() bool { e, _ := l.mach.Epoch(old.id); return e == 0 })
	if got, _, _ := old.box.counts(); got != 0 {
		t.Error("a cut-off leader applied something")
	}
	c.isolate(old.id, false)
	if ok := <-answer; !ok {
		// The barrier is answered once the node is back, if within 5 s.
		t.Error("no barrier after the partition healed")
	}
	c.wait("the old leader's new epoch", func() bool { _, begun, _ := old.box.counts(); return begun == 2 })
	c.ready()
	c.write(old, "back")
	c.same()
}

// A barrier is answered after everything committed before it is applied here.
func TestBarrier(t *testing.T) {
	c := newCluster(t, 3, nil)
	f, l := c.follower(), c.leader()
	for i := range 50 {
		c.write(l, fmt.Sprint(i))
		seen := make(chan uint64, 1)
		f.Barrier(func(bool) { f.mach.mu.Lock(); defer f.mach.mu.Unlock(); seen <- f.mach.bodies })
		if n := <-seen; n != uint64(i+1) {
			t.Fatalf("behind the barrier %d bodies, want %d", n, i+1)
		}
	}
	c.wait("a lease", func() bool { return f.LeaseUntil().After(time.Now()) })
}

// [5.2] A large body comes whole, in parts; records of other connections pass it, those of
// its own don't.
func TestParts(t *testing.T) {
	c := newCluster(t, 3, nil)
	f := c.follower()
	conn := func(id uint64, text string) []byte {
		return command.Append(nil, &command.QueueCreate{Conn: command.ConnID(id), Name: text})
	}
	large := conn(1, strings.Repeat("large ", 1<<18))
	f.Propose(slices.Clone(large))
	f.Propose(conn(1, "own"))
	f.Propose(conn(2, "other"))
	c.wait("all three", func() bool { got, _, _ := f.box.counts(); return got == 3 })
	want := [][]byte{conn(2, "other"), large, conn(1, "own")}
	for i := range want {
		if string(f.box.got[i]) != string(want[i]) {
			t.Errorf("place %d: %d bytes, want %d", i, len(f.box.got[i]), len(want[i]))
		}
	}
	if f.Backlog() != 0 {
		t.Errorf("backlog %d after everything is applied", f.Backlog())
	}
	if c.same(); f.mach.large != 1 {
		t.Errorf("%d bodies came in parts", f.mach.large)
	}
}

// A stop in order: answers, NodeDown, hand-over, flush; the others hardly notice.
func TestStop(t *testing.T) {
	c := newCluster(t, 3, nil)
	l := c.leader()
	for i := range 10 {
		l.Propose(body(fmt.Sprint(i)))
	}
	if err := l.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-l.ran; err != nil {
		t.Errorf("Run: %v", err)
	}
	if got, _, ended := l.box.counts(); got != 10 || ended != 1 {
		t.Errorf("%d effects, %d ends of the epoch; want 10 and 1", got, ended)
	}
	if l.Propose(body("late")) {
		t.Error("proposed to a stopped node")
	}
	delete(c.nodes, l.id)
	at := time.Now()
	c.write(c.leader(), "next")
	if took := time.Since(at); took > 300*time.Millisecond {
		t.Errorf("%s until the next commit after a hand-over", took)
	}
	m := c.start(l.id)
	if m.start.Applied == 0 {
		t.Error("nothing was flushed")
	}
	c.ready()
	c.same()
}

// The log is cut below what is flushed and what every node has, and not above [6.2]. A
// node that was down meanwhile still gets everything.
func TestLogCut(t *testing.T) {
	c := newCluster(t, 3, func(o *Options) {
		o.Limits = Limits{SegmentBytes: 64 << 10, LogFlushBytes: 128 << 10, KeepEvery: 20 * time.Millisecond}
	})
	f := c.follower()
	l := c.leader()
	pad := strings.Repeat("x", 8<<10)
	c.kill(f.id)
	for i := range 60 {
		c.write(l, fmt.Sprint(i, pad))
	}
	if first := l.log.FirstIndex(); first > 20 {
		t.Fatalf("cut to %d while a peer has almost nothing", first)
	}
	c.start(f.id)
	c.ready()
	c.wait("the cut", func() bool {
		c.write(l, pad)
		for _, m := range c.nodes {
			if m.log.FirstIndex() < 30 {
				return false
			}
		}
		return true
	})
	c.same()
	for _, id := range []command.NodeID{1, 2, 3} {
		c.kill(id)
	}
	for _, id := range []command.NodeID{1, 2, 3} {
		c.start(id)
	}
	c.ready()
	if n := c.same(); n < 61 {
		t.Errorf("%d bodies after the restart of all", n)
	}
}

// The leader proposes a Tick when the machine is due, and none otherwise [4.5].
func TestTicks(t *testing.T) {
	c := newCluster(t, 1, nil)
	m := c.nodes[1]
	m.mach.mu.Lock()
	m.mach.due.Running = m.mach.running + 50
	m.mach.mu.Unlock()
	c.write(m, "so that the due moment is seen")
	c.wait("a tick", func() bool { m.mach.mu.Lock(); defer m.mach.mu.Unlock(); return m.mach.ticks == 1 })
	c.write(m, "behind the tick")
	at := m.Status().Applied
	c.write(m, "one more entry")
	if got := m.Status().Applied; got != at+1 {
		t.Errorf("applied index %d after one entry on %d: ticks without need", got, at)
	}
}

// [8.2] A node that lost its directory doesn't vote under its old identity.
func TestEmptyDirectory(t *testing.T) {
	c := newCluster(t, 3, nil)
	f := c.follower()
	c.write(f, "something to forget")
	c.kill(f.id)
	c.dirs[f.id] = t.TempDir()
	m := c.start(f.id)
	if err := <-m.ran; !errors.Is(err, ErrEmptyDirectory) || !strings.Contains(err.Error(), "belongs to cluster") {
		t.Errorf("Run: %v, want ErrEmptyDirectory", err)
	}
}

// C14: a node whose log lacks what it had acknowledged, as after an older copy of its
// directory was put back, finds that out from its leader and ends.
func TestOldCopyEndsTheNode(t *testing.T) {
	c := newCluster(t, 3, nil)
	f, l := c.follower(), c.leader()
	c.kill(f.id)
	old := t.TempDir()
	if err := os.CopyFS(old, os.DirFS(c.dirs[f.id])); err != nil {
		t.Fatal(err)
	}
	f = c.start(f.id)
	c.ready()
	for range 20 {
		c.write(f, "something to forget")
	}
	c.wait("the same everywhere", func() bool { return f.Status().Applied == l.Status().Applied })
	c.kill(f.id)
	c.dirs[f.id] = old
	m := c.start(f.id)
	if err := <-m.ran; !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "has acknowledged entry") {
		t.Errorf("Run: %v, want ErrCorrupt", err)
	}
	delete(c.nodes, f.id)
	c.ready()
	c.write(l, "the others go on")
}

// [8.2] No node founds a cluster while one of the list is silent.
func TestFoundingWaitsForAll(t *testing.T) {
	t.Parallel()
	c := &cluster{t: t, peers: map[command.NodeID]string{}, dirs: map[command.NodeID]string{}, nodes: map[command.NodeID]*member{}, wire: newWire()}
	full := newCluster(t, 3, nil) // for three free addresses
	for _, id := range []command.NodeID{1, 2, 3} {
		c.peers[id], c.dirs[id] = full.peers[id], t.TempDir()
		full.kill(id)
	}
	t.Cleanup(func() {
		for _, m := range c.nodes {
			m.Close()
		}
	})
	c.start(1)
	c.start(2)
	// Both have asked each other once the wire between them was used.
	c.wait("the question", func() bool { c.wire.mu.Lock(); defer c.wire.mu.Unlock(); return len(c.wire.conns) >= 2 })
	if a, b := c.nodes[1].dir.Stamp(), c.nodes[2].dir.Stamp(); a.Cluster != [16]byte{} || b.Cluster != [16]byte{} {
		t.Fatal("two of three founded a cluster")
	}
	// A founder that dies before it knew goes on with the same directory.
	c.kill(2)
	c.start(2)
	c.start(3)
	c.ready()
	a, b := c.nodes[1].dir.Stamp(), c.nodes[3].dir.Stamp()
	if a.Cluster != b.Cluster {
		t.Error("two cluster ids")
	}
}

// A list of nodes other than the cluster was founded with is refused. Without a list a node knows from its directory that it is
// one of three, and no majority of its own; where the others are they tell it themselves.
func TestOtherPeers(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.kill(1)
	opts := c.options(1, &box{})
	opts.Peers = map[command.NodeID]string{1: c.peers[1], 2: c.peers[2], 4: c.peers[3]}
	r, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); !errors.Is(err, store.ErrForeign) {
		t.Errorf("Run: %v, want ErrForeign", err)
	}
	c.opts = func(o *Options) {
		if o.Node == 1 {
			o.Peers = map[command.NodeID]string{1: c.peers[1]}
		}
	}
	m := c.start(1)
	c.wait("a node without a list", func() bool { return m.Ready() == nil })
	if st := m.Status(); st.Alone || len(st.Peers) != 2 {
		t.Errorf("%+v", st)
	}
}

// A directory of another cluster's node is refused by the peers, and changes nothing there.
func TestOtherCluster(t *testing.T) {
	a, b := newCluster(t, 3, nil), newCluster(t, 3, nil)
	f := a.follower()
	a.kill(f.id)
	b.kill(f.id)
	stranger := *b
	stranger.peers, stranger.nodes, stranger.wire = a.peers, map[command.NodeID]*member{}, newWire()
	m := stranger.start(f.id)
	t.Cleanup(func() { m.Close() })
	a.write(a.leader(), "goes on")
	a.wait("the strangers' talk", func() bool { // both sides have tried
		stranger.wire.mu.Lock()
		defer stranger.wire.mu.Unlock()
		return len(stranger.wire.conns) >= 2
	})
	for _, other := range a.nodes {
		if other.peers.Connected(uint64(f.id)) {
			t.Errorf("node %d talks to a node of another cluster", other.id)
		}
	}
	if m.Ready() == nil || m.Status().Leader != 0 {
		t.Error("a node of another cluster takes part")
	}
}

// [4.5] A leader whose clock is wrong gives up leadership; civil time doesn't follow it.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	var wrong [4]atomic.Int64
	c := newCluster(t, 3, func(o *Options) {
		o.Limits.KeepEvery = 50 * time.Millisecond
		o.Civil = func() int64 { return time.Now().UnixMilli() + wrong[o.Node].Load() }
	})
	l := c.leader()
	wrong[l.id].Store(365 * 86_400_000)
	c.wait("another leader", func() bool { return l.Status().Role != roleLeader })
	c.write(c.leader(), "x")
	if civil, _ := l.mach.Times(); civil > time.Now().Add(2*time.Second).UnixMilli() {
		t.Errorf("civil time is %s", time.UnixMilli(civil))
	}
}

// [1.2] Three ends of the epoch within 10 s: the node waits before it asks again.
func TestFlapping(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	m := c.nodes[1]
	for i := range 3 {
		c.wait("an epoch", func() bool { _, begun, _ := m.box.counts(); return begun == i+1 })
		epoch, _, _ := m.home.life()
		m.events.put(event{kind: evNote, from: 1, note: nodeDownNote(epoch)})
		c.wait("its end", func() bool { _, _, ended := m.box.counts(); return ended == i+1 })
	}
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	if _, begun, _ := m.box.counts(); begun != 3 {
		t.Errorf("%d epochs, want 3 and a pause", begun)
	}
}

func nodeDownNote(epoch command.Epoch) peer.Note {
	return peer.Note{Kind: peer.NoteNodeDown, Index: uint64(epoch)}
}

// [5.2] A large command whose stream to the leader breaks again and again arrives once and
// whole, and so do the records behind it.
func TestPartsOverBrokenStreams(t *testing.T) {
	c := newCluster(t, 3, nil)
	m := c.follower()
	done := make(chan error, 2)
	large := body(strings.Repeat("large", 600_000))
	m.propose(large, func(err error) { done <- err })
	m.propose(body("behind"), func(err error) { done <- err })
	breaks := 0
	for answers := 0; answers < 2; {
		select {
		case err := <-done:
			if answers++; err != nil {
				t.Errorf("answer %d: %v", answers, err)
			}
		case <-time.After(15 * time.Millisecond):
			if breaks++; breaks < 20 {
				c.wire.breakAll()
			}
		}
	}
	if breaks == 0 {
		t.Skip("done before a stream could be broken")
	}
	if n := c.same(); n != 2 {
		t.Errorf("%d bodies, want 2", n)
	}
	if got, _, ended := m.box.counts(); got != 2 || ended != 0 {
		t.Errorf("%d effects, %d ends of the epoch; want 2 and 0", got, ended)
	}
}
