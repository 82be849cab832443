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
	// Flags are added to the command line of every node.
	Flags []string
	// Data is the data directory of a node by its id; nil: as said at Dir.
	Data func(node int) string
	// Dial is the address at which node from finds node to, whose peer address is addr:
	// that of a proxy between the two. nil: addr itself.
	Dial func(from, to int, addr string) string
	// Wrap is a command that runs a node's command line, such as setpriv with its
	// flags, and must become it (exec), since signals go to it; nil or empty: none.
	Wrap func(node int) []string
}

// peers is the --peers of one node.
func (cfg *Config) peers(from int, all []*Node) string {
	var list []string
	for _, to := range all {
		addr := to.Peer
		if to.ID != from && cfg.Dial != nil {
			addr = cfg.Dial(from, to.ID, addr)
		}
		list = append(list, fmt.Sprintf("%d=%s", to.ID, addr))
	}
	return strings.Join(list, ",")
}

// node is one node, not started.
func (cfg *Config) node(id int, addrs []string) *Node {
	n := &Node{
		ID: id, AMQP: addrs[0], Peer: addrs[1], Admin: addrs[2],
		Dir:     filepath.Join(cfg.Dir, fmt.Sprintf("node%d", id)),
		LogPath: filepath.Join(cfg.Dir, fmt.Sprintf("node%d.log", id)),
	}
	if cfg.Data != nil {
		n.Dir = cfg.Data(id)
	}
	return n
}

// commandLine is what starts a node, whose fellows are all.
func (cfg *Config) commandLine(n *Node, all []*Node) []string {
	var line []string
	if cfg.Wrap != nil {
		line = append(line, cfg.Wrap(n.ID)...)
	}
	line = append(line, cfg.Binary, "serve", "--dev", "--node", strconv.Itoa(n.ID), "--data", n.Dir,
		"--listen", n.AMQP, "--admin", n.Admin, "--peers", cfg.peers(n.ID, all))
	if cfg.SafetyOff {
		line = append(line, "--safety", "off")
	}
	return append(line, cfg.Flags...)
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
	for i := range cfg.Nodes {
		n := cfg.node(i+1, addrs[3*i:3*i+3])
		n.cluster = c
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		n.line = cfg.commandLine(n, c.nodes)
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
