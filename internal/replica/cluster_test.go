package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/localcluster"
)

// cluster is one or three replicas in this process, over loopback.
type cluster struct {
	t     testing.TB
	peers map[command.NodeID]string
	dirs  map[command.NodeID]string
	nodes map[command.NodeID]*member
	wire  *wire
	opts  func(*Options) // changes every member's options
}

// member is a running replica and what its mailbox got.
type member struct {
	*Replica
	box  *box
	ran  chan error
	id   command.NodeID
	mach *countingMachine
}

// box is a Mailbox that remembers.
type box struct {
	mu     sync.Mutex
	got    [][]byte
	epochs []command.Epoch
	ends   []string
}

func (b *box) Deliver(_ uint64, effects []command.Effect) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range effects {
		b.got = append(b.got, e.Payload)
	}
}

func (b *box) EpochBegun(e command.Epoch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.epochs = append(b.epochs, e)
}

func (b *box) EpochEnded(reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends = append(b.ends, reason)
}

func (b *box) counts() (got, begun, ended int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.got), len(b.epochs), len(b.ends)
}

// freeAddrs finds n addresses that stay a node's own while it is down: no outgoing
// connection is given a port from there, as it may be one that a listener on port 0 had.
func freeAddrs(t testing.TB, n int) []string {
	t.Helper()
	addrs, err := localcluster.FreeAddrs(n)
	if err != nil {
		t.Fatal(err)
	}
	return addrs
}

// newCluster starts size nodes from nothing and waits until all are ready.
func newCluster(t testing.TB, size int, opts func(*Options)) *cluster {
	c := &cluster{
		t: t, peers: map[command.NodeID]string{}, dirs: map[command.NodeID]string{},
		nodes: map[command.NodeID]*member{}, wire: newWire(), opts: opts,
	}
	for i, addr := range freeAddrs(t, size) {
		id := command.NodeID(i + 1)
		c.peers[id], c.dirs[id] = addr, t.TempDir()
	}
	t.Cleanup(func() {
		for _, m := range c.nodes {
			m.Close()
		}
	})
	for id := range c.peers {
		c.start(id)
	}
	c.ready()
	return c
}

var verbose = os.Getenv("REPLICA_LOG") != ""

func (c *cluster) options(id command.NodeID, b *box) Options {
	out := io.Discard
	if verbose {
		out = os.Stderr
	}
	own := c.peers[id]
	o := Options{
		Node: id, Peers: c.peers, Dir: c.dirs[id], Mailbox: b, testMachine: newCountingMachine,
		Logger: slog.New(slog.NewTextHandler(out, nil)).With("node", uint64(id)),
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return c.wire.dial(ctx, own, address)
		},
	}
	if c.opts != nil {
		c.opts(&o)
	}
	return o
}

// start opens and runs a node.
func (c *cluster) start(id command.NodeID) *member {
	c.t.Helper()
	m := &member{box: &box{}, ran: make(chan error, 1), id: id}
	r, err := Open(c.options(id, m.box))
	if err != nil {
		c.t.Fatal(err)
	}
	m.Replica = r
	m.mach, _ = r.decides.(*countingMachine)
	c.nodes[id] = m
	go func() { m.ran <- r.Run(context.Background()) }()
	return m
}

// ready waits until all running nodes are ready.
func (c *cluster) ready() {
	c.t.Helper()
	c.wait("all nodes ready", func() bool {
		for _, m := range c.nodes {
			if m.Ready() != nil {
				return false
			}
		}
		return true
	})
}

// kill ends a node like kill -9.
func (c *cluster) kill(id command.NodeID) {
	c.nodes[id].Close()
	delete(c.nodes, id)
}

func (c *cluster) wait(what string, ok func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			for _, m := range c.nodes {
				c.t.Logf("node %d: %+v ready %v", m.id, m.Status(), m.Ready())
			}
			c.t.Fatalf("never: %s", what)
		}
		c.again()
		<-time.After(time.Millisecond)
	}
}

// again starts a node anew that had answered with safety off what the others never got: an election on a busy machine is enough for that.
func (c *cluster) again() {
	for id, m := range c.nodes {
		select {
		case err := <-m.ran:
			m.ran <- err
			if errors.Is(err, ErrDiverged) {
				m.Close()
				c.start(id)
			}
		default:
		}
	}
}

// leader waits for one that others know too.
func (c *cluster) leader() *member {
	c.t.Helper()
	var leader *member
	c.wait("a leader", func() bool {
		leader = nil
		for _, m := range c.nodes {
			if s := m.Status(); s.Role == roleLeader {
				leader = m
			}
		}
		if leader == nil {
			return false
		}
		for _, m := range c.nodes {
			if m.Status().Leader != leader.id {
				return false
			}
		}
		return true
	})
	return leader
}

// follower is any node but the leader.
func (c *cluster) follower() *member {
	l := c.leader()
	for _, id := range []command.NodeID{1, 2, 3} {
		if m := c.nodes[id]; m != nil && id != l.id {
			return m
		}
	}
	c.t.Fatal("no follower")
	return nil
}

// soon ends what waits for nodes that may not answer: a test that hangs says nothing.
func (c *cluster) soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	c.t.Cleanup(cancel)
	return ctx
}

// write proposes through m and waits for its apply.
func (c *cluster) write(m *member, text string) {
	c.t.Helper()
	if err := m.RawWriter().Write(c.soon(), body(text)); err != nil {
		c.t.Fatalf("writing %q through node %d: %v", text, m.id, err)
	}
}

// body is an encoded command that the counting machine only counts.
func body(text string) []byte {
	return command.Append(nil, &command.QueueCreate{Name: text})
}

// same waits until all running nodes have applied the same, and returns how many bodies.
func (c *cluster) same() uint64 {
	c.t.Helper()
	var n uint64
	c.wait("equal digests at equal indexes", func() bool {
		var sums, counts []uint64
		for _, m := range c.nodes {
			m.mach.mu.Lock()
			sums, counts = append(sums, m.mach.sum), append(counts, m.mach.bodies)
			m.mach.mu.Unlock()
		}
		n = counts[0]
		return len(slices.Compact(sums)) == 1 && len(slices.Compact(counts)) == 1
	})
	return n
}

// wire is the network between the members, with a switch for each direction.
type wire struct {
	mu    sync.Mutex
	cut   map[string]bool // from+">"+to
	conns map[*wiredConn]struct{}
}

type wiredConn struct {
	net.Conn
	wire *wire
	way  string
}

func newWire() *wire { return &wire{cut: map[string]bool{}, conns: map[*wiredConn]struct{}{}} }

func (w *wire) dial(ctx context.Context, from, to string) (net.Conn, error) {
	way := from + ">" + to
	if w.isCut(way) {
		return nil, fmt.Errorf("dialling: %w", timeoutError{})
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	c := &wiredConn{conn, w, way}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[c] = struct{}{}
	return c, nil
}

func (w *wire) isCut(way string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[way]
}

// isolate cuts a node off, or joins it again.
func (c *cluster) isolate(id command.NodeID, cut bool) {
	w := c.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range c.peers {
		if other == c.peers[id] {
			continue
		}
		for _, way := range []string{c.peers[id] + ">" + other, other + ">" + c.peers[id]} {
			w.cut[way] = cut
			for conn := range w.conns {
				if conn.way == way && cut {
					conn.Conn.Close()
					delete(w.conns, conn)
				}
			}
		}
	}
}

type timeoutError struct{}

func (timeoutError) Error() string { return "the wire is cut: timeout" }
func (timeoutError) Timeout() bool { return true }

// breakAll breaks all connections; nothing keeps new ones from being made.
func (w *wire) breakAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.conns {
		conn.Conn.Close()
		delete(w.conns, conn)
	}
}
