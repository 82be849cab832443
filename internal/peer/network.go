package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Network is a node's connections to all its peers. Methods are safe for concurrent use.
type Network struct {
	config  Config
	book    book
	founded chan struct{} // closed once the stamp names a cluster
	fetches chan struct{} // one for each fetch that is served
	joins   chan struct{} // one for each that is joining
	doors   strangers
	bucket  bucket

	mu       sync.Mutex
	stamp    Stamp                // guarded by mu
	accepted map[net.Conn]uint64  // open accepted connections, and whose they are; 0: not known yet; guarded by mu
	closed   bool                 // guarded by mu
	said     map[string]time.Time // when a complaint was logged last; guarded by mu
}

// New checks the configuration; it starts nothing.
func New(config Config) *Network {
	if config.Dial == nil {
		dialer := &net.Dialer{Control: tune}
		config.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.QueueBytes == 0 {
		config.QueueBytes = 16 << 20
	}
	if config.DialTimeout == 0 {
		config.DialTimeout = time.Second
	}
	if config.FetchBytes == 0 {
		config.FetchBytes = 100 << 20
	}
	n := &Network{
		config:   config,
		fetches:  make(chan struct{}, maxFetches),
		joins:    make(chan struct{}, maxJoins),
		bucket:   bucket{rate: config.FetchBytes},
		founded:  make(chan struct{}),
		accepted: map[net.Conn]uint64{},
		said:     map[string]time.Time{},
	}
	newBook(n, &config)
	n.SetStamp(config.Stamp)
	return n
}

// Run serves and dials until ctx ends; it returns when all its goroutines are gone. Streams
// are dialled only once the stamp names a cluster; Ask is answered from the start.
func (n *Network) Run(ctx context.Context) {
	var wg sync.WaitGroup
	if n.config.Listener != nil {
		wg.Go(func() { n.accept(ctx, &wg) })
	}
	stop := func() {}
	if !n.config.FetchOnly {
		stop = n.runLinks(ctx, &wg)
	}
	<-ctx.Done()
	stop()
	if n.config.Listener != nil {
		n.config.Listener.Close()
	}
	n.mu.Lock()
	n.closed = true
	for conn := range n.accepted {
		conn.Close()
	}
	n.mu.Unlock()
	wg.Wait()
}

// SetStamp changes the stamp when the cluster is founded.
func (n *Network) SetStamp(s Stamp) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stamp.Cluster == [16]byte{} && s.Cluster != [16]byte{} {
		close(n.founded)
	}
	n.stamp = s
}

func (n *Network) currentStamp() Stamp {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stamp
}

// Ask asks a peer for its stamp: the bootstrap question "are you empty?" [8.2]. ErrRefused
// where it won't talk to this node.
func (n *Network) Ask(ctx context.Context, peer uint64) (Stamp, error) {
	conn, stamp, err := n.dialAndGreet(ctx, peer, purposeAsk)
	if err != nil {
		return Stamp{}, err
	}
	return stamp, conn.Close()
}

// open dials a stream.
func (n *Network) open(ctx context.Context, peer uint64, what purpose) (net.Conn, error) {
	conn, _, err := n.dialAndGreet(ctx, peer, what)
	return conn, err
}

func (n *Network) dialAndGreet(ctx context.Context, peer uint64, what purpose) (net.Conn, Stamp, error) {
	address, err := n.address(peer)
	if err != nil {
		return nil, Stamp{}, err
	}
	dialCtx, cancel := context.WithTimeout(ctx, n.config.DialTimeout)
	defer cancel()
	conn, err := n.config.Dial(dialCtx, address)
	if err != nil {
		return nil, Stamp{}, err
	}
	// The end of ctx must end a handshake too.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	var stamp Stamp
	secured, err := n.secureDial(dialCtx, conn, peer)
	if err == nil {
		stamp, err = n.greet(secured, peer, what)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, Stamp{}, secureError(err)
	}
	return secured, stamp, nil
}

// accept takes connections until the listener is closed.
func (n *Network) accept(ctx context.Context, wg *sync.WaitGroup) {
	for {
		conn, err := n.config.Listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			n.complain(0, "accepting", err)
			select {
			case <-time.After(minRedial):
			case <-ctx.Done():
				return
			}
			continue
		}
		leave, ok := n.doors.enter(conn)
		if !ok {
			conn.Close()
			continue
		}
		if !n.track(conn) {
			conn.Close()
			return
		}
		wg.Go(func() {
			defer n.untrack(conn)
			defer leave()
			n.receive(ctx, conn, leave)
		})
	}
}

// receive finds out who has connected, and serves it until it is gone; admitted is called once that is known.
func (n *Network) receive(ctx context.Context, conn net.Conn, admitted func()) {
	v, err := n.secureAccept(ctx, conn)
	if err == nil && v.joining {
		err = n.serveJoin(ctx, v)
	}
	if err != nil {
		n.complain(0, "letting in", err)
		return
	}
	if v.joining {
		return
	}
	r := bufio.NewReaderSize(v.conn, 64<<10)
	h, err := n.admit(v.conn, r, v.node)
	admitted()
	if err != nil {
		n.complain(h.stamp.Node, "answering", err)
		return
	}
	n.accredit(conn, h.stamp.Node)
	n.serve(v.conn, r, h)
}

// serve reads a stream until it ends.
func (n *Network) serve(conn net.Conn, r *bufio.Reader, h hello) {
	from := h.stamp.Node
	switch h.purpose {
	case purposeAsk:
		return
	case purposeFetch:
		if err := n.serveFetch(conn, r, from); errors.Is(err, ErrFrame) {
			n.complain(from, "serving a fetch", err)
		}
		return
	default: // frames come
	}
	if l := n.link(from); l != nil {
		select {
		case l.kick <- struct{}{}:
		default:
		}
	}
	var buf []byte
	for {
		kind, body, grown, err := readFrame(r, buf, maxBody)
		if err == nil {
			err = dispatch(n.config.Handler, from, kind, body)
		}
		if err != nil {
			if errors.Is(err, ErrFrame) {
				n.complain(from, "reading", err)
			}
			return
		}
		buf = grown
		if cap(buf) > 2*readStep {
			buf = nil
		}
	}
}

// dispatch hands one frame to the handler.
func dispatch(h Handler, from uint64, kind byte, body []byte) error {
	switch kind {
	case frameRaft:
		h.Raft(from, body)
	case frameRecords:
		records, err := decodeRecords(body)
		if err != nil {
			return err
		}
		h.Records(from, records)
	case frameNote:
		note, err := decodeNote(body)
		if err != nil {
			return err
		}
		h.Note(from, note)
	default:
		return fmt.Errorf("%w: unknown kind %d", ErrFrame, kind)
	}
	return nil
}

// SendRaft queues a raft message, on the urgent or the bulk stream. false: not connected, or
// the queue is full; the message is dropped.
func (n *Network) SendRaft(to uint64, urgent bool, p Payload) bool {
	return n.send(to, urgent, item{kind: frameRaft, payload: p})
}

// SendRecords queues records on the bulk stream; Data is owned by the Network from then on.
// false: nothing was queued; send again later.
func (n *Network) SendRecords(to uint64, r Records) bool {
	return n.send(to, false, item{kind: frameRecords, records: r})
}

// SendNote queues a note on the urgent stream. false: it was not.
func (n *Network) SendNote(to uint64, note Note) bool {
	return n.send(to, true, item{kind: frameNote, note: note})
}

func (n *Network) send(to uint64, urgent bool, it item) bool {
	l := n.link(to)
	if l == nil {
		return false
	}
	q := l.queue(urgent)
	return q != nil && q.put(it)
}

// Connected reports that both streams to the peer are open.
func (n *Network) Connected(peer uint64) bool {
	l := n.link(peer)
	return l != nil && l.queue(true) != nil
}

func (n *Network) track(conn net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.accepted[conn] = 0
	return true
}

func (n *Network) untrack(conn net.Conn) {
	n.mu.Lock()
	delete(n.accepted, conn)
	n.mu.Unlock()
	conn.Close()
}

// complain logs what only people can mend, each text at most every 10 s; of strangers (peer 0), who can bring ever new ones, any one.
func (n *Network) complain(peer uint64, doing string, err error) {
	if errors.Is(err, errNotFounded) || errors.Is(err, errRecovering) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return
	}
	text := fmt.Sprint(peer, doing, err)
	if peer == 0 {
		text = doing
	}
	n.mu.Lock()
	again := time.Since(n.said[text]) < 10*time.Second
	if !again {
		if len(n.said) > 100 {
			clear(n.said)
		}
		n.said[text] = time.Now()
	}
	n.mu.Unlock()
	if !again {
		n.config.Logger.Warn("peer connection", "peer", peer, "while", doing, "error", err)
	}
}
