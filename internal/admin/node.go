package admin

import (
	"context"
	"errors"

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
	Role         string `json:"role"`   // leader, follower, candidate, pre-candidate
	Term         uint64 `json:"term"`
	AppliedIndex uint64 `json:"applied_index"`
	PID          int    `json:"pid"`
	Version      string `json:"version"`
	Safety       string `json:"safety"` // on or off
}

// Queue is the answer of GET /api/v1/queues/NAME.
type Queue struct {
	Name string `json:"name"`
	// Depth counts the stored messages, those in flight included.
	Depth uint64 `json:"depth"`
	// InFlight counts the messages in a consumer's hands.
	InFlight uint64 `json:"in_flight"`
}
