package localcluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config says what to run.
type Config struct {
	// Binary is the oncemq executable.
	Binary string
	// Dir holds everything: data in node1, node2, …; logs in node1.log, ….
	Dir string
	// Nodes is 1 or 3.
	Nodes int
	// SafetyOff gives every node --safety off.
	SafetyOff bool
}

// Cluster is a set of nodes. Its methods are safe for concurrent use.
type Cluster struct {
	nodes      []*Node
	spawner    *spawner
	unexpected chan Ended
	closed     sync.Once
	err        error // of Close
}

// Start starts the nodes, and doesn't wait until they are ready. Close the cluster
// afterwards in any case but an error.
func Start(cfg Config) (*Cluster, error) {
	addrs, err := FreeAddrs(3 * cfg.Nodes)
	if err != nil {
		return nil, err
	}
	c := &Cluster{spawner: newSpawner(), unexpected: make(chan Ended, 16)}
	var peers []string
	for i := range cfg.Nodes {
		n := &Node{
			ID: i + 1, AMQP: addrs[3*i], Peer: addrs[3*i+1], Admin: addrs[3*i+2],
			LogPath: filepath.Join(cfg.Dir, fmt.Sprintf("node%d.log", i+1)),
			binary:  cfg.Binary, cluster: c,
		}
		peers = append(peers, fmt.Sprintf("%d=%s", n.ID, n.Peer))
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		n.args = []string{
			"serve", "--dev", "--node", strconv.Itoa(n.ID), "--data", filepath.Join(cfg.Dir, fmt.Sprintf("node%d", n.ID)),
			"--listen", n.AMQP, "--admin", n.Admin, "--peers", strings.Join(peers, ","),
		}
		if cfg.SafetyOff {
			n.args = append(n.args, "--safety", "off")
		}
		if err := n.Start(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Nodes are the nodes by id, from 1 on.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// URLs is the address list for a client. It begins with node number first (0 and up)
// and goes round, so that clients can be spread.
func (c *Cluster) URLs(first int) string {
	var urls []string
	for i := range c.nodes {
		urls = append(urls, "amqp://"+c.nodes[(first+i)%len(c.nodes)].AMQP)
	}
	return strings.Join(urls, ",")
}

// Ended is a node's process that ended without having been told to.
type Ended struct {
	Node *Node
	Err  error // names node, status and log
}

// Unexpected yields each node that ended without having been told to.
func (c *Cluster) Unexpected() <-chan Ended { return c.unexpected }

// WaitReady waits until every node answers /readyz with yes.
func (c *Cluster) WaitReady(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := n.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Leader returns the node that leads: the one with the highest term of those that
// say so. It asks until there is one.
func (c *Cluster) Leader(ctx context.Context) (*Node, error) {
	for {
		var leader *Node
		var term uint64
		for _, n := range c.nodes {
			if st, err := n.Status(ctx); err == nil && st.Role == "leader" && st.Term >= term {
				leader, term = n, st.Term
			}
		}
		if leader != nil {
			return leader, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("asking who leads: nobody does: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ByAMQP returns the node with this client address, or nil.
func (c *Cluster) ByAMQP(addr string) *Node {
	for _, n := range c.nodes {
		if n.AMQP == addr {
			return n
		}
	}
	return nil
}

// stopGrace is how long a node may take to stop when told to by SIGTERM: without a
// majority (all are stopped at once) its steps end by their time limits, about 6 s,
// and then it flushes, which a busy disk makes slow.
const stopGrace = 30 * time.Second

// Close stops all nodes by SIGTERM, and kills those that don't within 30 s. Its
// error names nodes that didn't stop properly.
func (c *Cluster) Close() error {
	c.closed.Do(func() {
		var wg sync.WaitGroup
		errs := make([]error, len(c.nodes))
		for i, n := range c.nodes {
			wg.Go(func() { errs[i] = n.stop(stopGrace) })
		}
		wg.Wait()
		c.spawner.close()
		c.err = errors.Join(errs...)
	})
	return c.err
}
