package oncemq

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/client"
	"github.com/oncemq/oncemq/internal/websocket"
)

// driver runs a client.Core: one goroutine that dials and keeps the time, one reader and one writer per socket, one for events.
// Whoever calls the core holds mu and calls after before it lets go of it.
type driver struct {
	cfg    Config
	web    bool                        // over WebSocket
	tls    func() (*tls.Config, error) // of the next dial; nil: plaintext
	wake   chan struct{}               // to run, capacity 1
	done   chan struct{}               // closed when run has ended
	wg     sync.WaitGroup
	notify chan struct{} // to the event goroutine, capacity 1

	mu     sync.Mutex // guards everything below, and the core with all that hangs on it
	core   *client.Core
	sock   *socket
	serial uint32 // of sock
	// binding is what the TLS layer of the last dial exports, for SCRAM.
	binding []byte
	armed   time.Time // what run's timer is set to
	queue   []Event
	up      *waiter // done at the first connection, or when the core is over
	first   bool    // up is done
}

// socket is one dial and what comes of it.
type socket struct {
	serial uint32
	cancel context.CancelFunc
	conn   net.Conn // nil while dialling; guarded by driver.mu
	kick   chan struct{}
}

// waiter is what waits for an operation's end.
type waiter struct{ ch chan struct{} }

func newWaiter() *waiter { return &waiter{ch: make(chan struct{})} }

func (w *waiter) finished() { close(w.ch) }

// completion is an Op's Data.
type completion interface{ finished() }

// after passes on what the core has to tell. Called with mu held.
func (d *driver) after() {
	for ev, ok := d.core.Next(); ok; ev, ok = d.core.Next() {
		switch ev.Kind {
		case client.Finished:
			if w, ok := ev.Op.Data.(completion); ok {
				w.finished()
			}
		case client.Queued:
			if r, ok := ev.Op.Data.(*Receipt); ok {
				r.handed()
			}
		case client.Available:
			if r, ok := ev.Receiver.Data.(*Receiver); ok {
				r.available()
			}
		default:
			d.tell(ev)
		}
	}
	if d.sock != nil && d.sock.conn != nil && d.core.HasOutput() {
		poke(d.sock.kick)
	}
	serial, _ := d.core.Socket()
	if at := d.core.Deadline(); serial != d.serial || d.core.Over() || !at.IsZero() && (d.armed.IsZero() || at.Before(d.armed)) {
		poke(d.wake)
	}
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run dials what the core wants and calls it when its time has come, until it is over.
func (d *driver) run() {
	defer d.wg.Done()
	defer close(d.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d.mu.Lock()
		now := time.Now()
		if at := d.core.Deadline(); !at.IsZero() && !now.Before(at) {
			d.core.Tick(now)
			d.after()
		}
		d.follow()
		over := d.core.Over()
		d.armed = d.core.Deadline()
		wait := time.Hour
		if !d.armed.IsZero() {
			wait = max(time.Until(d.armed), 0)
		}
		d.mu.Unlock()
		if over {
			return
		}
		timer.Reset(wait)
		select {
		case <-d.wake:
		case <-timer.C:
		}
	}
}

// follow makes the socket the one that the core wants. Called with mu held.
func (d *driver) follow() {
	serial, addr := d.core.Socket()
	if serial == d.serial {
		return
	}
	if d.sock != nil {
		d.sock.cancel()
		if d.sock.conn != nil {
			hangUp(d.sock.conn)
		}
		d.sock = nil
	}
	d.serial = serial
	if serial == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.sock = &socket{serial: serial, cancel: cancel, kick: make(chan struct{}, 1)}
	d.wg.Add(1)
	go d.connect(ctx, d.sock, addr)
}

// hangUp closes a socket at once: the Close of a TLS connection would first write to a peer that perhaps reads nothing, and wait for that.
func hangUp(c net.Conn) {
	if w, ok := c.(*websocket.Conn); ok {
		c = w.Conn
	}
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	_ = c.Close()
}

// connect dials and then reads until the socket breaks or isn't wanted any more.
func (d *driver) connect(ctx context.Context, s *socket, addr string) {
	defer d.wg.Done()
	defer s.cancel()
	conn, err := d.dial(ctx, addr)
	d.mu.Lock()
	if d.sock != s {
		d.mu.Unlock()
		if conn != nil {
			_ = conn.Close()
		}
		return
	}
	d.binding = nil
	if err == nil {
		d.binding = binding(conn)
	}
	d.core.Dialed(s.serial, err, time.Now())
	if err == nil {
		s.conn = conn
		d.wg.Add(1)
		go d.write(ctx, s)
		poke(s.kick)
	}
	d.after()
	d.mu.Unlock()
	if err == nil {
		d.read(s)
		_ = conn.Close()
	}
}

// binding is what the TLS layer of a connection exports, nil without one.
func binding(conn net.Conn) []byte {
	if w, ok := conn.(*websocket.Conn); ok {
		conn = w.Conn
	}
	if secure, ok := conn.(*tls.Conn); ok {
		return certs.Binding(secure.ConnectionState())
	}
	return nil
}

// dial opens the socket, with TLS and over WebSocket where the address list says so.
func (d *driver) dial(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Failover.ConnectTimeout)
	defer cancel()
	conn, err := d.dialSocket(ctx, addr)
	if err != nil || !d.web {
		return conn, err
	}
	return dialWeb(ctx, conn, addr)
}

// dialWeb makes the WebSocket handshake; a nil *websocket.Conn must not become a net.Conn.
func dialWeb(ctx context.Context, conn net.Conn, addr string) (net.Conn, error) {
	w, err := websocket.Connect(ctx, conn, addr, "/")
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (d *driver) dialSocket(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := d.cfg.DialContext(ctx, "tcp", addr)
	if err != nil || d.tls == nil {
		return conn, err
	}
	tc, err := d.tls()
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if tc.ServerName == "" {
		tc.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secure := tls.Client(conn, tc)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// readBuffer is the size that a connection's input begins with; it grows to a whole frame where need be.
const readBuffer = 64 << 10

func (d *driver) read(s *socket) {
	buf := make([]byte, readBuffer)
	have := 0
	for {
		if have == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		n, err := s.conn.Read(buf[have:])
		have += n
		d.mu.Lock()
		wanted := true
		if n > 0 {
			var used int
			used, wanted = d.core.Input(s.serial, buf[:have], time.Now())
			have = copy(buf, buf[used:have])
		}
		if err != nil && wanted {
			d.core.Lost(s.serial, err, time.Now())
			wanted = false
		}
		d.after()
		d.mu.Unlock()
		if !wanted {
			return
		}
	}
}

// write writes whatever has gathered, in one call, until the socket isn't wanted any more.
func (d *driver) write(ctx context.Context, s *socket) {
	defer d.wg.Done()
	var buf []byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		}
		for {
			runtime.Gosched() // who was woken with this goroutine may have something to write as well: one call for all
			d.mu.Lock()
			buf = d.core.TakeOutput(s.serial, buf[:0], time.Now())
			d.after()
			d.mu.Unlock()
			if len(buf) == 0 {
				break
			}
			if _, err := s.conn.Write(buf); err != nil {
				d.mu.Lock()
				d.core.Lost(s.serial, err, time.Now())
				d.after()
				d.mu.Unlock()
				return
			}
		}
	}
}

// wait waits for w or the context.
func (d *driver) wait(ctx context.Context, w *waiter) error {
	select {
	case <-w.ch:
		return nil
	case <-ctx.Done():
		select {
		case <-w.ch:
			return nil
		default:
			return ctx.Err()
		}
	}
}

// callTimeout bounds calls whose context has no deadline (contract.md, Defaults).
const callTimeout = 30 * time.Second

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}
