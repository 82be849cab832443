package client

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// DefaultPrefetch is how many deliveries may wait here; maxHeld bounds what a link holds unsettled (wire.md).
const (
	DefaultPrefetch = 100
	maxHeld         = 10_000
)

// Receiver is one receiver link by its name, over all connections.
type Receiver struct {
	// Attaching ends when the broker has attached the link first, Closing when it is detached.
	Attaching, Closing Op
	// Data is the driver's.
	Data any

	session       *Session
	name, address string
	selector      string
	subscription  *Subscription // nil: none, or the link's own
	ends          bool          // the subscription ends with the link
	prefetch      int
	link          *engine.Link
	err           error
	closing       bool

	// held are the deliveries that the broker holds for us, in order; waiting those that Take hasn't given out.
	first, last *Delivery
	count       int
	places      uint64 // ever held, which numbers them
	wanted      bool   // Take had nothing to give
	waiting     []*Delivery
	head        int
	awaited     int                  // resumed transfers that are still to come on this connection
	byTag       map[string]*Delivery // those, while resuming
	again       []*Settlement        // outcomes to be told anew
}

// Source is what a receiver asks for.
type Source struct {
	Address  string
	Selector string // which messages; empty: all
	Name     string // of the link; empty: a made one
	Prefetch int    // 0: the default
	// Subscription is what it reads of a topic, nil: what comes while it is attached.
	Subscription *Subscription
}

// NewReceiver is Receive without a selector.
func (s *Session) NewReceiver(address, name string, prefetch int) *Receiver {
	return s.Receive(Source{Address: address, Name: name, Prefetch: prefetch})
}

// Receive begins to attach a receiver.
func (s *Session) Receive(from Source) *Receiver {
	if from.Name == "" {
		from.Name = s.linkName("r", from.Address)
	}
	if from.Subscription != nil {
		from.Name = from.Subscription.linkName(from.Name)
	}
	if from.Prefetch <= 0 {
		from.Prefetch = DefaultPrefetch
	}
	r := &Receiver{session: s, name: from.Name, address: from.Address, selector: from.Selector, subscription: from.Subscription, prefetch: min(from.Prefetch, maxHeld)}
	if s.err != nil {
		r.err = s.err
		s.core.finish(&r.Attaching, s.err)
		return r
	}
	s.receivers = append(s.receivers, r)
	if s.up {
		r.attachNow()
	}
	return r
}

// Address is where it receives from.
func (r *Receiver) Address() string { return r.address }

// Err is why the receiver failed for good, or nil.
func (r *Receiver) Err() error { return r.err }

// Held is how many deliveries the broker holds for us, as far as we know: handed out, and not settled.
func (r *Receiver) Held() int { return r.count }

// SessionOf is the receiver's session.
func (r *Receiver) SessionOf() *Session { return r.session }

func (r *Receiver) present() *engine.Link { return r.link }
func (r *Receiver) owner() *Session       { return r.session }

// attachNow attaches the link, naming every delivery that we hold (AMQP 2.6.13).
func (r *Receiver) attachNow() {
	a := *amqp.NewAttach(r.name, amqp.RoleReceiver)
	a.SenderSettleMode = amqp.SenderSettleUnsettled
	a.ReceiverSettleMode = amqp.ReceiverSettleSecond
	a.Source = &amqp.Source{Address: amqp.Some(r.address), Outcomes: outcomes, DefaultOutcome: &amqp.Modified{DeliveryFailed: true}}
	if r.selector != "" {
		a.Source.Filter = amqp.Map{{Key: amqp.FilterSelector, Value: &amqp.Described{Descriptor: amqp.FilterSelector, Value: r.selector}}}
	}
	if r.subscription != nil {
		r.subscription.ask(a.Source)
	}
	a.Target = &amqp.Target{Address: amqp.Some(r.session.core.cfg.ContainerID)}
	r.byTag, r.awaited = nil, 0
	if r.Attaching.done && !r.session.Rollback {
		a.Unsettled = make([]amqp.Unsettled, 0, r.count)
		r.byTag = make(map[string]*Delivery, r.count)
		for d := r.first; d != nil; d = d.next {
			u := amqp.Unsettled{Tag: d.tag}
			if d.settling != nil {
				u.State = d.settling.state
			}
			a.Unsettled = append(a.Unsettled, u)
			r.byTag[string(d.tag)] = d
		}
	}
	l, err := r.session.on.Attach(a)
	if ending(err) {
		return
	}
	if err != nil {
		r.expire(err)
		r.fail(err)
		return
	}
	l.Data = terminus(r)
	r.link = l
	credit := len(r.byTag) // the transfers that resume what we hold take credit as well
	if !r.closing {
		credit += r.room()
	}
	_ = l.SetCredit(uint32(credit), false)
}

// room is how many further deliveries may come. With a prefetch of 1 none is asked for but when a taker waits.
func (r *Receiver) room() int {
	if r.prefetch == 1 && !r.wanted {
		return 0
	}
	return max(0, min(r.prefetch-(len(r.waiting)-r.head), maxHeld-r.count))
}

// topUp opens the window again at half.
func (r *Receiver) topUp() {
	if r.link == nil || r.closing || r.awaited > 0 || !r.link.Attached() {
		return
	}
	if have, want := int(r.link.Credit()), r.room(); have < want && (want-have)*2 >= r.prefetch {
		_ = r.link.SetCredit(uint32(want), false)
	}
}

// attached: for each delivery that we named: still ours (its transfer follows), applied before, or lost [3.3].
func (r *Receiver) attached(ev *engine.Event) {
	if ev.Refused {
		return
	}
	if ignored := r.ignored(ev.Attach.Source); ignored != "" {
		_ = ev.Link.Detach(true, nil)
		r.fail(fmt.Errorf("oncemq: the broker ignores the %s of the receiver of %q: it would hand out other messages", ignored, r.address))
		return
	}
	if r.byTag != nil {
		reply := make(map[string]amqp.DeliveryState, len(ev.Attach.Unsettled))
		for _, u := range ev.Attach.Unsettled {
			reply[string(u.Tag)] = u.State
		}
		for d := r.first; d != nil; {
			next := d.next
			state, ok := reply[string(d.tag)]
			switch {
			case !ok:
				d.lose()
			case amqp.IsOutcome(state):
				d.applied(state)
			default:
				r.awaited++
			}
			d = next
		}
		if r.awaited == 0 {
			r.byTag = nil
		}
	}
	r.session.core.finish(&r.Attaching, nil)
}

func (r *Receiver) detached(ev *engine.Event) {
	_ = ev.Link.Detach(true, nil)
	r.link = nil
	if r.closing {
		r.fail(ErrClosed)
		return
	}
	err := errors.New("oncemq: the node detached the receiver")
	if ev.Err != nil {
		err = &ev.Err.AMQP
	}
	r.fail(fmt.Errorf("receiver from %s: %w", r.address, err))
}

func (r *Receiver) moved(ev *engine.Event) {
	switch ev.Kind {
	case engine.Received:
		r.received(ev.Delivery)
	case engine.Disposed:
		for _, ed := range ev.Deliveries {
			if d, ok := ed.Data.(*Delivery); ok && d.on == ed {
				d.disposed(ed)
			}
		}
	default: // no drain is asked for
	}
}

func (r *Receiver) received(ed *engine.Delivery) {
	if d := r.byTag[string(ed.Tag())]; d != nil && d.on == nil && d.held {
		d.on = ed
		ed.Data = d
		r.awaited--
		if r.awaited == 0 {
			r.byTag = nil
		}
		d.resumed()
		return
	}
	if ed.Resume || r.closing || r.err != nil {
		ed.Dispose(&amqp.Released{}, true)
		return
	}
	d := &Delivery{receiver: r, on: ed, tag: ed.Tag(), Payload: ed.Payload, held: true}
	if !ed.Owned {
		d.Payload = append(make([]byte, 0, len(ed.Payload)), ed.Payload...)
	}
	ed.Data = d
	d.prev = r.last
	if r.last == nil {
		r.first = d
	} else {
		r.last.next = d
	}
	r.last = d
	r.count++
	r.places++
	d.place = r.places
	r.waiting = append(r.waiting, d)
	if ed.Settled {
		d.unlist()
		d.state = dDone
	}
	r.session.core.available(r)
}

// Take gives the next delivery, nil if there is none now.
func (r *Receiver) Take() *Delivery {
	for r.head < len(r.waiting) {
		d := r.waiting[r.head]
		r.waiting[r.head] = nil
		r.head++
		if r.head == len(r.waiting) {
			r.waiting, r.head = r.waiting[:0], 0
		}
		if d.state != dWaiting {
			continue
		}
		d.state, r.wanted = dTaken, false
		r.topUp()
		return d
	}
	r.wanted = true
	r.topUp()
	return nil
}

func (r *Receiver) pump() {
	for _, x := range r.again {
		x.tell()
	}
	r.again = r.again[:0]
	if r.closing && r.link != nil && !r.busy() {
		_ = r.link.Detach(r.ends || r.subscription == nil || !r.subscription.Durable, nil)
		return
	}
	r.topUp()
}

// attaching says that the broker's Attach, Detach or resumed transfers are due.
func (r *Receiver) attaching() bool {
	return r.awaited > 0 || r.link != nil && !r.link.Attached() && !r.link.Detached()
}

// busy says that something of the link's is still to be learned: it isn't detached before.
func (r *Receiver) busy() bool {
	for d := r.first; d != nil; d = d.next {
		if d.state == dSettling {
			return true
		}
	}
	return r.enlisting()
}

// enlisting says that an open transaction has deliveries of this link: a detached one couldn't tell them anew.
func (r *Receiver) enlisting() bool {
	for _, tx := range r.session.txs {
		for _, d := range tx.enlisted {
			if d.receiver == r {
				return true
			}
		}
	}
	return false
}

// errUnanswered is the cause where an outcome was on its way to a connection that is gone, and isn't asked for again.
var errUnanswered = errors.New("oncemq: the connection was lost before the answer")

// lost: the connection is gone. Under OnFailover Rollback everything returns to the queue (S1), but for what an outcome was on its way
// for: that may have been applied, and the next connection won't tell. Else all stays ours until the next attach says otherwise.
func (r *Receiver) lost() {
	r.link, r.byTag, r.awaited, r.again = nil, nil, 0, r.again[:0]
	if r.session.Rollback {
		r.expire(errUnanswered)
	}
	for d := r.first; d != nil; d = d.next {
		d.on = nil
	}
	if r.closing && !r.busy() {
		r.fail(ErrClosed)
	}
}

// expire: nothing that we hold is ours any more. An outcome under way may have been applied or not; nobody will say.
func (r *Receiver) expire(cause error) {
	for d := r.first; d != nil; {
		next := d.next
		if d.settling != nil && !d.settling.done {
			d.settling.end(fmt.Errorf("%w: %w", ErrUnknown, cause))
		}
		d.lose()
		d = next
	}
}

func (r *Receiver) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.expire(err)
	r.link = nil
	c := r.session.core
	c.finish(&r.Attaching, err)
	c.finish(&r.Closing, nil)
	c.available(r)
	list := r.session.receivers
	for i, other := range list {
		if other == r {
			r.session.receivers = append(list[:i:i], list[i+1:]...)
			break
		}
	}
}

// Close begins to detach the receiver: what it holds returns to its place; what open transactions have taken stays until they end.
func (r *Receiver) Close() {
	if r.err != nil || r.closing {
		if r.err != nil {
			r.session.core.finish(&r.Closing, nil)
		}
		return
	}
	r.closing = true
	if r.link == nil {
		if !r.busy() {
			r.fail(ErrClosed)
		}
		return
	}
	_ = r.link.SetCredit(0, false)
	for d := r.first; d != nil; {
		next := d.next
		if d.state == dWaiting || d.state == dTaken {
			if d.on != nil {
				d.on.Dispose(&amqp.Released{}, true)
			}
			d.lose()
		}
		d = next
	}
	if r.enlisting() {
		r.session.core.finish(&r.Closing, nil)
	}
	r.session.pump()
}

// attemptOf reads the attempt from a delivery-tag of ours (wire.md): incarnation ‖ message ‖ attempt.
func attemptOf(tag []byte) uint32 {
	if len(tag) != 20 {
		return 0
	}
	return binary.BigEndian.Uint32(tag[16:])
}
