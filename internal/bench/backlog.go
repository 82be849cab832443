package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/localcluster"
	"github.com/oncemq/oncemq/internal/store"
)

// BacklogConfig says how deep a backlog to build, on a lone node that the benchmark starts.
type BacklogConfig struct {
	Config // Connections, Outstanding, Size, and Duration, that of one round of the comparison of rates
	// Messages is how many lie in all queues together, Queues in how many.
	Messages, Queues int
	// Settle is how long a probe goes on at least around a purge or a deletion: what these leave to be done later shows in it.
	Settle time.Duration
	// Rounds is how often the rate into the deep queues is held against that into an empty one.
	Rounds int
	// NodeFlags are added to the node's command line.
	NodeFlags []string
	// Binary is the program, Dir an empty directory for the node.
	Binary, Dir string
	// Progress takes one line a phase.
	Progress io.Writer
}

// Validate says which value is wrong, why, and what is allowed.
func (c BacklogConfig) Validate() error {
	err := within(
		bounded{"messages", c.Messages, 1000, 100_000_000},
		bounded{"queues", c.Queues, 1, min(c.Messages, 100_000)},
		bounded{"rounds", c.Rounds, 0, 100},
	)
	if err != nil {
		return err
	}
	if c.Settle < 0 || c.Settle > 10*time.Minute {
		return fmt.Errorf("%w: --settle %v: allowed: 0s to 10m", ErrConfig, c.Settle)
	}
	return c.Config.Validate()
}

// backlog is one run.
type backlog struct {
	BacklogConfig
	cluster *localcluster.Cluster
	node    *localcluster.Node
	queues  []string
	waiting int // messages in queues
	res     Backlog
}

// RunBacklog fills a node's queues and measures what the backlog costs: memory, restarts, the rate of sends, and how long others
// wait while it grows, is purged, grows again and is deleted.
func RunBacklog(ctx context.Context, c BacklogConfig) (res Backlog, err error) {
	b := &backlog{BacklogConfig: c}
	b.res.Messages, b.res.Queues, b.res.Size = c.Messages, c.Queues, c.Size
	for i := range c.Queues {
		b.queues = append(b.queues, fmt.Sprintf("backlog.%d", i))
	}
	d, err := store.MeasureSync(c.Dir)
	if err == nil {
		b.res.DiskBytesPerS, err = store.MeasureWrite(c.Dir)
	}
	if err != nil {
		return b.res, err
	}
	b.res.SyncUS = d.Microseconds()
	b.cluster, err = localcluster.Start(localcluster.Config{Binary: c.Binary, Dir: c.Dir, Nodes: 1, Flags: c.NodeFlags})
	if err != nil {
		return b.res, err
	}
	defer func() { err = errors.Join(err, b.cluster.Close()) }()
	b.node = b.cluster.Nodes()[0]
	if err := b.waitReady(ctx); err != nil {
		return b.res, err
	}
	return b.res, b.run(ctx)
}

func (b *backlog) run(ctx context.Context) error {
	idle, err := usage(ctx, b.node.Admin, true)
	if err != nil {
		return err
	}
	b.res.Idle = idle
	if err := b.create(ctx); err != nil {
		return err
	}
	tenth := b.Messages / 10
	for _, step := range []func() error{
		func() error { return b.phase(ctx, "growth to a tenth", func() error { return b.fill(ctx, tenth) }) },
		func() error { return b.restarts(ctx) },
		func() error { return b.phase(ctx, "growth", func() error { return b.fill(ctx, b.Messages) }) },
		func() error { return b.memory(ctx) },
		func() error { return b.restarts(ctx) },
		func() error { return b.rates(ctx) },
		func() error {
			return b.phase(ctx, "purge", func() error { return b.remove(ctx, http.MethodPost, "/purge") })
		},
		func() error { return b.create(ctx) },
		func() error { return b.phase(ctx, "growth again", func() error { return b.fill(ctx, b.Messages) }) },
		func() error {
			return b.phase(ctx, "deletion", func() error { return b.remove(ctx, http.MethodDelete, "") })
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	b.res.After, err = usage(ctx, b.node.Admin, true)
	return err
}

func (b *backlog) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	return b.cluster.WaitReady(ctx)
}

// phase runs one part with a probe beside it.
func (b *backlog) phase(ctx context.Context, name string, run func() error) error {
	before, err := usage(ctx, b.node.Admin, true)
	if err != nil {
		return err
	}
	probe, err := startProbe(ctx, b.cluster.URLs(0), "probe")
	if err != nil {
		return err
	}
	from, begin, machine, own := b.waiting, time.Now(), machineCPU(), processCPU()
	err = run()
	p := Phase{Name: name, Seconds: time.Since(begin).Seconds(), Messages: max(b.waiting-from, from-b.waiting)}
	p.Others, p.Bench = machineCPU()-machine, processCPU()-own
	var probeErr error
	p.Probe, probeErr = probe.end()
	if err = errors.Join(err, probeErr); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	after, err := usage(ctx, b.node.Admin, false)
	if err != nil {
		return err
	}
	p.Peak = after.Resident
	if after, err = usage(ctx, b.node.Admin, true); err != nil {
		return err
	}
	p.CPU, p.GCCPU = after.CPU-before.CPU, after.GCCPU-before.GCCPU
	p.Others = max(0, p.Others-p.Bench-p.CPU) / p.Seconds / float64(runtime.NumCPU())
	if p.Disk, err = diskUsed(b.node.Dir); err != nil {
		return err
	}
	b.res.Phases = append(b.res.Phases, p)
	b.say("%s: %s", name, p)
	return nil
}

func (b *backlog) say(format string, args ...any) { fmt.Fprintf(b.Progress, format+"\n", args...) }

// memory notes what the node holds now, before and after a collection.
func (b *backlog) memory(ctx context.Context) (err error) {
	if b.res.Garbage, err = usage(ctx, b.node.Admin, false); err != nil {
		return err
	}
	b.res.Full, err = usage(ctx, b.node.Admin, true)
	b.say("%s", b.res.Full.State)
	return err
}

// checkDepth holds the depth of the queues against what was sent.
func (b *backlog) checkDepth(ctx context.Context) error {
	var depth atomic.Int64
	err := b.eachName(func(name string) error {
		q, _, err := b.node.Queue(ctx, name)
		depth.Add(int64(q.Depth))
		return err
	})
	if n := depth.Load(); err == nil && n != int64(b.waiting) {
		err = fmt.Errorf("the queues hold %d messages, and %d were sent", n, b.waiting)
	}
	return err
}

// eachQueue makes one request to the admin port for each queue.
func (b *backlog) eachQueue(ctx context.Context, method, behind string) error {
	return b.eachName(func(name string) error {
		return admin.Call(ctx, b.node.Admin, method, "/api/v1/queues/"+url.PathEscape(name)+behind, nil, nil)
	})
}

// eachName calls fn for each queue's name, 32 at a time.
func (b *backlog) eachName(fn func(name string) error) error {
	var wg sync.WaitGroup
	names := make(chan string)
	errs := make([]error, 32)
	for i := range errs {
		wg.Go(func() {
			for name := range names {
				if err := fn(name); err != nil {
					errs[i] = fmt.Errorf("queue %s: %w", name, err)
				}
			}
		})
	}
	for _, name := range b.queues {
		names <- name
	}
	close(names)
	wg.Wait()
	return errors.Join(errs...)
}

func (b *backlog) create(ctx context.Context) error { return b.eachQueue(ctx, http.MethodPut, "") }

// remove purges or deletes all queues and waits until the jobs are done.
func (b *backlog) remove(ctx context.Context, method, behind string) error {
	begin := time.Now()
	if err := b.eachQueue(ctx, method, behind); err != nil {
		return err
	}
	b.say("  asked for after %v", time.Since(begin).Round(time.Millisecond))
	for jobs := 1; jobs > 0; {
		u, err := usage(ctx, b.node.Admin, false)
		if err != nil {
			return err
		}
		if jobs = u.Jobs; jobs > 0 {
			time.Sleep(20 * time.Millisecond)
		}
	}
	b.say("  done after %v", time.Since(begin).Round(time.Millisecond))
	b.waiting = 0
	time.Sleep(max(0, b.Settle-time.Since(begin)))
	return ctx.Err()
}

// fill sends until total messages wait.
func (b *backlog) fill(ctx context.Context, total int) error {
	n := total - b.waiting
	cs, err := dial(ctx, b.cluster.URLs(0), b.Connections)
	if err != nil {
		return err
	}
	defer cs.close()
	c := b.Config
	c.Queue = b.queues[0]
	if len(b.queues) > 1 {
		c.Queue = "" // the anonymous relay
	}
	lanes, err := openLanes(ctx, cs, c)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	far := time.Now().Add(240 * time.Hour)
	for i, l := range lanes {
		if len(b.queues) > 1 {
			for at := i; at < len(b.queues); at += len(lanes) {
				l.addresses = append(l.addresses, b.queues[at])
			}
		}
		count := n / len(lanes)
		if i < n%len(lanes) {
			count++
		}
		wg.Go(func() { l.run(ctx, far, far, count) })
	}
	wg.Wait()
	for _, l := range lanes {
		if l.failed != nil {
			return fmt.Errorf("filling: %w", l.failed)
		}
	}
	b.waiting = total
	return b.checkDepth(ctx)
}

// rates holds sends into the deep queue against sends into an empty one, by turns.
func (b *backlog) rates(ctx context.Context) error {
	var deep, empty []Result
	var used []string
	for i := range b.Rounds {
		c := b.Config
		c.URLs = b.cluster.URLs(0)
		for _, one := range []struct {
			queue string
			to    *[]Result
		}{{b.queues[0], &deep}, {fmt.Sprintf("empty.%d", i), &empty}} {
			c.Queue = one.queue
			r, err := Send(ctx, c)
			if err != nil {
				return err
			}
			*one.to = append(*one.to, r)
			b.say("round %d: %s: %.0f/s p99 %d us", i+1, c.Queue, r.PerS, r.P99)
		}
		used = append(used, c.Queue)
	}
	b.res.Deep, b.res.Empty = median("send, deep", deep), median("send, empty", empty)
	b.res.Ratio = medianRatio(deep, empty, func(r Result) float64 { return r.PerS })
	return forget(ctx, []string{b.node.Admin}, used...)
}

// restarts restarts the node after a kill and after an orderly stop.
func (b *backlog) restarts(ctx context.Context) error {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		r := Restart{Messages: b.waiting, After: signal.String()}
		begin := time.Now()
		if err := b.node.Signal(signal); err != nil {
			return err
		}
		b.node.Wait()
		r.StopS = time.Since(begin).Seconds()
		begin = time.Now()
		if err := b.node.Start(); err != nil {
			return err
		}
		if err := b.waitReady(ctx); err != nil {
			return err
		}
		r.ReadyS = time.Since(begin).Seconds()
		if err := b.firstDelivery(ctx); err != nil {
			return err
		}
		r.DeliveryS = time.Since(begin).Seconds()
		u, err := usage(ctx, b.node.Admin, false)
		if err != nil {
			return err
		}
		r.CPU = u.CPU
		b.res.Restarts = append(b.res.Restarts, r)
		b.say("restart with %d: %+v", b.waiting, r)
	}
	return nil
}

// firstDelivery receives one message and gives it back.
func (b *backlog) firstDelivery(ctx context.Context) error {
	cs, err := dial(ctx, b.cluster.URLs(0), 1)
	if err != nil {
		return err
	}
	defer cs.close()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := cs[0].OpenSession(ctx, nil)
	if err != nil {
		return err
	}
	r, err := s.NewReceiver(ctx, b.queues[0], &oncemq.ReceiverOptions{Prefetch: 1})
	if err != nil {
		return err
	}
	d, err := r.Receive(ctx)
	if err != nil {
		return fmt.Errorf("receiving from %s: %w", b.queues[0], err)
	}
	return d.Release(ctx)
}

// diskUsed is the size of all files under dir in bytes. Files may come and go meanwhile.
func diskUsed(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || e.IsDir():
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		total += info.Size()
		return err
	})
	return total, err
}

// sortedRestarts are the restarts by depth, for the report.
func sortedRestarts(all []Restart) []Restart {
	return slices.SortedStableFunc(slices.Values(all), func(a, b Restart) int { return a.Messages - b.Messages })
}
