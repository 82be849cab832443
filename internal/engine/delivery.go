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
	// State is what the peer said last (transfer or disposition), LocalState what we said last; nil: nothing. Never changed
	// in place, so they may be kept.
	State, LocalState amqp.DeliveryState
	// Payload of an incoming delivery: all sections, as they came. It aliases Input's buffer and ends with the next Input,
	// unless Owned, which multi-frame deliveries are: then it is the receiver's.
	Payload []byte
	// ID is the delivery-id; an outgoing delivery has it once Started.
	ID uint32
	// Format is the message-format.
	Format uint32
	// Owned says that Payload is the receiver's for ever.
	Owned bool
	// Settled: neither side needs it any more. Set by a settled transfer, by the peer's settled disposition and by ours.
	Settled bool
	// Resume: the transfer resumed a delivery of an earlier attachment (2.6.13).
	Resume bool
	// Second: the receiver of this delivery settles second (2.6.12), by the link's mode or the transfer's.
	Second bool

	stage      stage
	listed     bool // in its session's table of unsettled deliveries
	tag        tagKey
	prev, next *Delivery // of the link, while listed
	out        *outgoing // while waiting or started
	start, end uint64    // of the frames, in the count of Conn.Taken
}

// stage is how far an outgoing delivery has come.
type stage uint8

const (
	stageIncoming stage = iota
	stageWaiting
	stageStarted
	stageAborting // started, and taken back: an aborted transfer is due
	stageSent
	stageDropped // never to be finished; a queue may still hold it
)

// Tag is the delivery-tag. The slice belongs to the Delivery and never changes.
func (d *Delivery) Tag() []byte { return d.tag.b[:d.tag.n] }

// setTag copies a tag; false if it is too long.
func (d *Delivery) setTag(tag []byte) bool {
	if len(tag) > maxTag {
		return false
	}
	d.tag.n = uint8(copy(d.tag.b[:], tag))
	return true
}

// Started says that the first frame was made: from now on the delivery can't be withdrawn without a trace.
func (d *Delivery) Started() bool { return d.end > 0 }

// Written says that the first frame was taken by TakeOutput: the peer may see it. It stays true for ever.
func (d *Delivery) Written() bool { return d.end > 0 && d.start < d.Link.session.conn.taken }

// Sent says that the last frame was made.
func (d *Delivery) Sent() bool { return d.stage == stageSent }

// End is where the delivery's newest frame ends in the count of Conn.Taken, so that a writer can tell what it has written; 0
// until Started.
func (d *Delivery) End() uint64 { return d.end }

// Abort takes back an outgoing delivery that isn't Sent. Before it is Started it vanishes without a trace and its credit
// returns: true. Afterwards the peer is told by an aborted transfer: false, and the delivery is settled either way. A Sent delivery
// is left alone: false.
func (d *Delivery) Abort() (withdrawn bool) {
	switch d.stage {
	case stageWaiting:
		d.drop()
		d.Link.waiting--
		d.Link.session.queue.sweep()
		d.Link.unpark() // its credit may be another's
		d.Link.finishDrain()
		return true
	case stageStarted:
		d.stage = stageAborting
		d.Settled = true
		if d.listed {
			d.Link.unlist(d)
		}
		d.Link.session.hold(-d.out.left)
		d.out.left, d.out.pieces = 0, nil
		d.Link.session.wake()
	case stageIncoming, stageAborting, stageSent, stageDropped:
	}
	return false
}

// drop ends an outgoing delivery that is not sent.
func (d *Delivery) drop() {
	d.Link.session.hold(-d.out.left)
	d.Link.session.conn.recycle(d.out)
	d.out = nil
	d.stage = stageDropped
}
