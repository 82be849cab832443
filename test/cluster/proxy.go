package cluster

import (
	"net"
	"sync"
	"testing"
)

// Proxy passes bytes between clients and one node, and does something harmful after
// an exact number of bytes in one direction.
type Proxy struct {
	Addr     string
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	// armed: after left more bytes in direction toServer, act runs, once, and every
	// connection is cut. Not one byte more gets through.
	armed    bool
	toServer bool
	left     int
	act      func()
	passed   [2]int // bytes since Arm, to the client and to the server
}

// NewProxy starts a proxy in front of target. It ends with the test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, conns: make(map[net.Conn]bool)}
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
func (p *Proxy) Disarm() (armed bool, toServer, toClient int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	armed, p.armed = p.armed, false
	return armed, p.passed[1], p.passed[0]
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			// The client must see what it would see without us: nobody there.
			_ = client.(*net.TCPConn).SetLinger(0)
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(client, server, true) })
		p.wg.Go(func() { p.pass(server, client, false) })
	}
}

func (p *Proxy) pass(from, to net.Conn, toServer bool) {
	defer func() {
		_ = from.Close()
		_ = to.Close()
		p.mu.Lock()
		delete(p.conns, from)
		delete(p.conns, to)
		p.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.forward(to, buf[:n], toServer) {
			return
		}
		if err != nil {
			return
		}
	}
}

// forward writes b, or the part of it that may still pass; false: cut.
func (p *Proxy) forward(to net.Conn, b []byte, toServer bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	cut := false
	if p.armed && toServer == p.toServer {
		if len(b) > p.left {
			b, cut = b[:p.left], true
		}
		p.left -= len(b)
	}
	if len(b) > 0 {
		if toServer {
			p.passed[1] += len(b)
		} else {
			p.passed[0] += len(b)
		}
		if _, err := to.Write(b); err != nil {
			return false
		}
	}
	if cut {
		p.armed = false
		if p.act != nil {
			p.act()
		}
		for c := range p.conns {
			_ = c.Close()
		}
		clear(p.conns)
	}
	return !cut
}
