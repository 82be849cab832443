package engine

import (
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// Config is what one end of a connection is and permits. A zero field stands for its default.
type Config struct {
	// Server: this end answers the protocol header, holds input behind the peer's Open and sends no header by itself.
	Server bool

	// ContainerID stands in an Open whose own is empty, in particular in that of a refusal.
	ContainerID string

	// MaxFrameSize is the largest frame in bytes that we take and make (default 1 MiB, at least 512). MaxOpenSize bounds
	// the frames before the peer's Open is there (default 4 KiB for a server, 64 KiB for a client).
	MaxFrameSize uint32
	MaxOpenSize  uint32

	// ChannelMax and HandleMax are the highest channel and handle number of the peer's that we take (default 255 each).
	ChannelMax uint16
	HandleMax  uint32

	// IdleTimeout is how long the peer may be silent before the connection is closed; half of it is announced (2.4.5).
	// Zero: the peer may be silent for ever.
	IdleTimeout time.Duration

	// MaxMessageSize bounds an incoming delivery's payload in bytes on links that announce no max-message-size of their own
	// (default 64 MiB). MaxPartialBytes bounds what all unfinished incoming deliveries of the connection hold together
	// (default twice MaxMessageSize).
	MaxMessageSize  uint64
	MaxPartialBytes uint64

	// MaxUnsettled bounds the unsettled deliveries of one link and direction (default 10,000): Link.Send refuses a further
	// one, an incoming one beyond it detaches the link with amqp:resource-limit-exceeded.
	MaxUnsettled int

	// IncomingWindow is a session's incoming window in transfer frames (default 2,048); it is opened anew at half.
	IncomingWindow uint32

	// OutputLimit is the backlog in bytes from which transfers wait (default 256 KiB). Other frames never wait.
	OutputLimit int

	// MaxBacklog is the size in bytes of frames made and not taken from which a server's Conn takes no input (default 1 MiB): a
	// peer that asks and doesn't read costs no more. See Conn.Held.
	MaxBacklog int

	// NextOutgoingID is a session's first transfer-id and delivery-id, InitialDeliveryCount a sender link's first
	// delivery-count: not zero only in tests of the wrap-around.
	NextOutgoingID       uint32
	InitialDeliveryCount uint32
}

// minIdleTimeout is the least idle-time-out of a peer that we can serve; a smaller one is refused (2.4.5).
const minIdleTimeout = 20 * time.Millisecond

// withDefaults is c with every zero field replaced.
func (c Config) withDefaults() Config {
	def := func(v *uint32, d uint32) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.MaxFrameSize, amqp.DefaultMaxFrameSize)
	c.MaxFrameSize = max(c.MaxFrameSize, amqp.MinMaxFrameSize)
	if c.Server {
		def(&c.MaxOpenSize, 4<<10)
	} else {
		def(&c.MaxOpenSize, 64<<10)
	}
	def(&c.HandleMax, 255)
	def(&c.IncomingWindow, 2048)
	if c.ChannelMax == 0 {
		c.ChannelMax = 255
	}
	if c.MaxMessageSize == 0 {
		c.MaxMessageSize = 64 << 20
	}
	if c.MaxPartialBytes == 0 {
		c.MaxPartialBytes = 2 * c.MaxMessageSize
	}
	if c.MaxUnsettled == 0 {
		c.MaxUnsettled = 10_000
	}
	if c.MaxBacklog == 0 {
		c.MaxBacklog = 1 << 20
	}
	if c.OutputLimit == 0 {
		c.OutputLimit = 256 << 10
	}
	return c
}
