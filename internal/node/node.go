package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/bench"
	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/frontend"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/server"
	"github.com/oncemq/oncemq/internal/state"
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
	users   *users
	admin   *admin.Server
	links   *links
	tls     *certs.Listener // nil: no listener with TLS
	service *service
	stop    draining

	announced atomic.Bool // Ready was written to
}

// Open binds the listeners and opens the data directory. It starts nothing.
func Open(opts Options) (*Node, error) {
	pki, secure, err := resolve(&opts.Config)
	if err != nil {
		return nil, err
	}
	n := &Node{opts: opts, users: &users{logger: opts.Logger, making: make(chan struct{}, 1)}, links: &links{logger: opts.Logger}}
	n.service = &service{node: n}
	clients, admins := connections(descriptors())
	if err := n.listen(clients); err != nil {
		return nil, err
	}
	if secure {
		if n.links, err = openLinks(&opts.Config, pki, opts.Logger); err != nil {
			return nil, errors.Join(err, n.server.Close())
		}
	}
	if err := n.openReplica(); err != nil {
		return nil, errors.Join(err, n.server.Close(), n.links.close())
	}
	cfg := &n.opts.Config
	n.admin, err = admin.Listen(admin.Config{
		Addr: cfg.Admin, MaxConnections: admins, Users: n.users,
		Node:    &adminNode{replica: n.replica, stop: &n.stop, version: opts.Version, pid: os.Getpid(), service: n.service, certificates: n.certificates},
		Members: &members{node: n}, Leadership: &leadership{node: n}, Service: n.service,
		Backups: backups{n.replica}, Messages: messages{n.replica},
		Dev: cfg.Dev,
		Routes: map[string]http.Handler{
			bench.RawPattern:   bench.RawHandler(n.rawWriter),
			bench.UsagePattern: bench.UsageHandler(n.jobs, n.replica.StateReport),
		},
		Logger: opts.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, n.server.Close(), n.replica.Close())
	}
	return n, nil
}

// openReplica opens the data directory.
func (n *Node) openReplica() (err error) {
	cfg := &n.opts.Config
	peers := map[command.NodeID]string{}
	for id, addr := range cfg.Peers {
		peers[command.NodeID(id)] = addr
	}
	door := &doorman{links: n.links, logger: n.opts.Logger}
	n.replica, err = replica.Open(replica.Options{
		Node:      command.NodeID(cfg.Node),
		Peers:     peers,
		Name:      cfg.Name,
		Addresses: n.addresses(),
		Dir:       cfg.Data,
		SafetyOff: cfg.SafetyOff,
		Limits:    limits(cfg),
		Mailbox:   n.server,
		Fatal:     n.opts.Fatal,
		Version:   n.opts.Version,
		Logger:    n.opts.Logger,
		Listener:  n.links.listener, Security: n.links.security(), Joiner: door,
	})
	door.replica, n.users.replica = n.replica, n.replica
	return err
}

// addresses are where others reach this node: what the operator says, else where it listens.
func (n *Node) addresses() command.Addresses {
	cfg := &n.opts.Config
	a := command.Addresses{Peer: n.links.address, AMQP: cfg.AMQP, AMQPS: cfg.AMQPS, Admin: cfg.Admin}
	if a.AMQP == "" && cfg.Listen != "" {
		a.AMQP = bound(n.server.Addr())
	}
	if a.AMQPS == "" && cfg.ListenTLS != "" {
		a.AMQPS = bound(n.server.AddrTLS())
	}
	return a
}

// bound is a listener's address, empty where it is all of the machine's.
func bound(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return ""
	}
	return addr.String()
}

// listen binds the clients' listeners.
func (n *Node) listen(clients int) error {
	cfg := n.opts.Config
	var secure *tls.Config
	if cfg.Insecure {
		n.opts.Logger.Warn("messages can be read and changed by everybody on the way to and from clients: there is a listener without TLS that others can reach",
			"listen", cfg.Listen, "listen-ws", cfg.ListenWS, "flag", "--"+config.InsecureFlag)
	}
	if cfg.ListenTLS != "" || cfg.ListenWSS != "" {
		var err error
		n.tls, err = certs.NewListener(certs.Files{Cert: cfg.TLSCert, Key: cfg.TLSKey, ClientCA: cfg.TLSClientCA}, n.opts.Logger)
		if err != nil {
			return err
		}
		secure = n.tls.Config()
	}
	var err error
	n.server, err = server.New(server.Config{
		Listen:    cfg.Listen,
		ListenTLS: cfg.ListenTLS, TLS: secure,
		ListenWS: cfg.ListenWS, ListenWSS: cfg.ListenWSS, Origins: cfg.WSOrigins,
		MaxConnections: clients,
		Dev:            cfg.Dev, Users: n.users, Plain: cfg.Plain, Insecure: cfg.Insecure,
		Frontend: frontend.Config{
			ContainerID: fmt.Sprintf("oncemq-%d", cfg.Node),
			Version:     n.opts.Version,
			Dev:         cfg.Dev,
			Servers:     n.servers,
			Access:      func(principal string, _ frontend.Right, _ string) bool { return access(principal) },
			TxBytes:     PlanMemory(cfg.Sizes).Transactions,
		},
		Logger: n.opts.Logger,
		// An idle node keeps up no lease and costs nothing.
		OnBusy: func(busy bool) { n.replica.WantLease(busy) },
	})
	return err
}

// certificates are those that the node shows now.
func (n *Node) certificates() (all []admin.Certificate) {
	if n.links.peers != nil {
		all = append(all, admin.Certificate{For: "nodes", Expires: n.links.peers.Expires().UTC()})
	}
	if n.tls != nil {
		all = append(all, admin.Certificate{For: "clients", Expires: n.tls.Expires().UTC()})
	}
	return all
}

// rawWriter gives the benchmark a way past the frontend.
func (n *Node) rawWriter() bench.RawWriter { return n.replica.RawWriter() }

// jobs counts what state has under way that is larger than an entry.
func (n *Node) jobs(ctx context.Context) (int, error) {
	found := make(chan int, 1) // fn may still run after ctx has ended
	err := n.replica.Read(ctx, func(m *state.Machine) { found <- m.Jobs() })
	if err != nil {
		return 0, err
	}
	return <-found, nil
}

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

	tended := make(chan struct{})
	tendCtx, stopTending := context.WithCancel(base)
	defer stopTending()
	go func() { defer close(tended); n.links.tend(tendCtx) }()

	err := n.announce(ctx, failed)
	if err == nil {
		select {
		case <-ctx.Done():
			n.opts.Logger.Info("stopping", "node", n.opts.Config.Node)
		case err = <-failed:
		}
	}

	n.stop.set()
	stopTending()
	<-tended
	n.service.end()
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
	var err error
	for !n.ready(ctx, &err) {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-tick.C:
		}
	}
	if err != nil {
		return err
	}
	if n.announced.Store(true); n.opts.announced {
		return nil
	}
	st, cfg := n.replica.Status(), n.opts.Config
	var urls []string
	for _, l := range []struct {
		scheme, flag string
		addr         func() net.Addr
	}{{"amqp", cfg.Listen, n.server.Addr}, {"amqps", cfg.ListenTLS, n.server.AddrTLS}, {"ws", cfg.ListenWS, n.server.AddrWS}, {"wss", cfg.ListenWSS, n.server.AddrWSS}} {
		if l.flag != "" {
			urls = append(urls, l.scheme+"://"+l.addr().String())
		}
	}
	_, err = fmt.Fprintf(n.opts.Ready, "ready: node %d of %d, leader %d, epoch %d, %s, admin http://%s, data %s, pid %d\n",
		cfg.Node, len(st.Peers)+1, st.Leader, st.Epoch, strings.Join(urls, ", "), n.admin.Addr(), cfg.Data, os.Getpid())
	return err
}

// ready says whether the node can serve, or never will, which err says then.
func (n *Node) ready(ctx context.Context, err *error) bool {
	if n.replica.Ready() != nil {
		return false
	}
	if n.opts.Config.Dev {
		return true // loopback only, and everybody is let in
	}
	e := n.users.check(ctx, n.server.Exposed())
	if errors.Is(e, ErrNoUser) {
		*err = e
		return true
	}
	return e == nil // else there is no majority now
}
