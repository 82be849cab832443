package replica

import (
	"testing"
	"time"
)

// A disk that needs longer for a sync than the pause between two campaigns must not keep the
// nodes from electing: a candidate waits for its votes.
func TestElectionOnSlowDisks(t *testing.T) {
	const slow = 150 * time.Millisecond
	c := newCluster(t, 3, func(o *Options) {
		o.testFault = func() error {
			<-time.After(slow)
			return nil
		}
	})
	c.write(c.follower(), "before")
	c.kill(c.leader().id)
	begin := time.Now()
	c.write(c.leader(), "behind")
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("a leader and its first commit took %s", took)
	}
}
