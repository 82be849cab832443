package peer

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	minRedial = 20 * time.Millisecond
	maxRedial = 250 * time.Millisecond
	// quickRedials times quickRedial is how long after a loss a dial that gets through and
	// is then cut counts as "the process is just ending", before it is told as gone.
	quickRedial  = 5 * time.Millisecond
	quickRedials = 20
	// refusalPause is the pause after a handshake was refused: only people can mend that.
	refusalPause = time.Second
)

// link is the outgoing side towards one peer: both streams, up or down together.
type link struct {
	net    *Network
	peer   uint64
	kick   chan struct{} // capacity 1: the peer dialled us, so it is there
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	urgent *queue // nil while down; guarded by mu
	bulk   *queue // guarded by mu
}

func (l *link) queue(urgent bool) *queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	if urgent {
		return l.urgent
	}
	return l.bulk
}

func (l *link) set(urgent, bulk *queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.urgent, l.bulk = urgent, bulk
}

// run keeps the streams up until ctx ends.
func (l *link) run(ctx context.Context) {
	var gone goneState
	for ctx.Err() == nil {
		urgent, bulk, err := l.dial(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.pause(ctx, gone.failed(l, err))
			}
			continue
		}
		gone = goneState{}
		l.serve(ctx, urgent, bulk)
	}
}

// serve runs both streams until one of them is lost.
func (l *link) serve(ctx context.Context, urgent, bulk net.Conn) {
	uq, bq := newQueue(l.net.config.QueueBytes), newQueue(l.net.config.QueueBytes)
	lost := make(chan struct{})
	var once sync.Once
	lose := func() { once.Do(func() { close(lost) }) }
	var wg sync.WaitGroup
	for _, s := range []struct {
		conn net.Conn
		q    *queue
	}{{urgent, uq}, {bulk, bq}} {
		wg.Go(func() { s.q.writeLoop(s.conn, lost); lose() })
		wg.Go(func() { watch(s.conn); lose() })
	}
	l.set(uq, bq)
	l.net.config.Handler.PeerUp(l.peer)
	select {
	case <-lost:
	case <-ctx.Done():
		lose()
	}
	l.set(nil, nil)
	urgent.Close()
	bulk.Close()
	wg.Wait()
	if ctx.Err() == nil {
		l.net.config.Handler.PeerLost(l.peer)
	}
}

// watch returns when the connection is lost: the peer never sends on it.
func watch(conn net.Conn) {
	var b [1]byte
	conn.Read(b[:])
}

// dial opens both streams.
func (l *link) dial(ctx context.Context) (urgent, bulk net.Conn, err error) {
	if urgent, err = l.net.open(ctx, l.peer, purposeUrgent); err != nil {
		return nil, nil, err
	}
	if bulk, err = l.net.open(ctx, l.peer, purposeBulk); err != nil {
		urgent.Close()
		return nil, nil, err
	}
	return urgent, bulk, nil
}

// pause waits for d, or until the peer shows a sign of life.
func (l *link) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.kick:
	case <-ctx.Done():
	}
}

// goneState follows the failed dials since the streams were last up.
type goneState struct {
	tries   int
	told    bool // PeerGone was called
	refused bool // with refused
}

// failed takes the error of a dial, tells the handler what it means, and returns how long
// to wait before the next.
func (g *goneState) failed(l *link, err error) time.Duration {
	g.tries++
	handler := l.net.config.Handler
	switch {
	case errors.Is(err, errNotFounded):
		return minRedial
	case errors.Is(err, errRecovering):
		return maxRedial
	case errors.Is(err, errNoAddress):
		return maxRedial
	case errors.Is(err, ErrRemoved):
		handler.Removed(l.peer)
		return refusalPause
	case errors.Is(err, ErrRefused):
		// It lives; it only doesn't want us (yet).
		l.net.complain(l.peer, "dialling", err)
		return refusalPause
	case errors.Is(err, syscall.ECONNREFUSED):
		if !g.refused {
			g.told, g.refused = true, true
			handler.PeerGone(l.peer, true)
		}
	case g.tries < quickRedials && !isTimeout(err):
		return quickRedial
	case !g.told:
		g.told = true
		handler.PeerGone(l.peer, false)
	}
	return min(minRedial<<min(g.tries, 10), maxRedial)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
