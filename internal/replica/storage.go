package replica

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// group is the one raft group of this version.
const group = 0

// Log is what a replica needs of its log; *[store.Log] is one, and says what each method does.
// The append goroutine calls Append, Prepare and Cut; the rest is called by any.
type Log interface {
	Append(a store.Append) error
	Prepare() (more bool, err error)
	Cut(index uint64) error
	FirstIndex() uint64
	LastIndex() uint64
	Term(index uint64) (uint64, error)
	Entries(dst []store.Entry, lo, hi, maxBytes uint64) ([]store.Entry, error)
	HardState() store.HardState
	SizeBytes() int64
	Suffix(bytes int64) (index uint64)
	Path() string
	Close() error
}

// State is what a replica needs of the state on disk; *[store.State] is one, and says what each
// method does. The apply goroutine calls Apply; the rest is called by any.
type State interface {
	Apply(b *store.Batch, applied uint64) error
	Get(key, dst []byte) (value []byte, ok bool, err error)
	IterateRange(start, end []byte, fn func(key, value []byte) bool) error
	AppliedIndex() uint64
	DurableIndex() (uint64, error)
	Flush() error
	Path() string
	Close() error
}

// storage is raft's view of the log on disk. The append goroutine writes the log; raft
// reads what is stable, from the log's tail in memory or, for a slow peer, from disk.
type storage struct {
	log   Log
	start store.Start
	// conf is the configuration: at the start that of the applied index.
	conf state.Configuration
	// offered is the checkpoint for a peer that raft can't help from the log alone; nil: not yet.
	offered func() *Offer
	failed  error // of a read that raft can't do without; it panics then
}

// InitialState implements raft.Storage.
func (s *storage) InitialState() (*pb.HardState, *pb.ConfState, error) {
	conf := confState(&s.conf)
	h := s.start.State
	if h == (store.HardState{}) {
		return nil, conf, nil
	}
	return &pb.HardState{Term: &h.Term, Vote: &h.Vote, Commit: &h.Commit}, conf, nil
}

// Entries implements raft.Storage.
func (s *storage) Entries(lo, hi, maxBytes uint64) ([]*pb.Entry, error) {
	entries, err := s.log.Entries(nil, lo, hi, maxBytes)
	if err != nil {
		return nil, s.raftError(err)
	}
	out := make([]*pb.Entry, len(entries))
	for i := range entries {
		e := &entries[i]
		out[i] = &pb.Entry{Term: &e.Term, Index: &e.Index, Type: pb.EntryType(e.Type).Enum(), Data: e.Data}
	}
	return out, nil
}

// Term implements raft.Storage.
func (s *storage) Term(i uint64) (uint64, error) {
	term, err := s.log.Term(i)
	if err != nil {
		return 0, s.raftError(err)
	}
	return term, nil
}

// LastIndex implements raft.Storage.
func (s *storage) LastIndex() (uint64, error) { return s.log.LastIndex(), nil }

// FirstIndex implements raft.Storage.
func (s *storage) FirstIndex() (uint64, error) { return s.log.FirstIndex(), nil }

// Snapshot implements raft.Storage. It carries no data: the peer fetches the checkpoint.
func (s *storage) Snapshot() (*pb.Snapshot, error) {
	o := s.offered()
	if o == nil {
		return nil, raft.ErrSnapshotTemporarilyUnavailable // raft asks again with the next heartbeat
	}
	return &pb.Snapshot{
		Data: o.appendTo(nil, s.log.FirstIndex()),
		Metadata: &pb.SnapshotMetadata{
			Index: &o.Index, Term: &o.Term, ConfState: confState(&s.conf),
		},
	}, nil
}

// raftError is an error as raft knows it. It knows those of a log that is cut or short; over any other it panics, and steps.raft
// takes that for what it is.
func (s *storage) raftError(err error) error {
	switch {
	case errors.Is(err, store.ErrCut):
		return raft.ErrCompacted
	case errors.Is(err, store.ErrUnavailable):
		return raft.ErrUnavailable
	}
	s.failed = fmt.Errorf("reading the log: %w", err)
	return s.failed
}
