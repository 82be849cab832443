package demo

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// say writes one line of progress.
func (d *Demo) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, "%6.1fs  %s\n", time.Since(d.begun).Seconds(), fmt.Sprintf(format, args...))
}

// note writes down what a program met and dealt with.
func (d *Demo) note(format string, args ...any) { d.say("note: "+format, args...) }

// introduce says what is about to happen.
func (d *Demo) introduce() {
	safety := "fsync on"
	if d.cfg.SafetyOff {
		safety = "SAFETY OFF: answers before replication and fsync"
	}
	var pids []int
	for _, n := range d.cluster.Nodes() {
		pids = append(pids, n.PID())
	}
	d.say("%d nodes on this machine (pids %v), %s, seed %d", nodes, pids, safety, d.cfg.Seed)
	d.say("workload: %d producers -> %s -> %d transactional workers (take an order, debit one ledger, credit another, send a receipt: one transaction) -> %s",
		producers, ordersQueue, workers, receiptsQueue)
	if d.cfg.NoKill {
		d.say("nothing is killed")
		return
	}
	d.say("every %v to %v: kill -9 of the leader, a follower or a worker's home, or kill -STOP for %v; what was killed is restarted after %v",
		d.cfg.KillMin, d.cfg.KillMax, pauseTime, downTime)
}

// progress writes the line of the second.
func (d *Demo) progress() {
	c := d.checker.Counts()
	d.say("sent %d  committed %d  in flight %d  DUPLICATED %d  out of order %d  unknown %d  kills %d  pauses %d  last failover %.2f s  p99 %.1f ms",
		c.Sent, c.Committed, c.Sent-c.Committed, c.Duplicated, c.Violations, c.Unknown, d.kills.Load(), d.pauses.Load(),
		d.watch.last(watchFailover).Seconds(), float64(d.latency.take99().Microseconds())/1000)
}

// latencies collects the commit latencies of the running second. It is safe for
// concurrent use.
type latencies struct {
	mu   sync.Mutex
	took []time.Duration
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, d)
}

// take99 is the 99th percentile since the last call, 0 where there was nothing.
func (l *latencies) take99() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.took) == 0 {
		return 0
	}
	slices.Sort(l.took)
	p99 := l.took[len(l.took)*99/100]
	l.took = l.took[:0]
	return p99
}
