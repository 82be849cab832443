package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/frontend"
)

// Config is the AMQP listeners of a node. A zero field stands for its default.
type Config struct {
	// Listen is host:port of the plaintext listener, empty for none (default, where there is no other: 127.0.0.1:5672). One
	// elsewhere than on loopback is refused.
	Listen string
	// ListenTLS is host:port of the listener with TLS, empty for none. TLS is its configuration.
	ListenTLS string
	TLS       *tls.Config
	// ListenWS and ListenWSS are host:port of the listeners for AMQP over WebSocket, in plaintext and with TLS, empty for none. What holds
	// for Listen and ListenTLS holds for them. Origins are the hosts whose web pages may connect (websocket.Accept).
	ListenWS, ListenWSS string
	Origins             []string
	// Dev permits ANONYMOUS, and connections without SASL, and loopback only.
	Dev bool
	// Users are who may connect, by SCRAM and, with a certificate, EXTERNAL; nil: only with Dev, and nobody has a name.
	Users Users
	// Plain permits PLAIN, over TLS or from this machine.
	Plain bool
	// Insecure permits a plaintext listener that others can reach; never with Dev.
	Insecure bool
	// Frontend is handed to package frontend; its Dev follows Dev.
	Frontend frontend.Config
	// Logger gets what goes wrong (default: discarded).
	Logger *slog.Logger
	// OnBusy is called with true when the first connection is accepted and with false when the last one is gone, in order. It
	// must not block.
	OnBusy func(busy bool)

	// TLSTimeout bounds the TLS handshake, and then the WebSocket's (default 5 s each); SASLTimeout and OpenTimeout the time from there until the SASL outcome and
	// from there until Open (default 10 s each).
	TLSTimeout, SASLTimeout, OpenTimeout time.Duration
	// WriteTimeout ends a connection whose socket takes nothing for so long (default 30 s).
	WriteTimeout time.Duration
	// StopTimeout bounds the wait for discharges in flight when Run is told to end (default 5 s).
	StopTimeout time.Duration
	// MaxPending and MaxPendingPeer bound the connections, in all and of one IP address, that have not been opened yet
	// (default 1,000 and 200; this machine's own addresses have no bound of their own). MaxConnections bounds all (default 10,000).
	MaxPending, MaxPendingPeer, MaxConnections int
}

// ErrConfig is wrapped by New's refusals of a configuration.
var ErrConfig = errors.New("oncemq: client listener")

// withDefaults is c with every zero field replaced.
func (c Config) withDefaults() Config {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	limit := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.TLSTimeout, 5*time.Second)
	def(&c.SASLTimeout, 10*time.Second)
	def(&c.OpenTimeout, 10*time.Second)
	def(&c.WriteTimeout, 30*time.Second)
	def(&c.StopTimeout, 5*time.Second)
	limit(&c.MaxPending, 1000)
	limit(&c.MaxPendingPeer, 200)
	limit(&c.MaxConnections, 10_000)
	if c.Listen == "" && c.ListenTLS == "" && c.ListenWS == "" && c.ListenWSS == "" {
		c.Listen = "127.0.0.1:5672"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Frontend.Dev = c.Dev
	return c
}

// Server is a node's listeners and their connections. It implements replica's Mailbox.
type Server struct {
	cfg       Config
	listeners []listener
	log       *slog.Logger
	guard     *guard

	mu      sync.Mutex
	node    *frontend.Node // nil until Run
	epoch   command.Epoch  // 0: none, nobody is accepted
	stopped bool
	last    uint64 // local keys, never used twice
	all     map[*conn]struct{}
	sockets int            // all that are accepted, opened or not
	pending map[string]int // of them, not opened, by address
	waiting int            // sum of pending
	drained bool           // Drain was called
	// away is how many that come until awayUntil are turned away.
	away      int
	awayUntil time.Time

	table    sync.Map // local → *conn, for Deliver
	orphans  orphans
	accepted atomic.Uint64
	panics   atomic.Uint64
	wg       sync.WaitGroup
}

// New checks the configuration and binds the listeners; it starts no goroutine. Close what isn't Run.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if !cfg.Dev && cfg.Users == nil {
		return nil, fmt.Errorf("%w: there are no users to let in: it needs users, or --dev, which lets everybody in from this machine", ErrConfig)
	}
	if secure := cmp.Or(cfg.ListenTLS, cfg.ListenWSS); secure != "" && cfg.TLS == nil {
		return nil, fmt.Errorf("%w %s: it needs a certificate and a key", ErrConfig, secure)
	}
	listeners, err := bind(&cfg)
	if err != nil {
		return nil, err
	}
	return &Server{
		cfg: cfg, listeners: listeners, log: cfg.Logger, guard: newGuard(), all: make(map[*conn]struct{}), pending: make(map[string]int),
		orphans: orphans{signal: make(chan struct{}, 1)},
	}, nil
}

// Addr is the plaintext listener's bound address, or the only one's; AddrTLS, AddrWS and AddrWSS those of the others, nil without one.
func (s *Server) Addr() net.Addr { return s.listeners[0].Addr() }

// AddrTLS see Addr.
func (s *Server) AddrTLS() net.Addr { return s.addr(true, false) }

// AddrWS see Addr.
func (s *Server) AddrWS() net.Addr { return s.addr(false, true) }

// AddrWSS see Addr.
func (s *Server) AddrWSS() net.Addr { return s.addr(true, true) }

func (s *Server) addr(secure, web bool) net.Addr {
	for _, l := range s.listeners {
		if (l.tls != nil) == secure && l.web == web {
			return l.Addr()
		}
	}
	return nil
}

// Exposed says whether others than this machine can reach a listener: there must be users then.
func (s *Server) Exposed() bool {
	for _, l := range s.listeners {
		if !l.loopback() {
			return true
		}
	}
	return false
}

// Run accepts connections, which propose to log, until ctx is done; then it answers the discharges in flight, closes its
// connections with amqp:connection:forced, and returns nil when all its goroutines have ended. While the node has no epoch
// connections are refused.
func (s *Server) Run(ctx context.Context, log frontend.Log) error {
	s.mu.Lock()
	node := frontend.New(s.cfg.Frontend, log)
	s.node = node
	node.EpochBegun(s.epoch)
	s.mu.Unlock()
	done := make(chan struct{})
	tended := make(chan struct{})
	go func() { defer close(tended); s.orphans.tend(node, done) }()
	closed := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() { defer close(closed); s.closeListeners() })
	err := s.acceptAll()
	if !unhook() {
		<-closed // or the address is still in use when Run has returned: who closes a listener that is being closed doesn't wait for the other
	}
	reason := "this node's listener failed: connect to another node"
	if ctx.Err() != nil {
		err, reason = nil, "this node stops: connect to another node"
	}
	s.stop(reason)
	timer := time.AfterFunc(s.cfg.StopTimeout, func() { s.stop(reason) })
	s.wg.Wait()
	timer.Stop()
	close(done)
	<-tended
	return err
}

// admit starts a connection, unless there are too many or the node can't serve any. A refused TCP connection is the only
// "not now" that no client takes for final (amqp.md 1.1).
func (s *Server) admit(nc net.Conn, l *listener) {
	s.accepted.Add(1)
	c := newConn(s, nc, l)
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	s.mu.Lock()
	refused := s.stopped || s.epoch == 0 || s.node == nil || s.sockets >= s.cfg.MaxConnections ||
		s.waiting >= s.cfg.MaxPending || !c.loopback && s.pending[c.host] >= s.cfg.MaxPendingPeer || s.turnedAway()
	if !refused {
		s.sockets++
		s.waiting++
		s.pending[c.host]++
		s.all[c] = struct{}{}
		s.wg.Add(1)
		s.busy(s.sockets == 1)
	}
	s.mu.Unlock()
	if refused {
		cancel()
		_ = nc.Close()
		return
	}
	go c.run(ctx)
}

// busy tells OnBusy, under mu, so that the calls are in order.
func (s *Server) busy(changed bool) {
	if changed && s.cfg.OnBusy != nil {
		s.cfg.OnBusy(s.sockets > 0)
	}
}

// register gives a connection that passed SASL its key; nil if the node can't serve it any more.
func (s *Server) register(c *conn) *frontend.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.epoch == 0 {
		return nil
	}
	s.last++
	c.local = s.last
	s.table.Store(s.last, c)
	return s.node
}

// opened takes a connection out of the count of pending ones, once.
func (s *Server) opened(c *conn) {
	s.mu.Lock()
	s.settle(c)
	s.mu.Unlock()
}

func (s *Server) settle(c *conn) {
	if !c.pending {
		return
	}
	c.pending = false
	s.waiting--
	if s.pending[c.host]--; s.pending[c.host] == 0 {
		delete(s.pending, c.host)
	}
}

// remove forgets a connection whose goroutines have ended.
func (s *Server) remove(c *conn) {
	s.mu.Lock()
	s.settle(c)
	delete(s.all, c)
	s.sockets--
	s.busy(s.sockets == 0)
	s.mu.Unlock()
	s.wg.Done()
}

// stop closes the listener and tells all connections to end; the second time they don't wait for anything. Those that are
// still in their SASL layer have nothing to lose.
func (s *Server) stop(reason string) {
	s.closeListeners()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for c := range s.all {
		if c.local == 0 {
			c.cancel()
			_ = c.socket.Close()
			continue
		}
		c.mail.stop(reason, false)
	}
}

// Close frees the listeners of a Server that is not Run.
func (s *Server) Close() error {
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Deliver implements replica's Mailbox: effects of one connection, in order; they are copied, and nothing blocks.
func (s *Server) Deliver(local uint64, effects []command.Effect) {
	if v, ok := s.table.Load(local); ok {
		if v.(*conn).mail.deliver(effects) {
			return
		}
	}
	for i := range effects {
		if effects[i].Kind == command.EffectConnOpened {
			s.orphans.add(effects[i])
		}
	}
}

// EpochBegun implements replica's Mailbox: connections are accepted from now on.
func (s *Server) EpochBegun(epoch command.Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = epoch
	if s.node != nil {
		s.node.EpochBegun(epoch)
	}
}

// EpochEnded implements replica's Mailbox: all connections are closed with amqp:connection:forced and none is accepted until
// the next epoch.
func (s *Server) EpochEnded(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = 0
	if s.node != nil {
		s.node.EpochEnded()
	}
	for c := range s.all {
		c.mail.endEpoch(reason)
	}
}

// Stats counts what happened since the start.
type Stats struct {
	Connections int    // open now
	Accepted    uint64 // since the start
	Panics      uint64 // connections closed by a recovered panic
}

// Stats is safe for concurrent use.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	n := s.sockets
	s.mu.Unlock()
	return Stats{Connections: n, Accepted: s.accepted.Load(), Panics: s.panics.Load()}
}
