package replica

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/store"
)

// Mailbox receives what applied entries mean for this node's connections. All methods
// are called on the apply goroutine, one at a time, in log order, and must not block
// nor call back into the Replica but for Propose.
type Mailbox interface {
	// Deliver hands over the effects for connection local, in order: one call per
	// connection and group of entries. The slice is reused after the return; copy it.
	Deliver(local uint64, effects []command.Effect)
	// EpochBegun: NodeUp is applied, connections may be accepted.
	EpochBegun(epoch command.Epoch)
	// EpochEnded: the node's epoch is over; everything applied before has been
	// delivered. Close all clients with amqp:connection:forced and reason. What was
	// proposed and not answered may or may not have happened before the end. Replica
	// asks for a new epoch by itself.
	EpochEnded(reason string)
}

// Options configures a Replica. Node, Dir and Mailbox are required, and Peers where the directory is empty.
type Options struct {
	// Node is this node's raft id.
	Node command.NodeID
	// Peers are the peer addresses of the nodes that found the cluster, this one included: one or three. A directory that belongs to a
	// cluster knows who those were: then more than one must be the same again, and override what the nodes say of themselves; this node
	// alone is only its own address, and none at all is right as well.
	Peers map[command.NodeID]string
	// Name is what people call this node, empty for the name that it has; Addresses are where others reach it. Addresses.Peer is its entry of
	// Peers where empty.
	Name      string
	Addresses command.Addresses
	// Dir is the data directory, in FS (nil: the operating system's).
	Dir string
	FS  store.FS
	// SafetyOff answers before replication and fsync (safety.go); for the demo only. It
	// needs an empty directory or one that is marked so.
	SafetyOff bool

	// Mailbox receives the effects. Open calls nothing on it, Run does.
	Mailbox Mailbox
	// Fatal is called once, from any goroutine, when the node can't go on: a failed
	// write or sync (C14), corruption, a panic in Apply. It has to end the process. Nil:
	// Run returns the error, and nothing more is written.
	Fatal func(error)
	// Version is the binary's, for people: at most command.MaxVersion bytes.
	Version string
	// Logger is slog.Default() where nil.
	Logger *slog.Logger

	// Listener takes the peers' connections; nil: Open listens at this node's address in
	// Peers, unless it is alone: who is to grow needs one. The Replica closes it.
	Listener net.Listener
	// Security protects the connections between nodes; nil: plaintext, for loopback.
	Security peer.Security
	// Joiner lets new nodes in, where there is Security; nil: nobody.
	Joiner peer.Joiner
	// Dial reaches a peer; nil: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Civil is the wall clock in ms since 1970; nil: time.Now.
	Civil func() int64

	// Limits. Zero values are the defaults.
	Limits Limits

	testMachine func(State) (machine, error) // nil: the real one
	testFault   func() error                 // what a write to the log fails with
	testDrop    func(entry []byte) bool      // an entry that gets lost on the leader [1.1]
}

// Limits bounds queues and times. The zero value stands for the defaults.
type Limits struct {
	// Tick is raft's tick; an election times out after 5 to 9, each brings heartbeats.
	// 100 ms.
	Tick time.Duration
	// EntryBytes is the most that one entry packs, but for a single larger record. 256 KiB.
	EntryBytes int
	// EntriesInFlight is how many entries the leader has proposed and not seen committed. 4.
	EntriesInFlight int
	// ApplyBehindBytes is how far the leader's apply may be behind before it takes
	// nothing new. 4 MiB.
	ApplyBehindBytes int
	// PeerQueueBytes bounds what waits for one peer; raft messages beyond are dropped,
	// records wait at their home. 16 MiB.
	PeerQueueBytes int
	// LogFlushBytes is the size of the log above which the state is flushed so that the
	// log can be cut [6.2]. 256 MiB.
	LogFlushBytes int64
	// RetainBytes is how much of the log is kept for a node that is behind; beyond it that node gets a checkpoint. HoldBytes
	// is how much more is kept behind a checkpoint that is being fetched. Each is 8 GiB, or a fifth of the disk where that
	// is less.
	RetainBytes, HoldBytes int64
	// FetchBytes is how many bytes a second go to nodes that fetch a checkpoint. 100 MiB.
	FetchBytes int64
	// ScrubEvery is how often log and state are read on trial, 24 h; ScrubBytes is how many bytes a second that are at least, 1 MiB.
	ScrubEvery time.Duration
	ScrubBytes int64
	// RecoverPause is the pause before a recovery from damage that follows on others that didn't last, 1 s; each further one waits twice as long,
	// up to 300 times.
	RecoverPause time.Duration
	// OfferFor is how long a checkpoint is kept that nobody asks for or fetches any more. 60 s.
	OfferFor time.Duration
	// SegmentBytes is the size of a log segment. 64 MiB.
	SegmentBytes int64
	// ReserveBytes is how much room on the disk is set aside for what frees room when it is full [8.5]. 256 MiB, or a fiftieth of
	// the disk where that is less.
	ReserveBytes int64
	// StateBytes is how many bytes of state the node has memory for, as state counts them [8.5]; 0: it doesn't say.
	StateBytes int64
	// CacheBytes and MemTableBytes are the store's, 0 for its defaults.
	CacheBytes    int64
	MemTableBytes uint64
	// KeepEvery is how often it is looked whether the log can be cut. 1 s.
	KeepEvery time.Duration
}

// maxReserveBytes is the most of a disk that is set aside, where nobody says otherwise.
const maxReserveBytes = 256 << 20

// maxRetainBytes is the most of the log that is kept for a node that is behind, where nobody says otherwise.
const maxRetainBytes = 8 << 30

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if l.Tick == 0 {
		l.Tick = 100 * time.Millisecond
	}
	if l.KeepEvery == 0 {
		l.KeepEvery = time.Second
	}
	if l.RetainBytes == 0 {
		l.RetainBytes = maxRetainBytes
	}
	if l.HoldBytes == 0 {
		l.HoldBytes = maxRetainBytes
	}
	if l.FetchBytes == 0 {
		l.FetchBytes = 100 << 20
	}
	if l.ScrubEvery == 0 {
		l.ScrubEvery = 24 * time.Hour
	}
	if l.ScrubBytes == 0 {
		l.ScrubBytes = 1 << 20
	}
	if l.RecoverPause == 0 {
		l.RecoverPause = time.Second
	}
	if l.OfferFor == 0 {
		l.OfferFor = time.Minute
	}
	if l.LogFlushBytes == 0 {
		l.LogFlushBytes = 256 << 20
	}
	if l.SegmentBytes == 0 {
		l.SegmentBytes = 64 << 20
	}
	def(&l.EntryBytes, 256<<10)
	def(&l.EntriesInFlight, 4)
	def(&l.ApplyBehindBytes, 4<<20)
	def(&l.PeerQueueBytes, 16<<20)
	return l
}
