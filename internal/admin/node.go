package admin

import (
	"context"
	"errors"
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// Node is the node that the API speaks for. All methods are safe for concurrent use.
type Node interface {
	// Status is a snapshot that costs nothing: no barrier, no disk.
	Status() Status
	// Live is nil, or why only a restart helps. It asks nothing of the cluster.
	Live() error
	// Ready is nil, or why the node should get no new clients now.
	Ready() error
	// Request proposes a command of the node itself (zero Conn) and waits for its
	// effect. A refusal is in the effect; the error is about getting one at all.
	Request(ctx context.Context, cmd command.Command) (command.Effect, error)
	// Queue reads a queue's numbers behind a read barrier. ErrNoQueue if there is none.
	Queue(ctx context.Context, name string) (Queue, error)
}

// ErrNoQueue is Node.Queue's answer for a name that no queue has.
var ErrNoQueue = errors.New("oncemq: no such queue")

// Status is the answer of GET /api/v1/status.
type Status struct {
	Node         uint64 `json:"node"`
	Leader       uint64 `json:"leader"` // 0: none known
	Role         string `json:"role"`   // leader, follower, candidate, pre-candidate, starting, recovering
	Term         uint64 `json:"term"`
	AppliedIndex uint64 `json:"applied_index"`
	PID          int    `json:"pid"`
	Version      string `json:"version"`
	Safety       string `json:"safety"` // on or off
	// Certificates are those that this node shows.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Recovering is why the node's directory is damaged, where it recovers from the others.
	Recovering string `json:"recovering,omitempty"`
	// LagMillis is how long ago the oldest entry that isn't applied here was known to be committed.
	LagMillis int64 `json:"lag_ms"`
	Room      Room  `json:"room"`
	// Alarms are what an operator has to see to, each a sentence; empty where all is well.
	Alarms []string `json:"alarms"`
	Scrub  Scrub    `json:"scrub"`
}

// Scrub is what a node has read of its log and state to find damage.
type Scrub struct {
	// Passes is how often all was read since the start, Bytes how much.
	Passes int64 `json:"passes"`
	Bytes  int64 `json:"bytes"`
	// Damage is what was found and isn't mended.
	Damage string `json:"damage,omitempty"`
}

// Room is how much room there is. Levels are ok, low (senders get no credit) or full (sends are refused).
type Room struct {
	// Cluster is the level that counts for senders: the worse of Disks, what a majority of the nodes has, and Memory.
	Cluster string `json:"cluster"`
	Disks   string `json:"disks"`
	Memory  string `json:"memory"`
	// MemoryUsed is what the cluster's state takes, as it is counted, MemoryBudget what it may: the least that a node has for it (0: not known).
	MemoryUsed   uint64 `json:"memory_used_bytes"`
	MemoryBudget uint64 `json:"memory_budget_bytes"`
	// Disk is the level of this node's own disk, with what is free of it; zeros where the system doesn't say.
	Disk      string `json:"disk"`
	DiskFree  uint64 `json:"disk_free_bytes"`
	DiskTotal uint64 `json:"disk_total_bytes"`
	// DiskReserve is the size of the reserve, DiskReserveHeld whether it is set aside now.
	DiskReserve     uint64 `json:"disk_reserve_bytes"`
	DiskReserveHeld bool   `json:"disk_reserve_held"`
	// Waiting: this node writes nothing more until there is room on its disk.
	Waiting bool `json:"disk_waiting"`
}

// Certificate is one that a node shows now.
type Certificate struct {
	// For is nodes or clients: whom it is shown.
	For string `json:"for"`
	// Expires is when it ends.
	Expires time.Time `json:"expires"`
}

// Queue is the answer of GET /api/v1/queues/NAME.
type Queue struct {
	Name string `json:"name"`
	// Depth counts the stored messages, those in flight included.
	Depth uint64 `json:"depth"`
	// InFlight counts the messages in a consumer's hands.
	InFlight uint64 `json:"in_flight"`
}
