package frontend

import (
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// ErrNoMessage says that a message is no longer stored.
var ErrNoMessage = command.ErrNoMessage

// MaxBacklog is the size in bytes of commands proposed and not yet applied on this node, above which senders get no
// credit [8.6].
const MaxBacklog = 8 << 20

// Log is what a connection proposes to; package replica has it. All methods are safe for concurrent use and never block.
type Log interface {
	// Propose queues a record body (encoded commands of one connection, one socket read); Propose owns body afterwards.
	// Records of one node are applied in the order proposed. false: the node has no epoch now (its connections are being
	// ended). Bodies above command.MaxPlain travel in parts, by the log's doing.
	Propose(body []byte) bool
	// Backlog is the bytes proposed and not yet applied here (bound: MaxBacklog).
	Backlog() int
	// Barrier calls done once, soon, not on the caller's stack, with true when this replica has applied everything
	// committed before the call (ReadIndex). false: no quorum within 5 s.
	Barrier(done func(ok bool))
	// Browse puts a browser's question to this replica [4.7]. done is called like Barrier's, once, or never where a later question of the
	// browser, or the end of the epoch, came first. The answer is as old as the replica. An error: the filter can't be read.
	Browse(q command.Browse, done func(*command.BrowseSlice)) error
	// LeaseUntil is the moment up to which deliveries may be written (monotonic) [3.8]; the zero time: no lease.
	LeaseUntil() time.Time
	// Lag is how far, in log time, this replica's applied state is behind what its leader says is committed [3.5]; 0 for
	// one that keeps up.
	Lag() time.Duration
	// Room is how much room the cluster has, as this replica has applied it [8.5].
	Room() command.Room
	// Message appends the stored message's bytes (all sections as they came) to dst. ErrNoMessage when it is gone.
	Message(dst []byte, inc command.Incarnation, message uint64) ([]byte, error)
}
