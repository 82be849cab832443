package replica

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/raft/v3"
)

// A disk that needs longer for a sync than the pause between two campaigns must not keep the
// nodes from electing: a candidate waits for its votes.
func TestElectionOnSlowDisks(t *testing.T) {
	t.Parallel() // mostly waiting
	const slow = 150 * time.Millisecond
	c := newCluster(t, 3, func(o *Options) {
		o.testFault = func() error {
			<-time.After(slow)
			return nil
		}
	})
	c.write(c.follower(), "before")
	c.kill(c.leader().id)
	c.write(c.leader(), "behind") // waits for both, within the cluster's bound: without the growing pause there is never a leader
}

// A leader whose disk hangs hands over to those whose disks work; it comes back when its own
// does.
func TestHungDiskOfTheLeader(t *testing.T) {
	t.Parallel()           // mostly waiting
	var hung atomic.Uint64 // the node
	heal := make(chan struct{})
	c := newCluster(t, 3, func(o *Options) {
		o.testFault = func() error {
			if hung.Load() == uint64(o.Node) {
				<-heal
			}
			return nil
		}
	})
	release := sync.OnceFunc(func() { close(heal) })
	t.Cleanup(release) // before the cluster's own
	old, other := c.leader(), c.follower()
	c.write(other, "before")
	hung.Store(uint64(old.id))
	begin := time.Now()
	c.write(other, "meanwhile")
	c.wait("another leader", func() bool {
		s := other.Status()
		return s.Leader != 0 && s.Leader != old.id
	})
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("leadership moved after %s", took)
	}
	c.write(other, "under the new leader")
	hung.Store(0)
	release()
	c.ready()
	c.write(old, "healed")
	if n := c.same(); n != 4 {
		t.Errorf("%d bodies, want 4", n)
	}
}

// [4.5] While a leader's process stands still nobody can use a grace period: running time
// stands as well.
func TestRunningTimeStandsWithTheProcess(t *testing.T) {
	c := &core{
		limits: Limits{}.withDefaults(), role: raft.StateLeader, logger: slog.New(slog.DiscardHandler),
		epochs: newEpochs(), clock: logClock{running: 1000, voters: 1},
	}
	c.clock.elected(0)
	c.now = time.Minute
	c.woke(time.Minute)
	tick := c.limits.Tick.Milliseconds()
	if _, running := c.clock.times(c.now, 0); running < 1000 || running > 1000+tick {
		t.Errorf("running time went from 1000 to %d in a pause of a minute, want at most %d", running, 1000+tick)
	}
}
