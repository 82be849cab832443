package peer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"
)

// Version is the version of the protocol; another one is refused.
const Version = 1

// The errors of this package.
var (
	// ErrRefused: the other node answered the handshake with a "no"; its reason is in the text.
	ErrRefused = errors.New("oncemq: the peer refused the connection")
	// ErrFrame: bytes that are no valid frame.
	ErrFrame = errors.New("oncemq: bad frame from a peer")
)

// Stamp says who a node is. Both sides of a handshake must agree in Cluster and History, and in Voters while one of them
// belongs to no cluster yet.
type Stamp struct {
	// Cluster is the cluster's id, zero for a node with an empty directory [8.2].
	Cluster [16]byte
	// History is changed by restore and forced recovery (C1).
	History uint16
	// Node is the node's raft id.
	Node uint64
	// Birth was drawn when the node's directory was made.
	Birth [16]byte
	// Voters are the ids of the nodes that the cluster was founded with, ascending.
	Voters []uint64
}

// Payload is bytes to be sent, encoded on the writer's goroutine.
type Payload interface {
	// AppendTo adds the encoding to dst.
	AppendTo(dst []byte) []byte
	// Size is about the length of the encoding, for the queue's bound.
	Size() int
}

// Handler takes what comes from peers. Methods are called on the readers' goroutines, those
// of one stream of one peer one at a time; blocking holds that stream back.
type Handler interface {
	// Raft takes a raft message; message is borrowed for the call.
	Raft(from uint64, message []byte)
	// Records takes records of a home; Data is borrowed for the call.
	Records(from uint64, records Records)
	// Note takes a small message.
	Note(from uint64, note Note)
	// PeerUp: both streams to the peer are open, again; they begin empty.
	PeerUp(peer uint64)
	// PeerLost: a stream to the peer was lost; what was queued or sent may not arrive. A
	// fresh dial follows by itself.
	PeerLost(peer uint64)
	// PeerGone: after a loss, a fresh dial failed. refused: the peer's machine answers that
	// nobody listens there: its process is gone [3.8]. Called once per loss, again if a
	// dial that timed out is refused later.
	PeerGone(peer uint64, refused bool)
	// Removed: the peer knows that this node was removed from the cluster.
	Removed(peer uint64)
}

// Records is a run of encoded records from a home for the leader of Term.
type Records struct {
	Term uint64
	// Stream rises whenever the home starts anew from its oldest unapplied record.
	Stream uint64
	Data   []byte
}

// NoteKind tells notes apart. Values are on the wire: never renumber.
type NoteKind uint8

// The notes.
const (
	// NoteNodeUp asks the leader for an epoch for the sender: Nonce, Data = its announcement [1.2].
	NoteNodeUp NoteKind = 1 + iota
	// NoteNodeDown tells the leader that the sender's epoch Index ends of its own will.
	NoteNodeDown
	// NoteRefused tells everyone that the sender's dial of Node was refused [3.8].
	NoteRefused
	// NoteClock tells the leader the sender's civil clock, in ms: Clock [4.5].
	NoteClock
	// NoteCut tells that every node has the log up to Index on disk [6.2].
	NoteCut
	// NoteDigest tells the leader the sender's digest Number after entry Index [7.2].
	NoteDigest
	// NoteRoom tells everyone the sender's room: Number = command.Room of its disk, Index = bytes of state that it has memory
	// for [8.5].
	NoteRoom
	// NoteTransfer asks the leader to hand leadership over, to Node or, where that is 0, to whom it likes.
	NoteTransfer
	// NoteCommit tells who asks for a vote that the entry Index, of the term Number, is committed.
	NoteCommit
	noteEnd
)

// Note is a small message; which fields are set stands at the kind.
type Note struct {
	Kind   NoteKind
	Node   uint64
	Index  uint64
	Number uint64
	Clock  int64
	Nonce  [16]byte
	// Data is borrowed from what came, at most MaxNoteData bytes.
	Data []byte
}

// MaxNoteData is the most bytes that a note carries beside its numbers.
const MaxNoteData = 4 << 10

// Config configures a Network.
type Config struct {
	// Stamp is this node's; SetStamp changes it once the cluster is founded.
	Stamp Stamp
	// Addresses are those that the operator has said, by id: nothing that nodes say of themselves overrides them.
	Addresses map[uint64]string
	// Members are the others that are known at the start; SetMembers changes them.
	Members Members
	// Address is where this node says that it is reached; empty: nowhere.
	Address string
	// Listener takes connections; Run closes it. Nil for a lone node.
	Listener net.Listener
	// Dial reaches an address; nil: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Security protects all connections; nil: plaintext, for loopback.
	Security Security
	// Joiner lets new nodes in, where there is Security; nil: nobody.
	Joiner Joiner
	// Handler takes what comes.
	Handler Handler
	// Source is what other nodes may fetch here; nil: nothing.
	Source Source
	// FetchBytes is how many bytes a second are sent to all who fetch; 100 MiB where 0.
	FetchBytes int64
	// FetchOnly is for a node that recovers: it asks and fetches, and others may do so here, but there are no streams.
	FetchOnly bool
	// Logger is slog.Default() where nil.
	Logger *slog.Logger
	// QueueBytes bounds what waits for one stream; 16 MiB where 0.
	QueueBytes int
	// DialTimeout bounds a dial with its handshake; 1 s where 0.
	DialTimeout time.Duration
}
