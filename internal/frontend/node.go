package frontend

import (
	"sync/atomic"
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// Server is another node's client listener, for failover-server-list (amqp.md 1.2).
type Server struct {
	Host string
	Port uint16
}

// Config is what the connections of a node share. A zero field stands for its default.
type Config struct {
	// ContainerID names this node in Open; Version stands in its properties.
	ContainerID string
	Version     string
	// Dev lets the principal ANONYMOUS do everything; without it and without Access nobody may do anything.
	Dev bool
	// Access decides what Dev doesn't; nil denies.
	Access func(principal string, right Right, address string) bool
	// Servers are the other nodes as a client reaches them with TLS, or without; nil: nobody knows. It must be quick.
	Servers func(secure bool) []Server
	// IdleTimeout is how long a client may be silent (default 40 s, of which half is announced: 20 s [1.5]).
	IdleTimeout time.Duration
	// OpenTimeout bounds the wait for ConnOpen to be applied (default 5 s).
	OpenTimeout time.Duration
	// TxIdle and TxTotal are the transaction time-outs (defaults 60 s and 15 min).
	TxIdle, TxTotal time.Duration
	// TxBytes bounds the memory that all undecided transactions of the node hold together (default 256 MiB); the one that would go
	// beyond is rolled back [8.14].
	TxBytes int64
}

// Node is what the connections of a node share. It is safe for concurrent use.
type Node struct {
	cfg     Config
	log     Log
	epoch   atomic.Uint64 // the newest
	life    atomic.Uint64 // the same until it ends, then 0
	counter atomic.Uint64 // of untagged transactions
	txHeld  atomic.Int64  // bytes that undecided transactions hold
	// buffers are for records while they are gathered, at most maxBuffers.
	buffers chan []byte
}

// The buffers that a node keeps: as many as there may be connections at work at a time.
const (
	maxBuffers = 64
	bufferSize = 4 << 10
	maxBuffer  = 2 * command.MaxPlain // larger ones aren't kept
)

// buffer is an empty buffer.
func (n *Node) buffer() []byte {
	select {
	case b := <-n.buffers:
		return b
	default:
		return make([]byte, 0, bufferSize)
	}
}

// reuse takes a buffer back.
func (n *Node) reuse(b []byte) {
	if cap(b) > maxBuffer {
		return
	}
	select {
	case n.buffers <- b[:0]:
	default:
	}
}

// New makes a node's shared part. It starts nothing.
func New(cfg Config, log Log) *Node {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&cfg.IdleTimeout, 40*time.Second)
	def(&cfg.OpenTimeout, 5*time.Second)
	def(&cfg.TxIdle, 60*time.Second)
	def(&cfg.TxTotal, 15*time.Minute)
	if cfg.TxBytes == 0 {
		cfg.TxBytes = 256 << 20
	}
	if cfg.ContainerID == "" {
		cfg.ContainerID = "oncemq"
	}
	return &Node{cfg: cfg, log: log, buffers: make(chan []byte, maxBuffers)}
}

// EpochBegun tells the node's epoch, from which the ids of untagged transactions are made. Connections are made
// afterwards.
func (n *Node) EpochBegun(epoch command.Epoch) {
	n.epoch.Store(uint64(epoch))
	n.life.Store(uint64(epoch))
}

// EpochEnded tells that the epoch is over, before the log may grant a lease for what was applied with its end. From now on
// no connection writes a hand-out, also while Conn.EndEpoch still waits in its mailbox: others have what it had [3.8].
func (n *Node) EpochEnded() { n.life.Store(0) }

// EndOrphan ends a connection that was opened in the log after its socket was given up: nobody else would. Other effects are
// ignored.
func (n *Node) EndOrphan(e *command.Effect) {
	detail, ok := e.Detail.(*command.ConnOpened)
	if e.Kind == command.EffectConnOpened && ok && e.Refusal == nil {
		n.log.Propose(command.Append(nil, &command.ConnEnd{Conn: detail.Conn, Cause: command.EndForced}))
	}
}

// Log is the log that the node's connections propose to.
func (n *Node) Log() Log { return n.log }
