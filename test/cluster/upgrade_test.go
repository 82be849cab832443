package cluster

import (
	"context"
	"crypto/sha256"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/localcluster"
)

// binaries are this level's, or that of a former release, and one of the next level, which the build tag makes.
func binaries(t *testing.T) (former, next string) {
	t.Helper()
	next, err := BuildWith("-tags", "nextlevel", "-ldflags", "-X main.version=v9.9.9")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(next)) })
	if former = os.Getenv("ONCEMQ_FORMER"); former == "" {
		former = Binary(t)
	}
	return former, next
}

// levels asks a node what the state says of levels.
func (n *Node) levels() (level, supported uint32) {
	var c admin.Cluster
	ctx, cancel := context.WithTimeout(context.Background(), statusClient.Timeout)
	defer cancel()
	if err := admin.Call(ctx, n.Admin, http.MethodGet, "/api/v1/cluster", nil, &c); err != nil {
		return 0, 0
	}
	return c.Level, c.Supported
}

// roll restarts all nodes, one after the other, as another binary, and sees that messages go on to be taken behind each.
func (c *Cluster) roll(l *load, binary string) {
	c.tb.Helper()
	for _, n := range c.Nodes {
		n.Signal(syscall.SIGTERM)
		n.Wait()
		n.SetBinary(binary)
		n.Start()
		n.WaitReady()
		l.more(c.tb, 200)
	}
}

// more waits until further messages were accepted.
func (l *load) more(tb testing.TB, n int64) {
	tb.Helper()
	from := l.acked.Load()
	eventually(tb, time.Minute, "messages are accepted", func() bool { return l.acked.Load() >= from+n })
}

// sums are the checksums of all files of a directory.
func sums(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	all := map[string][32]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = sha256.Sum256(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestUpgrade [7.1]: a rolling upgrade under load, one step back before finalize, up again, finalize; then the binary before
// refuses the directory, says what to run, and writes nothing. The next level changes what every entry writes and has a
// command of its own, so a node that went by its binary would differ, and end: which fails the test.
func TestUpgrade(t *testing.T) {
	former, next := binaries(t)
	c := StartWith(t, localcluster.Config{Binary: former, Dir: t.TempDir(), Nodes: 3})
	l := startLoad(t, c.URLs(), "orders", 2, 100)
	l.rate.Store(500)
	l.more(t, 100)
	before, _ := c.Nodes[0].levels()

	c.roll(l, next)
	if level, supported := c.Nodes[0].levels(); level != before || supported != before+1 {
		t.Fatalf("upgraded: level %d, supported %d; want %d and %d", level, supported, before, before+1)
	}
	c.roll(l, former)
	finalize := func(n *Node) (f admin.Finalized, err error) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err = admin.Call(ctx, n.Admin, http.MethodPost, "/api/v1/cluster/finalize", struct{}{}, &f)
		return f, err
	}
	// Two of three are not enough.
	for _, n := range c.Nodes[:2] {
		n.Signal(syscall.SIGTERM)
		n.Wait()
		n.SetBinary(next)
		n.Start()
		n.WaitReady()
	}
	if f, err := finalize(c.Nodes[0]); err == nil {
		t.Fatalf("finalized with a node of the version before: %+v", f)
	}
	c.roll(l, next)
	if f, err := finalize(c.Nodes[1]); err != nil || f.Was != before || f.Level != before+1 {
		t.Fatalf("%+v %v", f, err)
	}
	l.more(t, 500)
	eventually(t, time.Minute, "the next level's command is proposed", func() bool {
		n := 0
		for _, x := range c.Nodes {
			n += x.says("a census is proposed")
		}
		return n > 0
	})

	n := c.follower()
	n.Signal(syscall.SIGTERM)
	n.Wait()
	untouched := sums(t, n.Dir)
	n.SetBinary(former)
	n.ExpectEnd()
	n.Start()
	n.ExpectEnd()
	n.Wait()
	if n.ExitCode() != 1 || n.says("run oncemq v9.9.9 or newer") == 0 {
		t.Errorf("the version before ended with status %d, and says what to run %d times", n.ExitCode(), n.says("run oncemq v9.9.9 or newer"))
	}
	if !maps.Equal(untouched, sums(t, n.Dir)) {
		t.Error("the version before has written to the directory")
	}
	n.SetBinary(next)
	n.Start()
	n.WaitReady()
	l.more(t, 200)
	l.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if q, ok, err := c.Nodes[0].Queue(ctx, "orders"); err != nil || !ok || int64(q.Depth) < l.acked.Load() {
		t.Errorf("%d messages were accepted, %d are there: %v", l.acked.Load(), q.Depth, err)
	}
}
