package demo

import (
	"context"
	"io"
	"time"

	"github.com/oncemq/oncemq/internal/localcluster"
)

// Workload is the demo's programs and its checker on a cluster of three nodes that is
// the caller's, who disturbs it in ways of its own: internal to the project's tests.
type Workload struct {
	// Cluster is ready, and has none of the workload's queues.
	Cluster *localcluster.Cluster
	// URLs is the address list of a program, beginning at node number first (0 and up);
	// nil: the cluster's own. A proxy before each node makes it differ.
	URLs func(first int) string
	// Rate is the number of orders a second, at most: 1 to 100,000.
	Rate int
	// Patience bounds one call of a program; 0: 30 s. No disturbance may outlast it.
	Patience time.Duration
	// Out gets the progress in lines, Faults what is wrong.
	Out, Faults io.Writer
}

// Run runs the programs while disturb does; when it returns, all nodes must serve
// again: what was sent is then worked off and judged. disturb may ask the checker for
// its counts. The error wraps ErrCheck where a check failed: unknown outcomes are
// among them, since no disturbance may outlast a program's patience.
func (w *Workload) Run(ctx context.Context, disturb func(context.Context, *Checker) error) (Result, error) {
	d := &Demo{cfg: Config{Rate: w.Rate}, patience: w.Patience, out: w.Out, begun: time.Now(), checker: NewChecker(producers, workers), cluster: w.Cluster, urls: w.URLs}
	if d.patience == 0 {
		d.patience = callTimeout
	}
	if d.urls == nil {
		d.urls = w.Cluster.URLs
	}
	err := d.workload(ctx, func(ctx context.Context) error { return disturb(ctx, d.checker) })
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	return d.judge(err, w.Faults)
}
