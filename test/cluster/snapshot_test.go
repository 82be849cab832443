package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/localcluster"
)

// load sends messages until it is stopped, at most so many a second.
type load struct {
	acked  atomic.Int64
	rate   atomic.Int64 // messages a second; 0: as many as go
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// startLoad sends messages of size bytes to a queue over some connections.
func startLoad(tb testing.TB, urls, queue string, connections, size int) *load {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel}
	for i := range connections {
		l.wg.Go(func() { l.run(ctx, tb, urls, queue, size, i, connections) })
	}
	tb.Cleanup(l.stop)
	return l
}

func (l *load) stop() { l.cancel(); l.wg.Wait() }

// open opens a sender on a connection of its own, which ends with ctx.
func (l *load) open(ctx context.Context, urls, queue string) (*oncemq.Sender, error) {
	client, err := oncemq.Dial(ctx, urls, nil)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { client.Close(context.Background()) })
	session, err := client.OpenSession(ctx, nil)
	if err != nil {
		return nil, err
	}
	return session.NewSender(ctx, queue, nil)
}

// run sends on one connection.
func (l *load) run(ctx context.Context, tb testing.TB, urls, queue string, size, nth, of int) {
	sender, err := l.open(ctx, urls, queue)
	if err != nil {
		if ctx.Err() == nil {
			tb.Errorf("sender %d: %v", nth, err)
		}
		return
	}
	body := make([]byte, size)
	receipts := make(chan *oncemq.Receipt, 128)
	var wg sync.WaitGroup
	wg.Go(func() {
		for r := range receipts {
			if r.Wait(ctx) == nil {
				l.acked.Add(1)
			}
		}
	})
	defer wg.Wait()
	defer close(receipts)
	next := time.Now()
	for ctx.Err() == nil {
		if rate := l.rate.Load(); rate > 0 {
			if next = next.Add(time.Second * time.Duration(of) / time.Duration(rate)); time.Until(next) > time.Millisecond {
				select {
				case <-time.After(time.Until(next)):
				case <-ctx.Done():
				}
			} else if time.Since(next) > time.Second {
				next = time.Now().Add(-time.Second) // what was missed for longer is not made up for
			}
		}
		receipt, err := sender.SendAsync(ctx, oncemq.NewMessage(body))
		if err != nil {
			if ctx.Err() == nil {
				tb.Errorf("sender %d: %v", nth, err)
			}
			return
		}
		receipts <- receipt
	}
}

// eventually polls a condition.
func eventually(tb testing.TB, bound time.Duration, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(bound); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s", bound, what)
		}
	}
}

var statusClient = &http.Client{Timeout: 2 * time.Second}

// says counts a text in the node's log.
func (n *Node) says(text string) int {
	b, err := os.ReadFile(n.LogPath)
	if err != nil {
		n.tb.Fatal(err)
	}
	return strings.Count(string(b), text)
}

// purge empties a queue.
func (c *Cluster) purge(queue string) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := admin.Call(ctx, c.Leader().Admin, http.MethodPost, "/api/v1/queues/"+queue+"/purge", nil, nil); err != nil {
		c.tb.Fatal(err)
	}
}

// follower is a node that doesn't lead.
func (c *Cluster) follower() *Node {
	return c.Nodes[c.Leader().ID%len(c.Nodes)]
}

// generation is the newest generation of a node's log and state that has a directory of its own; empty: none has.
func (n *Node) generation() (name string) {
	names, _ := filepath.Glob(filepath.Join(n.Dir, "gen-*"))
	for _, path := range names {
		name = max(name, filepath.Base(path))
	}
	return name
}

// segments are the lowest and the highest number of a node's log segments.
func (n *Node) segments() (lowest, highest uint64) {
	for _, pattern := range []string{"log", "gen-*/log"} {
		names, _ := filepath.Glob(filepath.Join(n.Dir, pattern, "*.seg"))
		for _, name := range names {
			seq, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(name), ".seg"), 16, 64)
			if err != nil {
				n.tb.Fatal(err)
			}
			if lowest == 0 || seq < lowest {
				lowest = seq
			}
			highest = max(highest, seq)
		}
	}
	return lowest, highest
}

// outrun waits until the logs of the other nodes have nothing more of what they had at first.
func (c *Cluster) outrun(behind *Node) {
	c.tb.Helper()
	var had [4]uint64
	for _, n := range c.Nodes {
		_, had[n.ID] = n.segments()
	}
	eventually(c.tb, 2*time.Minute, fmt.Sprintf("the logs of the others are cut above what node %d has", behind.ID), func() bool {
		for _, n := range c.Nodes {
			if lowest, _ := n.segments(); n != behind && lowest <= had[n.ID] {
				return false
			}
		}
		return true
	})
}

// smallLogs makes a node fall behind within a few megabytes.
var smallLogs = []string{"--retain-log", "4MiB", "--log-segment", "1MiB", "--flush-log", "4MiB"}

const smallBody = 4 << 10

// TestSnapshotUnderLoad: a follower is stopped (SIGSTOP, kill) while more is written than the logs keep, and gets a snapshot
// while sends go on; its connections are cut within and between the chunks, bits are flipped in them, and it is killed at any moment of fetching and
// installing. It comes back each time, equal, and no send fails (faults 8, 76, 77).
func TestSnapshotUnderLoad(t *testing.T) {
	proxies := map[[2]int]*Proxy{}
	c := StartWith(t, localcluster.Config{
		Dir: t.TempDir(), Nodes: 3, Flags: append([]string{"--snapshot-rate", "16MiB"}, smallLogs...),
		Dial: func(from, to int, addr string) string {
			p := NewProxy(t, addr)
			proxies[[2]int{from, to}] = p
			return p.Addr
		},
	})
	l := startLoad(t, c.URLs(), "orders", 2, smallBody)
	l.rate.Store(1500)
	eventually(t, time.Minute, "a message is acknowledged", func() bool { return l.acked.Load() > 0 })
	rng := rand.New(rand.NewPCG(1, 2))
	behind := func(n *Node, stop func()) {
		c.purge("orders") // so that the state doesn't grow over all rounds
		stop()
		c.outrun(n)
	}
	installed := func(n *Node, before string) {
		t.Helper()
		eventually(t, time.Minute, fmt.Sprintf("node %d installs a checkpoint", n.ID), func() bool { return n.generation() > before })
		n.WaitReady()
		if got := n.generation(); got <= before {
			t.Errorf("node %d has the generation %q again, as before", n.ID, got)
		}
	}

	n := c.follower()
	before := n.generation()
	behind(n, func() { n.Signal(syscall.SIGSTOP) })
	for range 4 { // what is on its way to it, up to 8 MiB, would do otherwise
		c.outrun(n)
	}
	n.Signal(syscall.SIGCONT)
	installed(n, before)

	// Cut within and behind the first chunks, and at random.
	n = c.follower()
	before = n.generation()
	behind(n, n.Kill)
	n.Start()
	for i := range 24 {
		at := 1 + i*(128<<10+12)/2 + rng.IntN(3)
		if i >= 16 {
			at = rng.IntN(4 << 20)
		}
		for pair, p := range proxies {
			if pair[0] != n.ID {
				continue
			}
			if p.Arm(false, at, func() {}); i%3 == 0 {
				p.Set(false, Conditions{Flip: true})
			}
		}
		<-time.After(time.Duration(20+rng.IntN(100)) * time.Millisecond)
	}
	for _, p := range proxies {
		p.Disarm()
	}
	installed(n, before)

	for i := range 8 {
		n = c.follower()
		before = n.generation()
		behind(n, n.Kill)
		fetched := n.says("a checkpoint is fetched")
		n.Start()
		if i%2 == 0 {
			// Right at the installation.
			eventually(t, time.Minute, "a checkpoint is fetched", func() bool { return n.says("a checkpoint is fetched") > fetched })
			<-time.After(time.Duration(rng.IntN(60)) * time.Millisecond)
		} else {
			<-time.After(time.Duration(rng.IntN(1500)) * time.Millisecond)
		}
		n.Kill()
		n.Start()
		installed(n, before)
	}
	l.stop()
	t.Logf("%d messages acknowledged", l.acked.Load())
	c.Same()
}
