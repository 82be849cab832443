package cluster

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"
)

// Harassment counts what Harass did.
type Harassment struct {
	Kills, Pauses atomic.Int64
}

// Harass kills a random node with kill -9 every 3 to 5 s and starts it again 2 s
// later, or stops it for 2 s instead (one time in four), until ctx ends; the next
// event waits until the node is ready. It returns with all nodes running.
func (c *Cluster) Harass(ctx context.Context, seed uint64, h *Harassment) {
	rng := rand.New(rand.NewPCG(seed, 1))
	wait := func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for wait(3*time.Second + time.Duration(rng.Int64N(int64(2*time.Second)))) {
		n := c.Nodes[rng.IntN(len(c.Nodes))]
		if rng.IntN(4) == 0 {
			n.Signal(syscall.SIGSTOP)
			h.Pauses.Add(1)
			wait(2 * time.Second)
			n.Signal(syscall.SIGCONT)
		} else {
			n.Kill()
			h.Kills.Add(1)
			wait(2 * time.Second)
			n.Start()
		}
		n.WaitReady()
	}
}
