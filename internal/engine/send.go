package engine

import (
	"slices"

	"github.com/oncemq/oncemq/internal/amqp"
)

// Transfer is what Link.Send sends.
type Transfer struct {
	// Tag is the delivery-tag, at most 32 bytes; it is copied.
	Tag []byte
	// Format is the message-format.
	Format uint32
	// Settled sends it settled; a link in mode settled or unsettled overrules it.
	Settled bool
	// State goes with the transfer (transactional-state, or an outcome when resuming). It is kept: don't change it.
	State amqp.DeliveryState
	// Payload in pieces, which need not be joined. The outer slice is copied, the pieces are borrowed until Delivery.Sent,
	// or until it is withdrawn or its link, session or connection has ended.
	Payload [][]byte
	// Resume resumes a delivery that both unsettled maps have (2.6.13); the payload is usually empty.
	Resume bool
	// Batchable tells the receiver that it may delay its disposition.
	Batchable bool
}

// outgoing is what a delivery needs only until it is sent; it is recycled.
type outgoing struct {
	few       [4][]byte
	pieces    [][]byte // what is left to send, the first one perhaps in part
	left      int      // bytes in pieces
	batchable bool
	next      *outgoing
}

// maxStateSize bounds what a transfer's own fields may take, so that a frame of 512 bytes has room for payload.
const maxStateSize = 256

// Send queues a delivery on a sender link, in order with all sends of the session, and uses up one credit. Without credit it is
// refused (ErrNoCredit), never queued. TakeOutput turns it into frames. Where the receiver takes credit back while a send still
// waits, that send waits for credit, and sends on other links pass it.
func (l *Link) Send(t Transfer) (*Delivery, error) {
	if err := l.maySend(&t); err != nil {
		return nil, err
	}
	s := l.session
	d := &Delivery{Link: l, Format: t.Format, LocalState: t.State, Resume: t.Resume, Second: l.second, stage: stageWaiting}
	d.setTag(t.Tag)
	switch l.mode {
	case amqp.SenderSettleSettled:
		d.Settled = true
	case amqp.SenderSettleMixed:
		d.Settled = t.Settled
	case amqp.SenderSettleUnsettled:
	}
	if !d.Settled && l.unsettled+l.waiting >= s.conn.cfg.MaxUnsettled {
		return nil, ErrUnsettledFull
	}
	o := s.conn.newOutgoing()
	o.pieces = append(o.few[:0], t.Payload...)
	o.batchable = t.Batchable
	for _, p := range t.Payload {
		o.left += len(p)
	}
	if l.maxSend > 0 && uint64(o.left) > l.maxSend {
		s.conn.recycle(o)
		return nil, ErrTooLarge
	}
	d.out = o
	s.hold(o.left)
	l.waiting++
	s.queue.push(d)
	s.wake()
	return d, nil
}

// hold counts payload bytes that come to wait, or wait no more.
func (s *Session) hold(n int) {
	s.held += n
	s.conn.waiting += n
}

func (l *Link) maySend(t *Transfer) error {
	s := l.session
	switch {
	case l.role != amqp.RoleSender:
		return ErrRole
	case s.conn.ended():
		return ErrClosed
	case s.over():
		return ErrEnded
	case l.detachIn || l.detachOut:
		return ErrDetached
	case l.attachIn == nil || !l.attachOut:
		return ErrNotAttached
	case l.Credit() == 0:
		return ErrNoCredit
	case len(t.Tag) > maxTag:
		return ErrTag
	}
	if t.State != nil && s.conn.maxOut < 4096 && stateSize(t.State) > maxStateSize {
		return ErrFrameTooLarge
	}
	return nil
}

// stateSize is how large a state is on the wire, but for a frame's few bytes around it.
func stateSize(state amqp.DeliveryState) int {
	return len(amqp.AppendTransfer(nil, 0, &amqp.Transfer{State: state}, nil))
}

func (c *Conn) newOutgoing() *outgoing {
	o := c.free
	if o == nil {
		return &outgoing{}
	}
	c.free = o.next
	o.next = nil
	return o
}

func (c *Conn) recycle(o *outgoing) {
	*o = outgoing{next: c.free}
	c.free = o
}

// sendNext makes the frames of the first delivery that may go; false if none may.
func (s *Session) sendNext() bool {
	d := s.queue.front()
	for d != nil && d.stage == stageWaiting && d.Link.credit == 0 {
		d.Link.park()
		d = s.queue.front()
	}
	if d == nil {
		return false
	}
	c, l := s.conn, d.Link
	for s.peerWindow > 0 && !s.over() {
		s.sendFrame(d)
		if d.stage == stageSent || d.stage == stageDropped {
			s.queue.pop()
			l.sending = nil
			l.finishDrain()
			return true
		}
		if len(c.out) >= c.cfg.OutputLimit {
			return true
		}
	}
	return false
}

// sendFrame makes one frame of d.
func (s *Session) sendFrame(d *Delivery) {
	c, l, o := s.conn, d.Link, d.out
	c.flush()
	t := &c.frame.transfer
	*t = amqp.Transfer{Handle: l.handle}
	if d.stage == stageWaiting {
		l.begin(d)
		t.DeliveryID = amqp.Some(d.ID)
		t.DeliveryTag = d.Tag()
		t.MessageFormat = amqp.Some(d.Format)
		t.Settled = amqp.Some(d.Settled)
		t.Resume, t.Batchable = d.Resume, o.batchable
		t.State = d.LocalState
		if t.DeliveryTag == nil {
			t.DeliveryTag = []byte{}
		}
	} else {
		if _, tx := d.LocalState.(*amqp.TransactionalState); tx {
			t.State = d.LocalState // each frame is part of the transaction (4.4.2)
		}
		if d.Settled { // meanwhile, perhaps by a disposition that the peer couldn't apply to what it had of the delivery
			t.Settled = amqp.Some(true)
		}
	}
	t.Aborted = d.stage == stageAborting
	s.peerWindow--
	s.nextOutgoingID++
	s.hold(-o.left)
	c.out = o.appendTo(c.out, s.channel, t, c.maxOut)
	s.hold(o.left)
	d.end = c.position()
	if o.left > 0 {
		return
	}
	c.recycle(o)
	d.out = nil
	if d.stage == stageAborting {
		d.stage = stageDropped
		return
	}
	d.stage = stageSent
}

// begin gives a waiting delivery its number, its credit and its place in the table.
func (l *Link) begin(d *Delivery) {
	s := l.session
	d.ID = s.nextDeliveryID
	s.nextDeliveryID++
	d.start = s.conn.position()
	d.stage = stageStarted
	l.waiting--
	l.credit--
	l.deliveryCount++
	l.sending = d
	if !d.Settled {
		l.list(d)
	}
}

// appendTo makes a frame of as much payload as fits, and takes it off.
func (o *outgoing) appendTo(dst []byte, channel uint16, t *amqp.Transfer, maxFrame uint32) []byte {
	if len(o.pieces) == 1 {
		var rest []byte
		dst, rest = amqp.AppendTransferPart(dst, channel, t, o.pieces[0], maxFrame)
		o.pieces[0] = rest
		o.left = len(rest)
		return dst
	}
	start := len(dst)
	dst = amqp.AppendTransfer(dst, channel, t, nil)
	if len(dst)-start+o.left > int(maxFrame) {
		t.More = true
		dst = amqp.AppendTransfer(dst[:start], channel, t, nil)
	}
	room := int(maxFrame) - (len(dst) - start)
	for room > 0 && o.left > 0 {
		p := o.pieces[0]
		n := min(room, len(p))
		dst = append(dst, p[:n]...)
		room -= n
		o.left -= n
		if n == len(p) {
			o.pieces = o.pieces[1:]
		} else {
			o.pieces[0] = p[n:]
		}
	}
	size := len(dst) - start
	dst[start], dst[start+1], dst[start+2], dst[start+3] = byte(size>>24), byte(size>>16), byte(size>>8), byte(size)
	return dst
}

// park moves the link's waiting deliveries, whose credit was taken back, out of the queue, so that others pass them. Invariant:
// what the queue holds of a link is older than what is parked of it.
func (l *Link) park() {
	q := &l.session.queue
	kept := q.items[:0]
	var moved []*Delivery
	for _, d := range q.items[q.head:] {
		switch {
		case d.stage == stageDropped:
		case d.Link == l:
			moved = append(moved, d)
		default:
			kept = append(kept, d)
		}
	}
	clear(q.items[len(kept):])
	q.items, q.head, q.dropped = kept, 0, 0
	l.parked = append(moved, l.parked...)
}

// unpark puts as many of them back into the queue as there is credit for.
func (l *Link) unpark() {
	if len(l.parked) == 0 {
		return
	}
	l.parked = slices.DeleteFunc(l.parked, func(d *Delivery) bool { return d.stage != stageWaiting })
	queued := l.waiting - len(l.parked)
	n := min(max(int64(l.credit)-int64(queued), 0), int64(len(l.parked)))
	for _, d := range l.parked[:n] {
		l.session.queue.push(d)
	}
	l.parked = slices.Delete(l.parked, 0, int(n))
	l.session.wake()
}

// dropWaiting drops the link's deliveries that are not sent.
func (l *Link) dropWaiting() {
	for _, d := range l.session.queue.items[l.session.queue.head:] {
		if d.Link == l && d.out != nil {
			d.drop()
		}
	}
	for _, d := range l.parked {
		if d.out != nil {
			d.drop()
		}
	}
	l.parked, l.waiting, l.sending = nil, 0, nil
}

// dropWaiting drops the session's deliveries that are not sent.
func (s *Session) dropWaiting() {
	for _, l := range s.links {
		l.dropWaiting()
	}
	s.queue = queue{}
}
