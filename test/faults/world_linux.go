package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/demo"
	"github.com/oncemq/oncemq/internal/localcluster"
	"github.com/oncemq/oncemq/test/cluster"
)

const nodes = 3

// Options say what stands between and under the nodes of a World.
type Options struct {
	// Proxies puts one between every pair of nodes, each way, and one before every node.
	Proxies bool
	// Disks is the file system of each node's data; nil: the machine's.
	Disks func(w *World, node int) Disk
	// Wrap is localcluster.Config's.
	Wrap func(node int) []string
	// Flags are added to the nodes' command lines.
	Flags []string
	// Rate is the number of orders a second, at most; 0: 300.
	Rate int
	// Patience bounds one call of a program of the workload; 0: 30 s.
	Patience time.Duration
}

// World is a cluster and what can be made to fail around it. Its methods are for the
// test's goroutine, within Run's story.
type World struct {
	*cluster.Cluster
	tb         testing.TB
	dir        string // kept where the test fails
	options    Options
	peers      [nodes + 1][nodes + 1]*cluster.Proxy // by who dials and who is dialled, ids
	fronts     [nodes + 1]*cluster.Proxy            // before each node's AMQP port
	disks      [nodes + 1]Disk
	saidBefore [nodes + 1]int  // how often it has said that it recovers, when it was looked at last
	differs    [nodes + 1]bool // its state was made another, which it may say
	diary      *diary

	// Of the running story.
	ctx     context.Context
	checker *demo.Checker
	longest time.Duration // without a commit
}

// New starts a cluster. The test's end stops it.
func New(tb testing.TB, o Options) *World {
	tb.Helper()
	if o.Rate == 0 {
		o.Rate = 300
	}
	w := &World{tb: tb, options: o}
	w.makeDir()
	cfg := localcluster.Config{Dir: w.dir, Nodes: nodes, Wrap: o.Wrap, Flags: o.Flags}
	if o.Disks != nil {
		for id := 1; id <= nodes; id++ {
			w.disks[id] = o.Disks(w, id)
		}
		cfg.Data = func(node int) string { return filepath.Join(w.disks[node].Path(), "data") }
	}
	if o.Proxies {
		cfg.Dial = func(from, to int, addr string) string {
			p := cluster.NewProxy(tb, addr)
			w.peers[from][to] = p
			return p.Addr
		}
	}
	w.Cluster = cluster.StartWith(tb, cfg)
	if o.Proxies {
		for _, n := range w.Nodes {
			w.fronts[n.ID] = cluster.NewProxy(tb, n.AMQP)
		}
	}
	return w
}

// makeDir makes the directory of the world, which other users may read, and sees to
// its end.
func (w *World) makeDir() {
	w.tb.Helper()
	var err error
	if w.dir, err = os.MkdirTemp("", "oncemq-faults-"); err != nil {
		w.tb.Fatal(err)
	}
	if err := os.Chmod(w.dir, 0o777); err != nil { // nodes may run as other users
		w.tb.Fatal(err)
	}
	out, err := os.Create(filepath.Join(w.dir, "diary.log"))
	if err != nil {
		w.tb.Fatal(err)
	}
	w.diary = &diary{out: out, begun: time.Now()}
	w.tb.Cleanup(func() { // the first registered, so the last to run
		_ = out.Close()
		if w.tb.Failed() {
			w.tb.Logf("data, logs and the diary are kept in %s", w.dir)
			return
		}
		if err := os.RemoveAll(w.dir); err != nil {
			w.tb.Error(err)
		}
	})
}

// urls is the address list of a program, through the proxies where there are some.
func (w *World) urls(first int) string {
	if !w.options.Proxies {
		return w.Cluster.Cluster.URLs(first)
	}
	var list []string
	for i := range nodes {
		list = append(list, "amqp://"+w.fronts[(first+i)%nodes+1].Addr)
	}
	return strings.Join(list, ",")
}

// Run runs the workload while story disturbs it. When story returns, every fault must
// be healed and every process started; Run waits until all are ready and then lets
// the workload come to its end and be judged.
func (w *World) Run(story func()) demo.Result {
	w.tb.Helper()
	var faults strings.Builder
	load := demo.Workload{Cluster: w.Cluster.Cluster, URLs: w.urls, Rate: w.options.Rate, Patience: w.options.Patience, Out: w.diary, Faults: &faults}
	w.diary.begun = time.Now() // the workload's clock
	res, err := load.Run(w.tb.Context(), func(ctx context.Context, c *demo.Checker) error {
		w.ctx, w.checker = ctx, c
		w.Commits(100, 30*time.Second) // what is disturbed must run
		longest := w.pauses()
		defer func() { w.longest = longest() }()
		story()
		w.Note("healed")
		for _, n := range w.Nodes {
			n.WaitReady()
		}
		w.Commits(100, 30*time.Second)
		return nil
	})
	if err != nil {
		w.tb.Errorf("%v\n%s", err, faults.String())
	}
	w.readLogs()
	w.tb.Logf("sent %d, committed %d, rolled back %d, unknown %d; %v at most without a commit",
		res.Sent, res.Committed, res.RolledBack, res.Unknown, w.longest.Round(10*time.Millisecond))
	return res
}

// For waits; the test ends here when the workload could not go on.
func (w *World) For(d time.Duration) {
	w.tb.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
		w.tb.Fatalf("the workload ended early: %v", context.Cause(w.ctx))
	}
}

// Until polls cond every 10 ms; the test fails when it doesn't hold within limit.
func (w *World) Until(limit time.Duration, what string, cond func() bool) time.Duration {
	w.tb.Helper()
	begun := time.Now()
	for !cond() {
		if time.Since(begun) > limit {
			w.tb.Fatalf("waited %v in vain for %s", limit, what)
		}
		w.For(10 * time.Millisecond)
	}
	return time.Since(begun)
}

// Commits waits for n more commits, and says how long that took (K10).
func (w *World) Commits(n int, limit time.Duration) time.Duration {
	w.tb.Helper()
	before := w.checker.Counts().Committed
	took := w.Until(limit, fmt.Sprintf("%d commits", n), func() bool { return w.checker.Counts().Committed >= before+n })
	w.Note("%d commits after %v", n, took.Round(time.Millisecond))
	return took
}

// NoCommits requires that nothing is committed for d, after a grace in which answers
// that were under way may come.
func (w *World) NoCommits(grace, d time.Duration) {
	w.tb.Helper()
	w.For(grace)
	before := w.checker.Counts().Committed
	w.For(d)
	if after := w.checker.Counts().Committed; after != before {
		w.tb.Errorf("%d commits without a majority", after-before)
	}
}

// Term is raft's, as the leader has it.
func (w *World) Term() uint64 {
	w.tb.Helper()
	st, err := w.Leader().Status(w.ctx)
	if err != nil {
		w.tb.Fatal(err)
	}
	return st.Term
}

// Follower is a node that doesn't lead: number i of them, 0 or 1.
func (w *World) Follower(i int) *cluster.Node {
	w.tb.Helper()
	return w.Nodes[(w.Leader().ID+i)%nodes]
}

// Others are all nodes but n.
func (w *World) Others(n *cluster.Node) (list []*cluster.Node) {
	for _, other := range w.Nodes {
		if other.ID != n.ID {
			list = append(list, other)
		}
	}
	return list
}

// LeaderAmong waits until one of list leads, and says how long that took.
func (w *World) LeaderAmong(list []*cluster.Node, limit time.Duration) time.Duration {
	w.tb.Helper()
	took := w.Until(limit, "a new leader", func() bool {
		for _, n := range list {
			if st, err := n.Status(w.ctx); err == nil && st.Role == "leader" {
				return true
			}
		}
		return false
	})
	w.Note("new leader after %v", took.Round(time.Millisecond))
	return took
}

// Kill is kill -9.
func (w *World) Kill(list ...*cluster.Node) {
	for _, n := range list {
		n.Signal(syscall.SIGKILL)
		w.Note("kill -9 node %d", n.ID)
	}
	for _, n := range list {
		n.Wait()
	}
}

// Start starts nodes that have ended, and waits until they are ready.
func (w *World) Start(list ...*cluster.Node) {
	w.tb.Helper()
	for _, n := range list {
		n.Start()
		w.Note("node %d is started", n.ID)
	}
	for _, n := range list {
		n.WaitReady()
		w.Note("node %d is ready", n.ID)
	}
}

// StartEnded starts a node that may have ended by itself, without waiting for it.
func (w *World) StartEnded(n *cluster.Node) {
	w.tb.Helper()
	if err := n.Node.Start(); err != nil {
		w.Note("node %d has not ended", n.ID)
	}
}

// recovers is what a node says that has found its directory damaged and gets from the others what it lacks (C14).
const recovers = "recovers from the others"

// StartDamaged starts a node whose directory is damaged, or whose disk has forgotten what it had synced: it finds out, recovers
// from the others by itself, and is ready.
func (w *World) StartDamaged(n *cluster.Node) {
	w.tb.Helper()
	n.Start()
	w.Recovered(n)
}

// Recovered waits until a node has said that its directory is damaged, and then until it is ready.
func (w *World) Recovered(n *cluster.Node) {
	w.tb.Helper()
	w.saidBefore[n.ID]++
	took := w.Until(time.Minute, fmt.Sprintf("node %d to find the damage", n.ID), func() bool { return w.says(n, recovers) >= w.saidBefore[n.ID] })
	w.saidBefore[n.ID] = w.says(n, recovers)
	began := time.Now()
	n.WaitReady()
	w.Note("node %d found the damage after %v, and was ready %v later", n.ID, took.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// says counts the lines of a node's log with a text.
func (w *World) says(n *cluster.Node, text string) int {
	w.tb.Helper()
	log, err := os.ReadFile(n.LogPath)
	if err != nil {
		w.tb.Fatal(err)
	}
	return strings.Count(string(log), text)
}

// EndsWith waits until a node has ended by itself, which the story has caused, with
// the exit status that says so (K14).
func (w *World) EndsWith(n *cluster.Node, code int, limit time.Duration) {
	w.tb.Helper()
	done := make(chan struct{})
	go func() { n.Wait(); close(done) }()
	took := w.Until(limit, fmt.Sprintf("the end of node %d", n.ID), func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	w.Note("node %d ended after %v with status %d", n.ID, took.Round(time.Millisecond), n.ExitCode())
	if got := n.ExitCode(); got != code {
		w.tb.Errorf("node %d ended with status %d, want %d", n.ID, got, code)
	}
}

// differs is what a node says whose state isn't the others' (K8).
const differs = "state differs"

// badWords are what no log may have (K14).
var badWords = []string{"panic:", "DATA RACE", "fatal error:", "deadlock", differs}

// readLogs looks for badWords in all logs.
func (w *World) readLogs() {
	w.tb.Helper()
	for _, n := range w.Nodes {
		f, err := os.Open(n.LogPath)
		if err != nil {
			w.tb.Error(err)
			continue
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			for _, word := range badWords {
				if strings.Contains(lines.Text(), word) && !(w.differs[n.ID] && word == differs) {
					w.tb.Errorf("node %d wrote %q", n.ID, lines.Text())
				}
			}
		}
		if err := lines.Err(); err != nil {
			w.tb.Error(err)
		}
		_ = f.Close()
	}
}

// Note writes a line into the diary.
func (w *World) Note(format string, args ...any) { w.diary.note(format, args...) }

// diary is the history of a run: what went wrong and what the programs met, by time.
type diary struct {
	mu    sync.Mutex
	out   io.Writer
	begun time.Time
}

// Write takes the programs' lines.
func (d *diary) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.Write(b)
}

func (d *diary) note(format string, args ...any) {
	_, _ = fmt.Fprintf(d, "%6.1fs  FAULT %s\n", time.Since(d.begun).Seconds(), fmt.Sprintf(format, args...))
}
