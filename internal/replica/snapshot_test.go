package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/store"
)

// smallLogs makes a node fall behind quickly.
func smallLogs(o *Options) {
	o.testMachine = nil
	o.Limits = Limits{
		SegmentBytes: 32 << 10, LogFlushBytes: 64 << 10, RetainBytes: 96 << 10, KeepEvery: 20 * time.Millisecond, Tick: 20 * time.Millisecond,
		OfferFor: 500 * time.Millisecond,
	}
}

// outrun writes until the others' logs have nothing that node id could go on from.
func (c *cluster) outrun(id command.NodeID, last uint64) {
	c.t.Helper()
	n := 0
	var leader *member // a node that is cut off knows of none, or is an old one
	c.wait("another leads", func() bool {
		for _, m := range c.nodes {
			if m.id != id && m.Status().Role == roleLeader {
				leader = m
			}
		}
		return leader != nil
	})
	c.wait(fmt.Sprintf("the log of node %d's leader begins above %d", id, last+1), func() bool {
		for range 20 {
			c.write(leader, fmt.Sprintf("%d-%s", n, strings.Repeat("x", 200)))
			n++
		}
		for _, m := range c.nodes {
			if m.id != id && m.log.FirstIndex() <= last+2 {
				return false
			}
		}
		return true
	})
}

// installs waits until a node has ended to install a checkpoint, and opens it again.
func (c *cluster) installs(m *member) *member {
	c.t.Helper()
	select {
	case err := <-m.ran:
		if !errors.Is(err, ErrInstalled) {
			c.t.Fatalf("node %d ended with %v", m.id, err)
		}
	case <-time.After(30 * time.Second):
		c.t.Fatalf("node %d didn't fetch a checkpoint: %+v", m.id, m.Status())
	}
	return c.start(m.id)
}

// TestSnapshot: a node that was stopped while the others wrote more than their logs keep gets a checkpoint, goes on from it, and
// has the same state; what it holds itself is cut (faults 8; C13).
func TestSnapshot(t *testing.T) {
	c := newCluster(t, 3, smallLogs)
	for i := range 20 {
		c.write(c.leader(), fmt.Sprint("before ", i))
	}
	for round := range 2 {
		m := c.follower()
		last := m.log.LastIndex()
		c.kill(m.id)
		c.outrun(m.id, last)
		m = c.installs(c.start(m.id))
		c.write(c.leader(), fmt.Sprint("after ", round))
		c.digests()
		c.ready()
		if got := m.log.FirstIndex(); got <= last+1 {
			t.Errorf("the log of node %d begins at %d, where it ended was %d", m.id, got, last)
		}
	}
}

// TestSnapshotOfRunning: a node that is cut off for some time, and not stopped, gives its clients up before it takes over what
// it missed.
func TestSnapshotOfRunning(t *testing.T) {
	c := newCluster(t, 3, smallLogs)
	m := c.follower()
	c.isolate(m.id, true)
	c.outrun(m.id, m.log.LastIndex())
	c.isolate(m.id, false)
	fresh := c.installs(m)
	if _, begun, ended := m.box.counts(); begun == 0 || begun != ended {
		t.Errorf("its clients were let in %d times and given up %d times", begun, ended)
	}
	c.write(c.leader(), "after")
	c.digests()
	c.ready()
	c.write(fresh, "through the node that came back")
}

// cutter breaks each connection of a node after so many bytes.
type cutter struct {
	mu    sync.Mutex
	every int
	cuts  int
}

type cutConn struct {
	net.Conn
	of   *cutter
	left int
}

func (k *cutter) dial(o *Options) {
	dial := o.Dial
	o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.every == 0 {
			return conn, nil
		}
		return &cutConn{conn, k, k.every}, nil
	}
}

func (k *cutConn) Read(b []byte) (int, error) {
	n, err := k.Conn.Read(b[:min(len(b), max(k.left, 1))])
	if k.left -= n; k.left <= 0 && err == nil {
		k.of.mu.Lock()
		k.of.cuts++
		k.of.every += 1000 // so that it gets somewhere in the end
		k.of.mu.Unlock()
		k.Close()
	}
	return n, err
}

// TestSnapshotCut: the fetch breaks again and again, and its source dies with a part of it fetched; it never installs in part
// (faults 76).
func TestSnapshotCut(t *testing.T) {
	var k cutter
	c := newCluster(t, 3, func(o *Options) { smallLogs(o); k.dial(o) })
	m := c.follower()
	last := m.log.LastIndex()
	c.kill(m.id)
	c.outrun(m.id, last)
	k.mu.Lock()
	k.every = 500
	k.mu.Unlock()
	m = c.start(m.id)
	c.wait("some cuts", func() bool { k.mu.Lock(); defer k.mu.Unlock(); return k.cuts > 5 })
	leader := c.leader().id
	c.kill(leader) // the checkpoint is gone with it
	c.start(leader)
	c.installs(m)
	k.mu.Lock()
	k.every = 0
	k.mu.Unlock()
	c.write(c.leader(), "after")
	c.digests()
}

// lockedBuffer is a buffer that many write to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestSnapshotWhereItMustNot: offers that come late, twice, or of what this node has don't make it fetch; only one that it needs.
func TestSnapshotWhereItMustNot(t *testing.T) {
	var said lockedBuffer
	c := newCluster(t, 3, func(o *Options) { smallLogs(o); o.Logger = slog.New(slog.NewTextHandler(&said, nil)) })
	for i := range 10 {
		c.write(c.leader(), fmt.Sprint("before ", i))
	}
	m, leader := c.follower(), c.leader()
	c.wait("all applied", func() bool { return m.Status().Applied == leader.Status().Applied })
	term, last := m.Status().Term, m.log.LastIndex()
	entry, err := m.log.Term(last)
	if err != nil {
		t.Fatal(err)
	}
	for _, offer := range []struct {
		what                   string
		term, index, of, first uint64
	}{
		{"what it has", term, last, entry, last},
		{"what it has applied", term, last - 3, entry, last},
		{"what the log can bring", term, last + 100, entry, 2},
		{"of a leader that is over", term - 1, last + 100, entry, last + 50},
		{"of a term to come", term + 1, last + 100, entry, last + 50},
		{"", term, last + 100, entry, last + 50}, // this one it does need
	} {
		o := Offer{ID: [16]byte{1}, Node: uint64(leader.id), Index: offer.index, Term: offer.of}
		msg := &raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: &raftpb.Snapshot{
			Data: o.appendTo(nil, offer.first), Metadata: &raftpb.SnapshotMetadata{Index: &o.Index, Term: &o.Term},
		}}
		from, to := uint64(leader.id), uint64(m.id)
		msg.From, msg.To, msg.Term = &from, &to, &offer.term
		m.events.put(event{kind: evMessage, from: from, message: msg})
		c.write(leader, "between")
		c.wait("all applied", func() bool { return m.Status().Applied == leader.Status().Applied })
		if offer.what == "" {
			c.wait("it tried to fetch what isn't there", func() bool { return strings.Contains(said.String(), "fetching a checkpoint failed") })
			break
		}
		for range 3 { // rounds of the goroutine that fetches
			<-time.After(m.opts.Limits.Tick)
		}
		if strings.Contains(said.String(), "checkpoint") || m.Live() != nil {
			t.Errorf("%s: %v\n%s", offer.what, m.Live(), said.String())
		}
	}
	c.digests()
}

// sentRaft takes the raft messages out of the frames that a Stepper sends.
type sentRaft struct {
	peer.Handler
	messages []*raftpb.Message
}

func (s *sentRaft) Raft(_ uint64, b []byte) {
	m := new(raftpb.Message)
	if proto.Unmarshal(b, m) == nil {
		s.messages = append(s.messages, m)
	}
}
func (s *sentRaft) Note(uint64, peer.Note) {}

// TestSnapshotOfTheLogsEnd: an offer of what the log has, but doesn't know to be committed, tells just that: nothing is fetched,
// since the entries behind it may have been acknowledged, and the leader learns where this node stands.
func TestSnapshotOfTheLogsEnd(t *testing.T) {
	d, err := store.Open(store.Options{Dir: "/data", FS: store.NewMemFS(), Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	log, err := d.OpenLog(store.LogOptions{SegmentBytes: 32 << 10})
	if err != nil {
		t.Fatal(err)
	}
	disk, err := d.OpenState(store.StateOptions{SpillInApply: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _, _ = disk.Close(), log.Close(), d.Close() }()
	var entries []store.Entry
	for i := uint64(1); i <= 6; i++ {
		entries = append(entries, store.Entry{Index: i, Term: 1})
	}
	if err := log.Append(store.Append{State: store.HardState{Term: 1, Commit: 2}, Entries: entries}); err != nil {
		t.Fatal(err)
	}
	var sent sentRaft
	s, err := NewStepper(StepOptions{
		Node: 1, Voters: []command.NodeID{1, 2, 3}, Cluster: [16]byte{7}, Log: log, State: disk, Mailbox: &box{}, Rand: rand.New(rand.NewPCG(1, 1)),
		Send: func(_ uint64, _ bool, frame []byte) bool { return peer.Deliver(&sent, 1, frame) == nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	receive := func(m *raftpb.Message) {
		m.From, m.To, m.Term = proto.Uint64(2), proto.Uint64(1), proto.Uint64(1)
		if err := s.Receive(2, peer.AppendRaft(nil, payload{m})); err != nil {
			t.Fatal(err)
		}
		s.Raft(time.Millisecond, 0)
		if err := s.Append(); err != nil {
			t.Fatal(err)
		}
	}
	receive(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Commit: proto.Uint64(2)})
	for _, index := range []uint64{5, 50} {
		o := Offer{ID: [16]byte{1}, Node: 2, Index: index, Term: 1}
		sent.messages = nil
		receive(&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: &raftpb.Snapshot{
			Data: o.appendTo(nil, 40), Metadata: &raftpb.SnapshotMetadata{Index: &o.Index, Term: &o.Term, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}},
		}})
		got, wanted := s.Wanted()
		if index == 50 {
			if !wanted || got != o {
				t.Errorf("an offer of what is missing: %+v is wanted", got)
			}
			continue
		}
		if wanted || len(sent.messages) != 1 || sent.messages[0].GetType() != raftpb.MsgAppResp || sent.messages[0].GetIndex() != index {
			t.Errorf("an offer of what the log has: %+v is wanted, the answer is %v", got, sent.messages)
		}
	}
}

// TestSnapshotFullDisk: a node whose disk is too full for what it fetches stays, gives the space back, and tries again (faults 51).
func TestSnapshotFullDisk(t *testing.T) {
	var said lockedBuffer
	var full atomic.Bool
	disks := map[command.NodeID]store.FS{}
	for id := command.NodeID(1); id <= 3; id++ {
		disks[id] = store.FaultFS(store.NewMemFS(), func(name string, bytes int) store.Fault {
			if full.Load() && bytes > 0 && strings.Contains(name, "/fetch/state/") {
				return store.Fault{Err: syscall.ENOSPC}
			}
			return store.Fault{}
		})
	}
	c := newCluster(t, 3, func(o *Options) {
		smallLogs(o)
		o.FS, o.Logger = disks[o.Node], slog.New(slog.NewTextHandler(&said, nil))
	})
	m := c.follower()
	last := m.log.LastIndex()
	c.kill(m.id)
	c.outrun(m.id, last)
	full.Store(true)
	m = c.start(m.id)
	for n := range 3 {
		c.wait("it meets the full disk", func() bool { return strings.Count(said.String(), "no space left on device") > n })
	}
	if err := m.Live(); err != nil {
		t.Fatalf("the node ended: %v", err)
	}
	full.Store(false)
	c.installs(m)
	c.digests()
	c.ready()
}
