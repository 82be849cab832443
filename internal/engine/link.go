package engine

import "github.com/oncemq/oncemq/internal/amqp"

// Link is one attachment of a link: a further Attach of the same name, after Detach or to steal it, makes another Link.
type Link struct {
	// Data is the user's, untouched by the engine.
	Data any

	session            *Session
	name               string
	role               amqp.Role
	local              bool
	handle, peerHandle uint32

	// attachIn, detachIn: what the peer sent; attachOut, detachOut: what we have queued. closed: one of the Detaches said so.
	// told: the event LinkDetached is out.
	attachIn            *amqp.Attach
	attachOut           bool
	detachIn, detachOut bool
	closed, told        bool
	hasTerminus         bool // our Attach named the terminus that the peer's is to echo
	mode                amqp.SenderSettleMode
	second              bool

	// deliveryCount is the sender's (2.6.7): at the receiver what it knows of it. credit is what is left of what the receiver
	// granted; a sender's waiting deliveries have not used it yet.
	deliveryCount, credit uint32
	drain                 bool // asked for and not answered

	// Of a sender: waiting and parked deliveries are not started; the parked ones lost their credit.
	initialCount uint32
	maxSend      uint64
	waiting      int
	parked       []*Delivery
	sending      *Delivery // started, not sent
	drainDone    bool      // Drained was called, but sends still wait

	// Of a receiver: allow is how many deliveries the peer may still send without fault, at least credit (a grant that was
	// taken back may have been used up already).
	allow      uint32
	drainFrom  uint32
	maxReceive uint64
	partial    *Delivery
	buf        []byte // the partial delivery's payload so far
	tags       map[tagKey]struct{}
	lastState  amqp.DeliveryState

	first, last *Delivery // unsettled, in order of their ids
	unsettled   int
}

// tagKey is a delivery-tag as a map key that needs no allocation.
type tagKey struct {
	n uint8
	b [maxTag]byte
}

// Session is the link's session.
func (l *Link) Session() *Session { return l.session }

// Name is the link's name.
func (l *Link) Name() string { return l.name }

// Role is our role.
func (l *Link) Role() amqp.Role { return l.role }

// Local says that this end attached first.
func (l *Link) Local() bool { return l.local }

// Attached says that Attach went both ways and Detach neither.
func (l *Link) Attached() bool {
	return l.attachIn != nil && l.attachOut && !l.detachIn && !l.detachOut && !l.session.over()
}

// Detached says that Detach went both ways, or the session is over: nothing more is due.
func (l *Link) Detached() bool { return l.detachIn && l.detachOut || l.session.over() }

// Remote is the peer's Attach, nil until it has come.
func (l *Link) Remote() *amqp.Attach { return l.attachIn }

// Credit is, for a sender, how many sends are permitted now (those that wait are taken off); for a receiver, how much
// of what was granted the peer has not used; 0 once the link is detached or its session over.
func (l *Link) Credit() uint32 {
	if l.gone() {
		return 0
	}
	if l.role == amqp.RoleSender {
		return l.credit - min(l.credit, uint32(l.waiting))
	}
	return l.credit
}

// Unsettled is how many unsettled deliveries the link has in the session's table.
func (l *Link) Unsettled() int { return l.unsettled }

// EachUnsettled calls f for the link's unsettled deliveries in order of their ids until it gives false. f may settle
// the delivery that it is given.
func (l *Link) EachUnsettled(f func(*Delivery) bool) {
	for d := l.first; d != nil; {
		next := d.next
		if !f(d) {
			return
		}
		d = next
	}
}

// Forget drops the link's unsettled deliveries from the session's table without a word to the peer: late dispositions mean
// nothing. For a link that was detached without closed and will not be asked for again.
func (l *Link) Forget() {
	for l.first != nil {
		l.unlist(l.first)
	}
	l.session.tidy(l)
}

// Partial says that a delivery has begun to arrive on the link and is not complete, and in which state its frames so far were
// sent: a coordinator must not discharge a transaction that it belongs to (4.4.3; checklist 97).
func (l *Link) Partial() (state amqp.DeliveryState, ok bool) {
	if l.partial == nil {
		return nil, false
	}
	return l.partial.State, true
}

// gone says that nothing can be sent on the link any more.
func (l *Link) gone() bool { return l.detachIn || l.detachOut || l.session.over() }

// table is where the session keeps the link's unsettled deliveries.
func (l *Link) table() map[uint32]*Delivery {
	s := l.session
	t := &s.received
	if l.role == amqp.RoleSender {
		t = &s.sent
	}
	if *t == nil {
		*t = make(map[uint32]*Delivery)
	}
	return *t
}

// list puts an unsettled delivery, the link's newest, into the session's table.
func (l *Link) list(d *Delivery) {
	l.table()[d.ID] = d
	d.listed = true
	d.prev = l.last
	if l.last == nil {
		l.first = d
	} else {
		l.last.next = d
	}
	l.last = d
	l.unsettled++
}

// unlist takes it out again.
func (l *Link) unlist(d *Delivery) {
	delete(l.table(), d.ID)
	if l.role == amqp.RoleReceiver {
		delete(l.tags, d.tag)
	}
	d.listed = false
	if d.prev == nil {
		l.first = d.next
	} else {
		d.prev.next = d.next
	}
	if d.next == nil {
		l.last = d.prev
	} else {
		d.next.prev = d.prev
	}
	d.prev, d.next = nil, nil
	l.unsettled--
}

// settle marks a listed delivery settled and forgets it.
func (l *Link) settle(d *Delivery) {
	d.Settled = true
	l.unlist(d)
	if l.unsettled == 0 && l.detachIn && l.detachOut {
		l.session.tidy(l)
	}
}

// fail detaches the link for a fault of the peer's.
func (l *Link) fail(condition amqp.Symbol, what string) {
	err := &Error{Scope: ScopeLink, AMQP: amqp.Error{Condition: condition, Description: what}}
	left := l.left(true)
	l.sendDetach(true, &err.AMQP)
	l.tell(err, true, left)
}

// left is the unsettled deliveries that a Detach with closed is about to forget.
func (l *Link) left(closed bool) (ds []*Delivery) {
	if closed && l.unsettled > 0 {
		ds = make([]*Delivery, 0, l.unsettled)
		for d := l.first; d != nil; d = d.next {
			ds = append(ds, d)
		}
	}
	return ds
}

// tell makes the event LinkDetached, once.
func (l *Link) tell(err *Error, closed bool, left []*Delivery) {
	if l.told {
		return
	}
	l.told = true
	ev := l.session.conn.emit(LinkDetached)
	ev.Session, ev.Link, ev.Err, ev.Closed, ev.Deliveries = l.session, l, err, closed, left
}
