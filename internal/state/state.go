package state

import (
	"errors"
	"math"

	"github.com/oncemq/oncemq/internal/command"
)

// ErrState is wrapped by errors about stored keys or entries that this machine
// can't go on with: damage, or something written by a newer version. The node must
// stop.
var ErrState = errors.New("oncemq: the replicated state can't go on")

// Changes takes what an entry changes on disk. Keys and values are borrowed for the
// call. All keys begin with the group's id (2 bytes, big-endian).
type Changes interface {
	Put(key, value []byte)
	Insert(key, value []byte) // a put of a key that is not there
	Delete(key []byte)
	DeleteRange(from, to []byte) // from <= key < to
}

// Never is a moment that doesn't come.
const Never = math.MaxInt64

// Due says when the machine wants an entry although no command comes: the leader
// proposes a command.Tick then [4.5].
type Due struct {
	// Running and Civil are the next due moments in ms of the two times of the log, or
	// Never.
	Running, Civil int64
	// Job is true while unfinished work waits for the next entry [4.2]: tick at once.
	Job bool
}

// Now reports whether a tick is due at these times.
func (d Due) Now(civil, running int64) bool {
	return d.Job || d.Running <= running || d.Civil <= civil
}

// QueueInfo is what admin shows of a queue.
type QueueInfo struct {
	Name        string
	Incarnation command.Incarnation
	// Depth counts all messages in the queue, InFlight those of them that a link holds.
	Depth, InFlight uint64
	// Delayed counts those of them that are still to arrive (x-opt-delivery-time).
	Delayed uint64
	// Bytes is the size of all messages in the queue, as stored.
	Bytes uint64
	// Links counts the consumers that are attached.
	Links int
	// Topic: a topic, with so many Subscriptions. InFlight counts a message for each subscription that has handed it out.
	Topic         bool
	Subscriptions int
}

// ConnInfo is what admin shows of a connection.
type ConnInfo struct {
	Conn                   command.ConnID
	Node                   command.NodeID
	Local                  uint64
	Principal, ContainerID string
	Links                  int
}

// Counters are sums since the cluster began, equal on all nodes.
type Counters struct {
	// LostPresettled counts messages that a lost home may have written on pre-settled
	// links and that are not sent again (C13).
	LostPresettled uint64
	// DeadLettered counts messages moved to a dead-letter queue.
	DeadLettered uint64
	// Committed and RolledBack count decided transactions, untagged ones included.
	Committed, RolledBack uint64
	// Expired counts sessions and tokens forgotten after their retention.
	Expired uint64
	// Resent counts sends that repeated one stored over an earlier attachment of their link: accepted, and not stored again (C9).
	Resent uint64
	// ExpiredMessages counts messages whose time had come before they were consumed; a topic's for each subscription.
	ExpiredMessages uint64
}
