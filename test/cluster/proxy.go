package cluster

import (
	"net"
	"sync"
	"testing"
)

// Proxy passes bytes between clients and one server, keeps the conditions set for each
// direction, and can do something harmful after an exact number of bytes.
type Proxy struct {
	Addr     string
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	pairs map[*pair]bool
	// armed: after left more bytes in direction toServer, act runs, once, and every
	// connection is cut. Not one byte more gets through.
	armed    bool
	toServer bool
	left     int
	act      func()
	passed   [2]int // bytes since Arm, by direction
	refuse   bool   // newcomers are reset
	came     int    // connections, those that were reset included
	waiting  [2]int // bytes that were read and have not passed, by direction
	weather  [2]weather
}

// pair is one connection and what stands behind it.
type pair struct {
	client, server net.Conn
	once           sync.Once
	done           chan struct{}
}

func (c *pair) close() {
	c.once.Do(func() {
		close(c.done)
		_ = c.client.Close()
		_ = c.server.Close()
	})
}

// The directions, as indexes.
const (
	toClient = 0
	toServer = 1
)

func direction(server bool) int {
	if server {
		return toServer
	}
	return toClient
}

// NewProxy starts a proxy in front of target. It ends with the test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, pairs: make(map[*pair]bool)}
	p.wg.Go(p.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Arm makes the proxy pass n more bytes to the server (or to the client), then call
// act and cut all connections. It counts anew.
func (p *Proxy) Arm(toServer bool, n int, act func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.toServer, p.left, p.act, p.passed = true, toServer, n, act, [2]int{}
}

// Disarm reports whether the proxy was still armed, that is, had not cut, and how
// many bytes have passed to the server and to the client since Arm.
func (p *Proxy) Disarm() (armed bool, passedToServer, passedToClient int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	armed, p.armed = p.armed, false
	return armed, p.passed[toServer], p.passed[toClient]
}

// Came counts the connections that clients have made, those included that found nobody behind the proxy.
func (p *Proxy) Came() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.came
}

// Waiting is how many bytes have come from one side and not passed to the other, such as those that a jam holds.
func (p *Proxy) Waiting(server bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting[direction(server)]
}

// wait adds to what Waiting counts.
func (p *Proxy) wait(server bool, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[direction(server)] += n
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

// cut is Cut for who holds mu.
func (p *Proxy) cut() {
	for c := range p.pairs {
		c.close()
	}
	clear(p.pairs)
}

// Refuse cuts all connections and resets each new one, until it is called with false.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse = on; on {
		p.cut()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if c := p.connect(client); c != nil {
			p.wg.Go(func() { p.pass(c, c.client, c.server, true) })
			p.wg.Go(func() { p.pass(c, c.server, c.client, false) })
		}
	}
}

// connect puts the server behind a new connection; nil: there is none.
func (p *Proxy) connect(client net.Conn) *pair {
	server, err := net.Dial("tcp", p.target)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.came++
	if err != nil || p.refuse {
		if err == nil {
			_ = server.Close()
		}
		// The client must see what it would see without us: nobody there.
		_ = client.(*net.TCPConn).SetLinger(0)
		_ = client.Close()
		return nil
	}
	for _, conn := range []net.Conn{client, server} {
		_ = conn.(*net.TCPConn).SetReadBuffer(kernelBuffer)
	}
	c := &pair{client: client, server: server, done: make(chan struct{})}
	p.pairs[c] = true
	return c
}

// pass passes what comes from from, until one side ends or the proxy cuts.
func (p *Proxy) pass(c *pair, from, to net.Conn, server bool) {
	pieces := make(chan piece, piecesUnderway)
	p.wg.Go(func() { p.read(c, from, pieces, server) })
	for b := range pieces {
		passed := p.await(c, server, b) && p.forward(to, b.bytes, server)
		p.wait(server, -len(b.bytes))
		if !passed {
			break
		}
	}
	c.close()
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
	for b := range pieces { // so that the reader ends
		p.wait(server, -len(b.bytes))
	}
}

// forward writes b, or the part of it that may still pass; false: cut.
func (p *Proxy) forward(to net.Conn, b []byte, server bool) bool {
	p.mu.Lock()
	if !p.armed {
		// Without the lock: the other side may have stopped reading.
		p.mu.Unlock()
		_, err := to.Write(b)
		return err == nil
	}
	defer p.mu.Unlock()
	cut := false
	if server == p.toServer {
		if len(b) > p.left {
			b, cut = b[:p.left], true
		}
		p.left -= len(b)
	}
	if len(b) > 0 {
		p.passed[direction(server)] += len(b)
		if _, err := to.Write(b); err != nil {
			return false
		}
	}
	if cut {
		p.armed = false
		if p.act != nil {
			p.act()
		}
		p.cut()
	}
	return !cut
}
