package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/bench"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/frontend"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/server"
)

// stopTimeout bounds each stage of a graceful stop, the flush excepted.
const stopTimeout = 5 * time.Second

// Options are what a node needs besides its configuration.
type Options struct {
	Config config.Serve
	// Version is what /status and the AMQP properties show.
	Version string
	// Ready is written one line to when the node has a leader and its epoch.
	Ready io.Writer
	// Logger takes the node's log.
	Logger *slog.Logger
	// Fatal has to end the process: the node met what only a restart can heal.
	Fatal func(error)

	announced bool // Ready was written to, by an earlier life
}

// Node is one assembled node.
type Node struct {
	opts    Options
	server  *server.Server
	replica *replica.Replica
	admin   *admin.Server
	stop    draining

	announced atomic.Bool // Ready was written to
}

// Open binds the listeners and opens the data directory. It starts nothing.
func Open(opts Options) (*Node, error) {
	cfg := opts.Config
	n := &Node{opts: opts}
	var err error
	clients, admins := connections(descriptors())
	n.server, err = server.New(server.Config{
		Listen:         cfg.Listen,
		MaxConnections: clients,
		Dev:            cfg.Dev,
		Frontend: frontend.Config{
			ContainerID: fmt.Sprintf("oncemq-%d", cfg.Node),
			Version:     opts.Version,
			Dev:         cfg.Dev,
		},
		Logger: opts.Logger,
		// An idle node keeps up no lease and costs nothing.
		OnBusy: func(busy bool) { n.replica.WantLease(busy) },
	})
	if err != nil {
		return nil, err
	}
	peers := map[command.NodeID]string{}
	for id, addr := range cfg.Peers {
		peers[command.NodeID(id)] = addr
	}
	n.replica, err = replica.Open(replica.Options{
		Node:      command.NodeID(cfg.Node),
		Peers:     peers,
		Dir:       cfg.Data,
		SafetyOff: cfg.SafetyOff,
		Limits:    limits(cfg.Sizes),
		Mailbox:   n.server,
		Fatal:     opts.Fatal,
		Logger:    opts.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, n.server.Close())
	}
	n.admin, err = admin.Listen(admin.Config{
		Addr: cfg.Admin, MaxConnections: admins,
		Node:   &adminNode{replica: n.replica, stop: &n.stop, version: opts.Version, pid: os.Getpid()},
		Dev:    cfg.Dev,
		Routes: map[string]http.Handler{bench.RawPattern: bench.RawHandler(n.rawWriter)},
		Logger: opts.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, n.server.Close(), n.replica.Close())
	}
	return n, nil
}

// rawWriter gives the benchmark a way past the frontend.
func (n *Node) rawWriter() bench.RawWriter { return n.replica.RawWriter() }

// Run lives until ctx ends, then stops in order and returns nil. Any other end is an
// error.
func (n *Node) Run(ctx context.Context) error {
	// Each part outlives ctx until its turn to stop has come.
	base := context.WithoutCancel(ctx)
	serverCtx, stopServer := context.WithCancel(base)
	defer stopServer()
	adminCtx, stopAdmin := context.WithCancel(base)
	defer stopAdmin()
	failed := make(chan error, 3)
	var parts [3]chan struct{}
	start := func(i int, what string, run func() error) {
		parts[i] = make(chan struct{})
		go func() {
			defer close(parts[i])
			if err := run(); err != nil {
				failed <- fmt.Errorf("%s: %w", what, err)
			}
		}()
	}
	const theServer, theReplica, theAdmin = 0, 1, 2
	start(theServer, "AMQP listener", func() error { return n.server.Run(serverCtx, n.replica) })
	start(theReplica, "replica", func() error { return n.replica.Run(base) })
	start(theAdmin, "admin listener", func() error { return n.admin.Run(adminCtx) })

	err := n.announce(ctx, failed)
	if err == nil {
		select {
		case <-ctx.Done():
			n.opts.Logger.Info("stopping", "node", n.opts.Config.Node)
		case err = <-failed:
		}
	}

	n.stop.set()
	stopServer()
	<-parts[theServer]
	stopCtx, cancel := context.WithTimeout(base, stopTimeout)
	defer cancel()
	err = errors.Join(err, n.replica.Stop(stopCtx))
	<-parts[theReplica]
	stopAdmin()
	<-parts[theAdmin]
	return err
}

// announce waits until the node is ready and says so. nil means ready, or that ctx
// has ended.
func (n *Node) announce(ctx context.Context, failed <-chan error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for n.replica.Ready() != nil {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-tick.C:
		}
	}
	if n.announced.Store(true); n.opts.announced {
		return nil
	}
	st, cfg := n.replica.Status(), n.opts.Config
	_, err := fmt.Fprintf(n.opts.Ready, "ready: node %d of %d, leader %d, epoch %d, amqp://%s, admin http://%s, data %s, pid %d\n",
		cfg.Node, len(cfg.Peers), st.Leader, st.Epoch, n.server.Addr(), n.admin.Addr(), cfg.Data, os.Getpid())
	return err
}
