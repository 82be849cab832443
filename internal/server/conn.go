package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/frontend"
	"github.com/oncemq/oncemq/internal/websocket"
)

// lingerTime is how long a closed connection's last bytes may take to be seen before the socket is torn down: closing a
// socket with unread input would reset it, and the Close frame could be lost.
const lingerTime = time.Second

// maxRounds bounds the writes of one turn.
const maxRounds = 8

// conn is one accepted socket. run is its loop goroutine; it starts and waits for the reader and the writer.
type conn struct {
	s        *Server
	nc       net.Conn        // what is read and written: socket, tls, or ws
	socket   net.Conn        // the accepted socket
	tls      *tls.Conn       // nil: plaintext
	web      bool            // AMQP over WebSocket is wanted here
	ws       *websocket.Conn // nil: none, or not yet
	host     string          // see origin
	loopback bool            // the peer is on this machine
	cancel   context.CancelFunc
	pending  bool // guarded by Server.mu
	told     bool // to end, by a drain; guarded by Server.mu
	local    uint64
	fe       *frontend.Conn
	mail     mailbox
	got      mail

	input   chan chunk    // reader → loop
	eaten   chan int      // loop → reader: bytes consumed of the chunk
	output  chan pieces   // loop → writer
	written chan writeEnd // writer → loop

	held     chunk // what the reader waits for an answer to
	used     int   // how much of it is consumed
	holding  bool
	writing  bool
	spare    []byte
	probing  time.Time // when a probe is to be judged
	readOver bool      // the reader has ended, or is told to
	greeted  bool
	now      direct

	lingering sync.Mutex // guards limit and the deadlines of writes
	limit     time.Time  // of a connection that is over
}

// chunk is what the reader has: all bytes that are not consumed, or its end.
type chunk struct {
	b   []byte
	err error
}

type writeEnd struct {
	spare []byte
	err   error
}

func newConn(s *Server, nc net.Conn, l *listener) *conn {
	c := &conn{
		s: s, nc: nc, socket: nc, web: l.web, pending: true,
		mail:  mailbox{signal: make(chan struct{}, 1)},
		input: make(chan chunk), eaten: make(chan int),
		output: make(chan pieces, 1), written: make(chan writeEnd, 1),
	}
	c.host, c.loopback = origin(nc.RemoteAddr())
	if l.tls != nil {
		c.tls = tls.Server(nc, l.tls)
		c.nc = c.tls
	}
	if !c.web {
		c.now = newDirect(c.nc)
	}
	return c
}

// origin is what counts as one peer for limits and lock-outs, and whether it is this machine: the address without its port; of IPv6
// the network of 64 bits, all of whose addresses one machine can have.
func origin(peer net.Addr) (host string, loopback bool) {
	a, ok := peer.(*net.TCPAddr)
	if !ok {
		return peer.String(), false
	}
	if a.IP.IsLoopback() || a.IP.To4() != nil {
		return a.IP.String(), a.IP.IsLoopback()
	}
	return (&net.IPNet{IP: a.IP.Mask(net.CIDRMask(64, 128)), Mask: net.CIDRMask(64, 128)}).String(), false
}

// run is the connection's life.
func (c *conn) run(ctx context.Context) {
	defer c.s.remove(c)
	defer c.cancel()
	// The socket, never the TLS layer: closing that would write first, to a peer that perhaps reads nothing.
	defer func() { _ = c.socket.Close() }()
	defer c.recovered("connection", func() { c.abandon() })
	if !c.secure(ctx) || !c.upgrade() {
		return
	}
	rest, principal, ok := c.sasl(ctx)
	if !ok {
		return
	}
	node := c.s.register(c)
	if node == nil {
		return
	}
	defer c.retire()
	c.fe = node.NewConn(frontend.ConnOptions{Local: c.local, Principal: principal, Secure: c.tls != nil, Web: c.web, Barrier: c.mail.barrier, Browsed: c.mail.browsed}, time.Now())
	_ = c.nc.SetDeadline(time.Time{})
	_ = c.nc.SetReadDeadline(time.Now().Add(c.s.cfg.OpenTimeout))
	done := make(chan struct{}, 2)
	go func() { defer func() { done <- struct{}{} }(); c.read(rest) }()
	go func() { defer func() { done <- struct{}{} }(); c.write() }()
	defer func() {
		// The socket's end wakes the reader wherever it is; closing output ends the writer.
		_ = c.socket.Close()
		close(c.output)
		if c.holding {
			c.eaten <- -1
		}
		for n := 0; n < 2; {
			select {
			case <-done:
				n++
			case ck := <-c.input:
				if ck.err == nil {
					c.eaten <- -1
				}
			case <-c.written:
			}
		}
	}()
	c.loop()
}

// retire takes the connection out of the table. What came for it meanwhile may be the answer to a ConnOpen that was given
// up: the frontend ends it then.
func (c *conn) retire() {
	c.s.table.Delete(c.local)
	c.mail.close()
	c.mail.take(&c.got)
	defer c.recovered("retire", nil)
	if c.fe != nil && c.fe.Done() {
		c.fe.Effects(c.got.effects, time.Now())
	}
}

// recovered is deferred: a panic closes this connection only, and is counted.
func (c *conn) recovered(where string, then func()) {
	r := recover()
	if r == nil {
		return
	}
	c.s.panics.Add(1)
	c.s.log.Error("panic: the connection is closed", "where", where, "peer", c.nc.RemoteAddr(), "panic", r, "stack", string(debug.Stack()))
	defer func() { _ = recover() }() // the connection's state may be broken
	if then != nil {
		then()
	}
}

// abandon puts the end of a connection into the log whose loop has panicked.
func (c *conn) abandon() {
	if c.fe == nil {
		return
	}
	defer func() {
		if recover() != nil {
			c.fe.GiveUp()
		}
	}()
	c.fe.Lost(command.EndForced, time.Now())
}

// loop drives the frontend until the connection is over.
func (c *conn) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var armed time.Time
	for {
		now := time.Now()
		c.turn(now)
		if c.fe.Done() {
			c.finish()
			return
		}
		if wake := c.nextWake(); !wake.Equal(armed) {
			armed = wake
			timer.Reset(max(0, wake.Sub(now)))
		}
		input := c.input
		if c.holding || c.readOver {
			input = nil
		}
		select {
		case ck := <-input:
			c.take(ck, time.Now())
		case <-c.mail.signal:
			c.collect(time.Now())
		case w := <-c.written:
			c.wrote(w, time.Now())
		case <-timer.C:
			armed = time.Time{}
			c.fe.Tick(time.Now())
		}
	}
}

func (c *conn) nextWake() time.Time {
	wake := c.fe.Wake()
	if wake.IsZero() {
		wake = time.Now().Add(time.Second)
	}
	if !c.probing.IsZero() && c.probing.Before(wake) {
		wake = c.probing
	}
	return wake
}

// turn ends what one wake-up began: commands go to the log, bytes to the socket. Input that was held for want of output room
// goes on once the socket has taken some.
func (c *conn) turn(now time.Time) {
	for range maxRounds {
		if c.holding && !c.fe.Held() && !c.fe.Busy() {
			c.feed(now)
		}
		c.carry(now)
		if !c.holding || c.fe.Held() || c.fe.Busy() {
			return
		}
	}
	c.mail.wake()
}

func (c *conn) carry(now time.Time) {
	if !c.greeted && c.fe.Greeted() {
		c.greeted = true
		c.s.opened(c)
		_ = c.nc.SetReadDeadline(time.Time{})
	}
	c.judge(now)
	c.fe.Flush(now)
	c.put(now)
	c.fe.Flush(now)
}

// put writes what there is. What the socket takes at once is written here, which saves the writer's wake-up; only what it
// doesn't take goes to the writer. The lease was checked by TakeOutput, right before the write.
func (c *conn) put(now time.Time) {
	for rounds := 0; !c.writing; rounds++ {
		if rounds == maxRounds {
			c.mail.wake() // others first; there will be another turn
			return
		}
		b := c.fe.TakeOutput(c.spare, time.Now()) // now may be long ago for a lease
		c.spare = nil
		if len(b) == 0 {
			return
		}
		n := c.now.write(b)
		if n == len(b) {
			c.spare = b[:0]
			continue
		}
		c.writing = true
		c.output <- pieces{b, n}
		c.fe.WriteStuck(now)
	}
}

// take gives the reader's bytes to the frontend, or holds them.
func (c *conn) take(ck chunk, now time.Time) {
	if ck.err != nil {
		c.readOver = true
		cause := command.EndReset
		if errors.Is(ck.err, os.ErrDeadlineExceeded) || isTimeout(ck.err) {
			cause = command.EndSilent
		}
		c.fe.Lost(cause, now)
		return
	}
	c.held, c.used, c.holding = ck, 0, true
	if !c.fe.Busy() {
		c.feed(now)
	}
}

// feed hands the held bytes in; while the frontend holds its input the reader waits.
func (c *conn) feed(now time.Time) {
	c.used += c.fe.Input(c.held.b[c.used:], now)
	if c.fe.Held() {
		return
	}
	c.held, c.holding = chunk{}, false
	c.eaten <- c.used
}

// collect takes what others put into the mailbox.
func (c *conn) collect(now time.Time) {
	c.mail.take(&c.got)
	if len(c.got.effects) > 0 {
		c.fe.Effects(c.got.effects, now)
	}
	for _, b := range c.got.barriers {
		c.fe.BarrierDone(b.id, b.ok, now)
	}
	for _, s := range c.got.slices {
		c.fe.BrowseDone(s, now)
	}
	if c.got.ended {
		c.fe.EndEpoch(c.got.reason, now)
	}
	end := c.fe.Stop
	if c.got.moves {
		end = c.fe.Move
	}
	for range c.got.stops {
		end(c.got.reason, now)
	}
}

func (c *conn) wrote(w writeEnd, now time.Time) {
	c.writing = false
	c.spare = w.spare
	c.fe.WriteStuck(time.Time{})
	if w.err != nil {
		cause := command.EndReset
		if isTimeout(w.err) {
			cause = command.EndSilent
		}
		c.fe.Lost(cause, now)
	}
}

// judge starts a probe and ends it: a peer whose TCP has acknowledged everything within 3 s lives [1.5].
func (c *conn) judge(now time.Time) {
	if c.fe.TakeProbe() && c.probing.IsZero() {
		c.probing = now.Add(3 * time.Second)
	}
	if c.probing.IsZero() || now.Before(c.probing) {
		return
	}
	c.probing = time.Time{}
	if c.writing || unacknowledged(c.socket) > 0 {
		c.fe.Lost(command.EndSilent, now)
	}
}

// finish writes the last bytes, says that no more come, and lets the peer read them.
func (c *conn) finish() {
	c.linger(lingerTime)
	if c.writing {
		w := <-c.written
		c.spare = w.spare
		if w.err != nil {
			return
		}
	}
	for {
		b := c.fe.TakeOutput(c.spare, time.Now())
		c.spare = nil
		if len(b) == 0 {
			break
		}
		// Here, as the writer would give it more time than the peer has; it may also have ended by a panic.
		if _, err := c.nc.Write(b); err != nil {
			return
		}
		c.spare = b[:0]
	}
	c.fe.Flush(time.Now())
	if !c.closeWrite() {
		return
	}
	if c.holding {
		c.holding = false
		c.eaten <- len(c.held.b)
	}
	for !c.readOver {
		ck := <-c.input
		if ck.err != nil {
			c.readOver = true
			return
		}
		c.eaten <- len(ck.b)
	}
}

// closeWrite says that nothing more comes: in the WebSocket or TLS layer, so that the peer can tell it from a cut, and on the socket.
func (c *conn) closeWrite() bool {
	if c.ws != nil {
		return c.ws.CloseWrite() == nil
	}
	if c.tls != nil && c.tls.CloseWrite() != nil {
		return false
	}
	half, ok := c.socket.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}
