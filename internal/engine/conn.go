package engine

import (
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// Conn is one end of a connection. One goroutine owns it with all its sessions, links and deliveries.
type Conn struct {
	// Data is the user's, untouched by the engine.
	Data any

	cfg Config
}

// New is the end of a connection that nothing was exchanged on yet. A client's protocol header is queued at once.
func New(cfg Config) *Conn { panic("skeleton") }

// Input takes bytes that came from the peer and says how many it consumed: whole frames only. The rest is to be handed in
// again with more behind it; a buffer of Config.MaxFrameSize bytes always suffices. If nothing was consumed although a
// frame is whole, the connection is held (see Held). Slices in the events of this call alias b until the next call.
//
// An error (*Error of ScopeConnection) means that the peer broke the protocol: the event Closed is queued, and so is the
// Close frame: write what TakeOutput gives, then close the socket. Afterwards Input consumes and ignores everything.
func (c *Conn) Input(b []byte, now time.Time) (consumed int, err error) { panic("skeleton") }

// Held says that the peer's Open has come and ours is not sent, so that Input consumes nothing (server only).
func (c *Conn) Held() bool { panic("skeleton") }

// Next is the next event in order, false if there is none.
func (c *Conn) Next() (Event, bool) { panic("skeleton") }

// TakeOutput hands over the bytes to be written now and takes spare, if it has capacity, as its next buffer: the
// result is the caller's and may be given back as spare once it is written. It makes frames of waiting transfers until
// Config.OutputLimit. An empty result means that there is nothing to write. The deliveries whose first frame is in the
// result are Written from now on.
func (c *Conn) TakeOutput(spare []byte, now time.Time) []byte { panic("skeleton") }

// HasOutput says that TakeOutput would give bytes.
func (c *Conn) HasOutput() bool { panic("skeleton") }

// Backlog is how many bytes wait: frames made and not taken, and the payload of deliveries that are not frames yet.
func (c *Conn) Backlog() int { panic("skeleton") }

// Taken is how many bytes TakeOutput has handed over in all; Delivery.End is a position in the same count.
func (c *Conn) Taken() uint64 { panic("skeleton") }

// Tick does what is due at now (an empty frame at half of the peer's idle-time-out; Close and the event Closed with ErrIdle
// after Config.IdleTimeout of silence) and says when to call it again; the zero time means never. Call it also after
// Opened, which brings the peer's idle-time-out.
func (c *Conn) Tick(now time.Time) (next time.Time) { panic("skeleton") }

// Heartbeat queues an empty frame, if the connection is open and nothing else is to be written.
func (c *Conn) Heartbeat() { panic("skeleton") }

// Open sends our Open. MaxFrameSize, ChannelMax and IdleTimeout are filled in from the Config.
func (c *Conn) Open(o amqp.Open) error { panic("skeleton") }

// Close sends Close (before it Open with amqp:connection-establishment-failed, if none was sent), e may be nil. Nothing is
// sent afterwards and waiting transfers are dropped unwritten. It begins a close and answers the peer's alike.
func (c *Conn) Close(e *amqp.Error) error { panic("skeleton") }

// Done says that Close went both ways or the protocol was broken: close the socket once the output is written.
func (c *Conn) Done() bool { panic("skeleton") }

// Remote is the peer's Open, nil until it has come.
func (c *Conn) Remote() *amqp.Open { panic("skeleton") }

// Sessions calls f for each session that isn't ended both ways, in order of our channels.
func (c *Conn) Sessions(f func(*Session)) { panic("skeleton") }
