package cluster

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/localcluster"
)

// The targets for a node that missed a gigabyte, while sends run at a quarter of their highest rate.
const (
	wantLogRate      = 20.0 // MB/s
	wantLogOverLoad  = 3.0  // times what arrives
	wantSnapshotRate = 60.0 // MB/s
	wantSendsKept    = 0.9
)

// TestCatchUp measures how a node that missed much comes back, by the log and by a snapshot, and what the sends notice of it.
// It is for a machine that does nothing else: ONCEMQ_CATCHUP is the number of megabytes that the node misses, 1000 for the
// targets. Numbers below the targets fail it.
func TestCatchUp(t *testing.T) {
	megabytes, err := strconv.Atoi(os.Getenv("ONCEMQ_CATCHUP"))
	if err != nil {
		t.Skip("a measurement; ONCEMQ_CATCHUP is the number of megabytes that a node is to miss, such as 1000")
	}
	for name, flags := range map[string][]string{"by log": nil, "by snapshot": {"--retain-log", "32MiB", "--flush-log", "64MiB"}} {
		t.Run(name, func(t *testing.T) {
			m := catchUp(t, flags, int64(megabytes)<<20)
			t.Logf("%s: %s", name, m)
			if name == "by log" && (m.rate < wantLogRate || m.rate < wantLogOverLoad*m.arrival) || name == "by snapshot" && m.rate < wantSnapshotRate {
				t.Errorf("too slow: %s", m)
			}
			if m.kept < wantSendsKept {
				t.Errorf("sends keep %.2f of their rate, want %.2f", m.kept, wantSendsKept)
			}
		})
	}
}

// caughtUp is the outcome of a measurement.
type caughtUp struct {
	rate    float64 // MB of message bodies a second, missed and arrived meanwhile
	arrival float64 // MB/s
	kept    float64 // of the sends' rate
	took    time.Duration
	highest float64 // messages a second, while nothing was wrong
}

func (m caughtUp) String() string {
	f := func(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	return f(m.rate, 1) + " MB/s while " + f(m.arrival, 1) + " MB/s arrive, in " + m.took.Round(10*time.Millisecond).String() +
		"; sends keep " + f(m.kept, 2) + " of a quarter of " + f(m.highest, 0) + " a second"
}

// catchUp measures once.
func catchUp(t *testing.T, flags []string, missed int64) (m caughtUp) {
	const size = 1024
	c := StartWith(t, localcluster.Config{Dir: t.TempDir(), Nodes: 3, Flags: flags})
	l := startLoad(t, c.URLs(), "orders", 4, size)
	rateOver := func(d time.Duration) float64 {
		began, before := time.Now(), l.acked.Load()
		<-time.After(d)
		return float64(l.acked.Load()-before) / time.Since(began).Seconds()
	}
	rateOver(2 * time.Second) // warm up
	m.highest = rateOver(5 * time.Second)

	n := c.follower()
	n.Kill()
	from := l.acked.Load()
	eventually(t, 10*time.Minute, "the node misses enough", func() bool { return (l.acked.Load()-from)*size >= missed })
	if flags != nil {
		c.outrun(n)
	}
	l.rate.Store(int64(m.highest / 4))
	rateOver(3 * time.Second) // let the disks settle
	quarter := rateOver(5 * time.Second)

	n.Start()
	began, before := time.Now(), l.acked.Load()
	eventually(t, 10*time.Minute, "the node has caught up", func() bool {
		return n.applied() > 0 && n.applied() >= c.Leader().applied() && readyz(n)
	})
	m.took = time.Since(began)
	arrived := l.acked.Load() - before
	m.arrival = float64(arrived*size) / m.took.Seconds() / 1e6
	m.rate = float64((before-from+arrived)*size) / m.took.Seconds() / 1e6
	m.kept = float64(arrived) / m.took.Seconds() / quarter
	l.stop()
	if generation := n.generation(); (generation != "") != (flags != nil) {
		t.Errorf("the node's generation is %q", generation)
	}
	if installed := n.says("a checkpoint is installed"); installed > 1 {
		t.Errorf("%d checkpoints were installed, one after the other: the log didn't wait for the first", installed)
	}
	return m
}

// readyz reports that a node is ready.
func readyz(n *Node) bool {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+n.Admin+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := statusClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
