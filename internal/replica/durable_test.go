package replica

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/store"
)

// gates hold the disks of single nodes back.
type gates struct {
	mu      sync.Mutex
	shut    map[command.NodeID]chan struct{}
	waiting int // appends at a gate
}

// stopped reports that no majority can write: a third node may have nothing to write.
func (g *gates) stopped() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting >= 2
}

func (g *gates) openAll() {
	for id := command.NodeID(1); id <= 3; id++ {
		g.open(id)
	}
}

func (g *gates) close(id command.NodeID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut[id] = make(chan struct{})
}

func (g *gates) open(id command.NodeID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gate := g.shut[id]; gate != nil {
		close(gate)
		delete(g.shut, id)
	}
}

// options makes a node's appends wait at its gate.
func (g *gates) options(o *Options) {
	o.testFault = func() error {
		g.mu.Lock()
		gate := g.shut[o.Node]
		if gate != nil {
			g.waiting++
		}
		g.mu.Unlock()
		if gate != nil {
			<-gate
			g.mu.Lock()
			g.waiting--
			g.mu.Unlock()
		}
		return nil
	}
}

// C14: nothing is answered before a majority has it on disk, whichever of the disks are held
// back; and then it is.
func TestNothingIsAnsweredBeforeAMajoritySynced(t *testing.T) {
	t.Parallel() // mostly waiting
	g := &gates{shut: map[command.NodeID]chan struct{}{}}
	c := newCluster(t, 3, g.options)
	t.Cleanup(g.openAll) // before the nodes are closed
	leader := c.leader()
	var followers []command.NodeID
	for id := range c.peers {
		if id != leader.id {
			followers = append(followers, id)
		}
	}
	for _, tc := range []struct {
		name string
		held []command.NodeID
	}{
		{"both followers", followers},
		{"leader and a follower", []command.NodeID{leader.id, followers[0]}},
	} {
		for _, id := range tc.held {
			g.close(id)
		}
		answered := make(chan error, 1)
		if !leader.propose(body(tc.name), func(err error) { answered <- err }) {
			t.Fatal("no epoch")
		}
		select {
		case err := <-answered:
			t.Errorf("%s held back: answered (%v) with one disk of three", tc.name, err)
		case <-time.After(300 * time.Millisecond):
		}
		for _, id := range tc.held {
			g.open(id)
		}
		if err := <-answered; err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// C14: a vote counts once it is on disk: a candidate whose only other voter can't write
// isn't elected.
func TestVoteWaitsForTheDisk(t *testing.T) {
	t.Parallel() // mostly waiting
	g := &gates{shut: map[command.NodeID]chan struct{}{}}
	c := newCluster(t, 3, g.options)
	t.Cleanup(g.openAll) // before the nodes are closed
	held := c.follower()
	g.close(held.id)
	c.kill(c.leader().id)
	for end := time.After(time.Second); end != nil; {
		select {
		case <-end:
			end = nil
		case <-time.After(5 * time.Millisecond):
		}
		for _, m := range c.nodes {
			if s := m.Status(); s.Role == roleLeader {
				t.Fatalf("node %d leads term %d; the vote of node %d isn't on disk", m.id, s.Term, held.id)
			}
		}
	}
	g.open(held.id)
	c.leader()
}

// C14: all nodes lose power at once, in the middle of the work: what was answered is there
// afterwards, once.
func TestPowerLoss(t *testing.T) {
	t.Parallel() // mostly waiting
	disks := map[command.NodeID]store.FS{}
	for id := command.NodeID(1); id <= 3; id++ {
		disks[id] = store.NewMemFS()
	}
	g := &gates{shut: map[command.NodeID]chan struct{}{}}
	c := newCluster(t, 3, func(o *Options) {
		o.FS = disks[o.Node]
		o.Limits.SegmentBytes = 256 << 10
		g.options(o)
	})
	t.Cleanup(g.openAll)
	total := uint64(0)
	for round := range 6 {
		var answered, begun atomic.Uint64
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for _, m := range c.nodes {
			for w := range 3 {
				wg.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						case <-t.Context().Done():
							return
						default:
						}
						begun.Add(1)
						if m.RawWriter().Write(context.Background(), body(fmt.Sprint(round, m.id, w, i))) == nil {
							answered.Add(1)
						}
					}
				})
			}
		}
		c.wait("some work", func() bool { return answered.Load() > uint64(100+37*round) })
		// All at the same moment: a node that goes on while another's image is taken would be
		// one whose disk had lied.
		for id := range c.peers {
			g.close(id)
		}
		c.wait("all disks standing still", g.stopped)
		<-time.After(20 * time.Millisecond) // the third may be writing
		least := total + answered.Load()
		images := map[command.NodeID]store.FS{}
		for id, disk := range disks {
			images[id] = store.CrashFS(disk, uint64(round), 50*(round%2))
		}
		most := total + begun.Load()
		close(stop)
		g.openAll()
		for id := range c.peers {
			c.kill(id)
		}
		wg.Wait()
		disks = images
		for id := range c.peers {
			c.start(id)
		}
		c.ready()
		if total = c.same(); total < least || total > most {
			t.Fatalf("round %d: %d bodies after the loss of power, want %d (answered) to %d (begun)", round, total, least, most)
		}
	}
}
