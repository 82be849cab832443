package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/localcluster"
)

// The size of the workload.
const (
	nodes     = 3
	producers = 4
	workers   = 3
)

// startBound is how long three nodes may take from nothing to ready.
const startBound = 30 * time.Second

// ErrCheck is wrapped by Run's error when the run took place and a check failed.
var ErrCheck = errors.New("oncemq: the demo found faults")

// Demo is one run.
type Demo struct {
	cfg     Config
	out     io.Writer // progress, in lines
	begun   time.Time
	cluster *localcluster.Cluster
	// patience bounds one call of a program.
	patience time.Duration
	urls     func(first int) string // of the cluster, for a program
	checker  *Checker
	watch    stopwatch
	latency  latencies
	// homes are the addresses that the workers are connected to.
	homes [workers]atomic.Pointer[string]
	// numbers and receipts are the programs' own data: the last order of each producer,
	// and the last receipt of each worker that was committed.
	numbers    [producers]int
	receipts   [workers]int
	backlogged atomic.Bool // producers hold back
	kills      atomic.Int64
	pauses     atomic.Int64

	mu sync.Mutex // of out
}

// Run runs the demo: progress goes to out in plain lines, faults to faults. The error
// wraps ErrCheck where a check failed, and ErrConfig where a setting is wrong; any
// other means that the demo could not run. The result is there unless it could not.
func Run(ctx context.Context, cfg Config, out, faults io.Writer) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, err
	}
	dir, remove, err := makeDir(cfg.Dir)
	if err != nil {
		return Result{}, err
	}
	d := &Demo{cfg: cfg, patience: callTimeout, out: out, begun: time.Now(), checker: NewChecker(producers, workers)}
	res, err := d.run(ctx, dir, faults)
	if err == nil {
		return res, remove()
	}
	d.say("data and logs are kept in %s", dir)
	return res, err
}

// makeDir makes the directory of a run; remove undoes that.
func makeDir(dir string) (path string, remove func() error, err error) {
	if dir == "" {
		path, err = os.MkdirTemp("", "oncemq-demo-")
		return path, func() error { return os.RemoveAll(path) }, err
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return dir, func() error { return os.RemoveAll(dir) }, os.MkdirAll(dir, 0o700)
	case err != nil:
		return "", nil, err
	case len(entries) > 0:
		return "", nil, fmt.Errorf("%w: --dir %q: it isn't empty; allowed: an empty directory, or one that doesn't exist", ErrConfig, dir)
	}
	return dir, func() error {
		made, err := filepath.Glob(filepath.Join(dir, "*"))
		for _, name := range made {
			err = errors.Join(err, os.RemoveAll(name))
		}
		return err
	}, nil
}

// run starts the cluster, and takes care that it ends.
func (d *Demo) run(ctx context.Context, dir string, faults io.Writer) (res Result, err error) {
	d.cluster, err = localcluster.Start(localcluster.Config{Binary: d.cfg.Binary, Dir: dir, Nodes: nodes, SafetyOff: d.cfg.SafetyOff})
	if err != nil {
		return Result{}, err
	}
	defer func() {
		if closeErr := d.cluster.Close(); closeErr != nil && err == nil {
			fmt.Fprintln(faults, "STOP", closeErr)
			err = fmt.Errorf("%w: a node did not stop as it should", ErrCheck)
		}
	}()
	startCtx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	if err := d.cluster.WaitReady(startCtx); err != nil {
		return Result{}, err
	}
	d.introduce()
	d.urls = d.cluster.URLs
	workErr := d.workload(ctx, d.disturb)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	return d.judge(workErr, faults)
}

// judge sums up. workErr is what ended the workload early, if anything did.
func (d *Demo) judge(workErr error, faults io.Writer) (Result, error) {
	verdict := d.checker.Verdict()
	verdict.Report(faults)
	res := d.result(&verdict)
	if workErr != nil {
		fmt.Fprintln(faults, "STUCK", workErr)
		return res, fmt.Errorf("%w: the workload did not come to its end", ErrCheck)
	}
	if !verdict.OK() || res.Unknown > 0 && !d.cfg.SafetyOff {
		if res.Unknown > 0 {
			fmt.Fprintf(faults, "UNKNOWN %d calls could not tell their outcome\n", res.Unknown)
		}
		return res, ErrCheck
	}
	return res, nil
}

// workload runs everything that happens between the first order and the last receipt;
// orders are produced until disturb returns.
func (d *Demo) workload(ctx context.Context, disturb func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup // whatever must have ended before the verdict
	run := func(group *sync.WaitGroup, what string, index int, f func() error) {
		all.Add(1)
		group.Go(func() {
			defer all.Done()
			if err := f(); err != nil {
				cancel(fmt.Errorf("%s %d: %w", what, index+1, err))
			}
		})
	}
	defer all.Wait()
	defer cancel(nil)

	var auditing, working, producing, disturbing sync.WaitGroup
	auditUntil, stopAudit := context.WithCancel(ctx)
	defer stopAudit()
	workUntil, stopWork := context.WithCancel(ctx)
	defer stopWork()
	for i, a := range d.audits() {
		run(&auditing, "auditor", i, func() error {
			return d.persist(ctx, func() error { return d.audit(ctx, auditUntil, i, a.queue, a.tell) })
		})
	}
	for i := range workers {
		run(&working, "worker", i, func() error { return d.persist(ctx, func() error { return d.work(ctx, workUntil, i) }) })
	}
	produceUntil := make(chan struct{})
	for i := range producers {
		run(&producing, "producer", i, func() error { return d.persist(ctx, func() error { return d.produce(ctx, produceUntil, i) }) })
	}
	quiet := make(chan struct{})
	run(&disturbing, "observer", 0, func() error { return d.observe(ctx, quiet, cancel) })

	err := disturb(ctx)
	close(produceUntil)
	// Each stage ends when what it feeds on can't grow any more.
	producing.Wait()
	err = errors.Join(err, d.drain(ctx, ordersQueue))
	stopWork()
	working.Wait()
	err = errors.Join(err, d.drain(ctx, debitQueue, creditQueue, receiptsQueue))
	stopAudit()
	auditing.Wait()
	err = errors.Join(err, d.readDeadLetters(ctx))
	close(quiet)
	disturbing.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// persist runs a program. With safety on an error of a program is a fault of the
// broker and ends the demo; with safety off the program begins anew, since what its
// sessions stood on may be gone.
func (d *Demo) persist(ctx context.Context, program func() error) error {
	for {
		err := program()
		if err == nil || !d.cfg.SafetyOff || ctx.Err() != nil {
			return err
		}
		d.note("a program begins anew: %v", err)
		if err := wait(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// audits says which queues are emptied for what.
func (d *Demo) audits() []struct {
	queue string
	tell  func(record)
} {
	return []struct {
		queue string
		tell  func(record)
	}{
		{receiptsQueue, func(r record) { d.checker.Receipt(r.worker, r.receipt, r.id) }},
		{debitQueue, func(r record) { d.checker.Ledger(Debit, r.id, r.amount) }},
		{creditQueue, func(r record) { d.checker.Ledger(Credit, r.id, r.amount) }},
	}
}

// dial connects a program to the cluster, beginning at the node that first names.
func (d *Demo) dial(ctx context.Context, first int, onEvent func(oncemq.Event)) (*oncemq.Client, error) {
	call, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	client, err := oncemq.Dial(call, d.urls(first), &oncemq.Config{OnEvent: onEvent, Failover: oncemq.Failover{IgnoreServerList: true}})
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return client, nil
}

// hangUp closes a client, and doesn't wait long for it.
func (d *Demo) hangUp(client *oncemq.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := client.Close(ctx); err != nil {
		d.note("closing a client: %v", err)
	}
}
