package engine

import "github.com/oncemq/oncemq/internal/amqp"

// maxTag is the longest delivery-tag (2.8.7).
const maxTag = 32

// Delivery is one delivery of a link, incoming or outgoing. Its fields are for reading.
type Delivery struct {
	// Data is the user's, untouched by the engine.
	Data any

	// Link is the link that it was sent or received on.
	Link *Link
	// ID is the delivery-id; an outgoing delivery has it once Started.
	ID uint32
	// Format is the message-format.
	Format uint32
	// Settled: neither side needs it any more. Set by a settled transfer, by the peer's settled disposition and by ours.
	Settled bool
	// Resume: the transfer resumed a delivery of an earlier attachment (2.6.13).
	Resume bool
	// Second: the receiver of this delivery settles second (2.6.12), by the link's mode or the transfer's.
	Second bool
	// State is what the peer said last (transfer or disposition), LocalState what we said last; nil: nothing. Never changed
	// in place, so they may be kept.
	State, LocalState amqp.DeliveryState
	// Payload of an incoming delivery: all sections, as they came. It aliases Input's buffer and ends with the next Input,
	// unless Owned, which multi-frame deliveries are: then it is the receiver's.
	Payload []byte
	// Owned says that Payload is the receiver's for ever.
	Owned bool

	tagLen uint8
	tag    [maxTag]byte
}

// Transfer is what Link.Send sends.
type Transfer struct {
	// Tag is the delivery-tag, at most 32 bytes; it is copied.
	Tag []byte
	// Format is the message-format.
	Format uint32
	// Settled sends it settled; a link in mode settled or unsettled overrules it.
	Settled bool
	// State goes with the transfer (transactional-state, or an outcome when resuming).
	State amqp.DeliveryState
	// Payload in pieces, which need not be joined. The outer slice is copied, the pieces are borrowed until Delivery.Sent,
	// or until it is withdrawn or its link, session or connection has ended.
	Payload [][]byte
	// Resume resumes a delivery that both unsettled maps have (2.6.13); the payload is usually empty.
	Resume bool
	// Batchable tells the receiver that it may delay its disposition.
	Batchable bool
}

// Send queues a delivery on a sender link, in order with all sends of the session, and uses up one credit. Without credit it is
// refused (ErrNoCredit), never queued. TakeOutput turns it into frames. Where the receiver takes credit back while a send still
// waits, that send waits for credit, and sends on other links pass it.
func (l *Link) Send(t Transfer) (*Delivery, error) { panic("skeleton") }

// Tag is the delivery-tag. The slice belongs to the Delivery and never changes.
func (d *Delivery) Tag() []byte { return d.tag[:d.tagLen] }

// Started says that the first frame was made: from now on the delivery can't be withdrawn without a trace.
func (d *Delivery) Started() bool { panic("skeleton") }

// Written says that the first frame was taken by TakeOutput: the peer may see it. It stays true for ever.
func (d *Delivery) Written() bool { panic("skeleton") }

// Sent says that the last frame was made; End is its end in the count of Conn.Taken.
func (d *Delivery) Sent() bool { panic("skeleton") }

// End is where the delivery's last frame ends in the count of Conn.Taken, so that a writer can tell what it has written; 0
// until Sent.
func (d *Delivery) End() uint64 { panic("skeleton") }

// Abort takes back an outgoing delivery that isn't Sent. Before it is Started it vanishes without a trace and its credit
// returns: true. Afterwards the peer is told by an aborted transfer: false, and the delivery is settled either way. A Sent delivery
// is left alone: false.
func (d *Delivery) Abort() (withdrawn bool) { panic("skeleton") }

// Dispose tells the peer state (nil: none) and whether the delivery is settled for us, for received deliveries and sent ones alike.
// Adjacent ones of equal state become one frame. Nothing is sent, and false returned, if the delivery was settled
// before, its link was closed or its session ended.
func (d *Delivery) Dispose(state amqp.DeliveryState, settled bool) bool { panic("skeleton") }

// DisposeThrough disposes of all the link's unsettled deliveries up to and with d (JMS CLIENT_ACKNOWLEDGE) and says how many.
func (d *Delivery) DisposeThrough(state amqp.DeliveryState, settled bool) int { panic("skeleton") }
