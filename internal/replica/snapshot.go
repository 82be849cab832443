package replica

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/store"
)

// A node that is too far behind for the log gets a checkpoint of the state from another one. Raft's part in it is small:
// its MsgSnap says where a checkpoint lies and what it needs to be of use, and never reaches the raft of the node that is behind.
// That one fetches the files beside all else it does, verifies them, and ends (ErrInstalled); the next Open puts them in the
// place of its log and state, as it would after a crash at that point, and the node goes on as one that was stopped for a
// moment. Its leader only repeats the offer until the node's log is in reach again.

// Offer is a checkpoint that a node has made for those that are too far behind.
type Offer struct {
	// ID is the checkpoint's, Node the one that made it and has it.
	ID   [16]byte
	Node uint64
	// Index is the entry up to which it goes, Term that entry's.
	Index, Term uint64
}

// appendTo adds what a MsgSnap carries beside index and term: the first index of its sender's log, the node, the id. It is
// drawn in docs/format/peer.md.
func (o *Offer) appendTo(dst []byte, first uint64) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, first), o.Node)
	return append(dst, o.ID[:]...)
}

// decodeOffer reads a MsgSnap.
func decodeOffer(m *pb.Message) (o Offer, first uint64, ok bool) {
	meta, b := m.GetSnapshot().GetMetadata(), m.GetSnapshot().GetData()
	first, n := binary.Uvarint(b)
	if n <= 0 {
		return o, 0, false
	}
	node, k := binary.Uvarint(b[n:])
	if k <= 0 || len(b) != n+k+len(o.ID) {
		return o, 0, false
	}
	o = Offer{ID: [16]byte(b[n+k:]), Node: node, Index: meta.GetIndex(), Term: meta.GetTerm()}
	return o, first, o.Index > 0 && o.Term > 0
}

// snapshot takes a leader's offer of a checkpoint. It reports whether raft is to see the message, maybe changed: raft's answer
// then tells the leader where this node stands. Raft would put an empty log in the place of this one if it saw an offer that
// it has to accept.
func (c *core) snapshot(m *pb.Message) (step bool) {
	status := c.node.BasicStatus()
	o, first, ok := decodeOffer(m)
	switch {
	case m.GetTerm() < status.GetTerm():
		return true // raft knows what to answer to a leader that is over
	case !ok || m.GetTerm() > status.GetTerm() || status.RaftState != raft.StateFollower:
		return false // a heartbeat brings the term, and the offer is repeated
	case o.Index <= status.GetCommit():
		return true
	}
	if term, err := c.termAt(o.Index); err == nil && term == o.Term {
		return true // the log has it: raft learns that it is committed
	}
	if status.GetCommit()+1 >= first {
		// The leader's log reaches down to what this node has; only the leader doesn't know. An offer that is
		// older than that has raft say so.
		older := proto.Clone(m.Snapshot).(*pb.Snapshot)
		older.Metadata.Index = proto.Uint64(status.GetCommit())
		m.Snapshot = older
		return true
	}
	c.out.fetch = &o
	c.lag.known = max(c.lag.known, o.Index) // a heartbeat tells only what the leader knows this node to have
	return false
}

// offerAgain has raft repeat its offers, by telling it that they failed: an offer may be lost, the checkpoint gone, or the node
// come back with what it fetched. Who is fetching passes over the repetition.
func (c *core) offerAgain() {
	var waiting []uint64
	c.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if pr.State == tracker.StateSnapshot {
			waiting = append(waiting, id)
		}
	})
	for _, id := range waiting {
		c.node.ReportSnapshot(id, raft.SnapshotFailure)
	}
}

// offers are the checkpoints of this node for others: one at a time.
type offers struct {
	log  Log
	make func() (Offer, error) // nil: there are none
	drop func(Offer)
	// damaged is told of damage that stood in the way of making one; nil: that ends the node.
	damaged func(error)
	wake    chan struct{} // capacity 1: one is wanted

	made    atomic.Pointer[Offer]
	wanted  atomic.Bool
	need    atomic.Uint64 // the entry that a wanted one must have; 0: any
	touched atomic.Bool   // somebody asked or fetched since the last keep step
	idle    time.Duration // of the keep step: since when nobody does
	// everyone is what every node had on disk at the last keep step.
	everyone uint64
	// marks are what this node had applied at the last keep steps, the oldest first.
	marks [3]uint64
	said  time.Duration // of the keep step: when a failure was complained about last
}

// unmarked is what no node can have reached.
var unmarked = [3]uint64{math.MaxUint64, math.MaxUint64, math.MaxUint64}

// offered is the checkpoint for a peer that the log can't help. It is called by raft, again and again.
func (s *offers) offered() *Offer {
	s.touched.Store(true)
	if o := s.made.Load(); o != nil && o.Index+1 >= s.log.FirstIndex() {
		return o
	}
	s.wanted.Store(true)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// atLeast is a checkpoint that has an entry, for a node that recovers; nil: one is made as soon as that entry is applied.
func (s *offers) atLeast(index uint64) *Offer {
	s.touched.Store(true)
	if o := s.made.Load(); o != nil && o.Index >= index && o.Index+1 >= s.log.FirstIndex() {
		return o
	}
	s.need.Store(index)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// due reports that a checkpoint is to be made: one is wanted, and there is none that will do.
func (s *offers) due(old *Offer, applied uint64) bool {
	usable := old != nil && old.Index+1 >= s.log.FirstIndex()
	if need := s.need.Load(); need > 0 && applied >= need {
		s.need.Store(0)
		if !usable || old.Index < need {
			return true
		}
	}
	return s.wanted.Swap(false) && !usable
}

// step makes a checkpoint where one is wanted, and drops one that nobody wants any more.
func (s *offers) step(now time.Duration, applied uint64, logger *slog.Logger) error {
	if s.make == nil {
		return nil
	}
	if s.touched.Swap(false) {
		s.idle = now
	}
	old := s.made.Load()
	if s.due(old, applied) {
		s.forget(old)
		o, err := s.make()
		if errors.Is(err, store.ErrDisk) || errors.Is(err, store.ErrCorrupt) && s.damaged == nil {
			return err
		}
		if errors.Is(err, store.ErrCorrupt) {
			s.damaged(err)
		}
		if err != nil {
			// A full disk, most likely. The node that is behind asks again.
			if s.said == 0 || now-s.said > complainEvery {
				s.said = now
				logger.Error("no checkpoint could be made for a node that is behind", "error", err)
			}
			return nil
		}
		s.made.Store(&o)
		s.idle = now
		s.marks = unmarked
	}
	return nil
}

// expire drops a checkpoint that nobody has asked for or fetched for some time, or which every node has got past. caughtUp: what
// every node has lies in the part of the log that is kept anyway, or is what was there three steps ago. Until then the checkpoint holds what follows it, also from a
// node that has installed it.
func (s *offers) expire(now, after time.Duration, everyone, applied uint64, caughtUp bool) {
	caughtUp = caughtUp || everyone >= s.marks[0]
	s.marks = [3]uint64{s.marks[1], s.marks[2], applied}
	if everyone != s.everyone {
		s.everyone, s.idle = everyone, now
	}
	if o := s.made.Load(); o != nil && (now-s.idle > after || everyone > o.Index && caughtUp) {
		s.forget(o)
	}
}

func (s *offers) forget(o *Offer) {
	if o != nil {
		s.made.Store(nil)
		s.drop(*o)
	}
}

// errNotOffered is told to a node that asks for a checkpoint which is gone.
var errNotOffered = errors.New("this checkpoint isn't offered here any more")

var _ peer.Source = (*Replica)(nil)
