// Package cluster is package localcluster for tests: nodes of the real oncemq binary
// as child processes on loopback, whose faults are the test's. It adds what only tests
// need: the binary built once, disturbances, and proxies.
//
// A child dies with the test process and with the test that started it; a node that
// ends without having been told to fails the test. Methods are safe for concurrent
// use on different nodes.
package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/localcluster"
)

// ReadyBound is how long a node may take from its start to being ready.
const ReadyBound = 60 * time.Second

// Cluster is a set of nodes with one static list of peers.
type Cluster struct {
	*localcluster.Cluster
	Nodes []*Node
	tb    testing.TB
}

// Node is one child process, which may be killed and started again over the same
// directory and addresses.
type Node struct {
	*localcluster.Node
	tb testing.TB
}

// Build builds the binary, once, and says where it is; $ONCEMQ where that is set.
func Build() (path string, err error) {
	if path := os.Getenv("ONCEMQ"); path != "" {
		return path, nil
	}
	return build()
}

var build = sync.OnceValues(func() (string, error) { return BuildWith() })

// BuildWith builds the binary with further arguments of "go build", such as build tags, each time.
func BuildWith(args ...string) (string, error) {
	dir, err := os.MkdirTemp("", "oncemq-test-bin")
	if err != nil {
		return "", err
	}
	// In the product's own module: this one's go.sum knows only what the tests need.
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/oncemq/oncemq").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module to build: %w", err)
	}
	out := filepath.Join(dir, "oncemq")
	cmd := exec.Command("go", append(append([]string{"build", "-o", out}, args...), "./cmd/oncemq")...)
	cmd.Dir = strings.TrimSpace(string(root))
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building oncemq: %w\n%s", err, text)
	}
	// Nodes may run as other users.
	return out, os.Chmod(dir, 0o755)
}

// Binary is the path that Build gives.
func Binary(tb testing.TB) string {
	tb.Helper()
	path, err := Build()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Start starts n nodes and waits until all are ready.
func Start(tb testing.TB, n int) *Cluster {
	tb.Helper()
	return StartWith(tb, localcluster.Config{Dir: tb.TempDir(), Nodes: n})
}

// StartWith is Start with settings, of which Binary may be empty. The test fails where
// a node ended by itself or did not stop as it should, and then shows the logs.
func StartWith(tb testing.TB, cfg localcluster.Config) *Cluster {
	tb.Helper()
	if cfg.Binary == "" {
		cfg.Binary = Binary(tb)
	}
	inner, err := localcluster.Start(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	c := &Cluster{Cluster: inner, tb: tb}
	for _, n := range inner.Nodes() {
		c.Nodes = append(c.Nodes, &Node{Node: n, tb: tb})
	}
	tb.Cleanup(c.finish)
	for _, node := range c.Nodes {
		node.WaitReady()
	}
	return c
}

// finish stops all nodes and says what was wrong with them.
func (c *Cluster) finish() {
	if err := c.Close(); err != nil {
		c.tb.Error(err)
	}
	for {
		select {
		case e := <-c.Unexpected():
			c.tb.Error(e.Err)
			continue
		default:
		}
		break
	}
	if !c.tb.Failed() {
		return
	}
	for _, n := range c.Nodes {
		text, err := os.ReadFile(n.LogPath)
		if err != nil {
			continue
		}
		c.tb.Logf("log of node %d:\n%s", n.ID, text[max(0, len(text)-8000):])
	}
}

// URLs is the address list for clients, amqp://host:port,….
func (c *Cluster) URLs() string { return c.Cluster.URLs(0) }

// Leader is the node that leads; it waits up to 20 s for one.
func (c *Cluster) Leader() *Node {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	n, err := c.Cluster.Leader(ctx)
	if err != nil {
		c.tb.Fatal(err)
	}
	return c.Nodes[n.ID-1]
}

// Start starts the node's process, without waiting for it.
func (n *Node) Start() {
	n.tb.Helper()
	if err := n.Node.Start(); err != nil {
		n.tb.Fatal(err)
	}
}

// Signal sends a signal to the node's process; it may be gone already.
func (n *Node) Signal(sig syscall.Signal) { _ = n.Node.Signal(sig) }

// Kill is kill -9, and returns when the process is gone.
func (n *Node) Kill() {
	n.Signal(syscall.SIGKILL)
	n.Wait()
}

// WaitReady returns when /readyz answers 200, after ReadyBound at most.
func (n *Node) WaitReady() {
	n.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ReadyBound)
	defer cancel()
	if err := n.Node.WaitReady(ctx); err != nil {
		n.tb.Fatal(err)
	}
}
