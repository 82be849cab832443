package client

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
	"github.com/oncemq/oncemq/internal/mutant"
)

// ErrUnknown is a send that may have been stored, on a session that ends; its cause is joined.
var ErrUnknown = errors.New("oncemq: outcome unknown")

// Sender is one sender link by its name, over all connections.
type Sender struct {
	// Attaching ends when the broker has attached the link first, Closing when it is detached.
	Attaching, Closing Op

	session       *Session
	name, address string
	link          *engine.Link
	err           error // failed for good
	closing       bool

	// number is the last one taken; numbers rise per link and may have gaps (wire.md, sends).
	number uint64
	// first … last are the sends that are not finished, in order. Those before next are handed to the present connection.
	first, last, next *Send
	handed            int // of them, how many plain ones wait for an outcome
}

// NewSender begins to attach a sender; name is made if empty.
func (s *Session) NewSender(address, name string) *Sender {
	if name == "" {
		name = s.linkName("s", address)
	}
	snd := &Sender{session: s, name: name, address: address}
	if s.err != nil {
		snd.err = s.err
		s.core.finish(&snd.Attaching, s.err)
		return snd
	}
	s.senders = append(s.senders, snd)
	if s.up {
		snd.attachNow()
	}
	return snd
}

// Address is where it sends to.
func (snd *Sender) Address() string { return snd.address }

// Err is why the sender failed for good, or nil.
func (snd *Sender) Err() error { return snd.err }

func (snd *Sender) present() *engine.Link { return snd.link }

func (snd *Sender) owner() *Session { return snd.session }

// attachNow attaches the link on the present connection, naming the plain sends that may have been stored [1.6].
func (snd *Sender) attachNow() {
	a := *amqp.NewAttach(snd.name, amqp.RoleSender)
	a.ReceiverSettleMode = amqp.ReceiverSettleSecond
	a.Source = &amqp.Source{Address: amqp.Some(snd.session.core.cfg.ContainerID), Outcomes: outcomes}
	a.Target = &amqp.Target{Address: amqp.Some(snd.address)}
	a.DesiredCapabilities = []amqp.Symbol{amqp.CapOncemqNumbered}
	if snd.Attaching.done {
		a.Unsettled = []amqp.Unsettled{}
		for x := snd.first; x != nil; x = x.succ {
			if x.tx == nil && x.written {
				a.Unsettled = append(a.Unsettled, amqp.Unsettled{Tag: numberTag(x.number)})
			}
		}
	}
	l, err := snd.session.on.Attach(a)
	if ending(err) {
		return
	}
	if err != nil {
		snd.expire(err)
		snd.fail(err)
		return
	}
	l.Data = terminus(snd)
	snd.link = l
}

// outcomes are those that we understand.
var outcomes = []amqp.Symbol{amqp.OutcomeAccepted, amqp.OutcomeRejected, amqp.OutcomeReleased, amqp.OutcomeModified}

// attached: the reply's unsettled map holds the outcome of every tag that the broker knows; the others are sent again.
func (snd *Sender) attached(ev *engine.Event) {
	if ev.Refused {
		return // Detach follows with the reason
	}
	for x := snd.first; x != nil && mutant.On(mutant.ClientRepeats); x = x.succ {
		x.number = 0
	}
	for _, u := range ev.Attach.Unsettled {
		if len(u.Tag) != 8 {
			continue
		}
		n := binary.BigEndian.Uint64(u.Tag)
		for x := snd.first; x != nil; x = x.succ {
			if x.number == n && x.tx == nil && x.written {
				snd.outcome(x, u.State)
				break
			}
		}
	}
	snd.session.core.finish(&snd.Attaching, nil)
}

// detached: by our wish, or the broker won't serve the address any more.
func (snd *Sender) detached(ev *engine.Event) {
	_ = ev.Link.Detach(true, nil)
	snd.link = nil
	if snd.closing {
		snd.fail(ErrClosed)
		return
	}
	err := errors.New("oncemq: the node detached the sender")
	if ev.Err != nil {
		err = &ev.Err.AMQP
	}
	for x := snd.first; x != nil; x = x.succ {
		x.written = x.written || x.on != nil && x.on.Written()
	}
	snd.expire(err)
	snd.fail(fmt.Errorf("sender to %s: %w", snd.address, err))
}

func (snd *Sender) moved(ev *engine.Event) {
	switch ev.Kind {
	case engine.Disposed:
		for _, d := range ev.Deliveries {
			x, ok := d.Data.(*Send)
			if !ok || x.on != d {
				continue
			}
			if x.tx == nil {
				snd.outcome(x, d.State)
			} else {
				x.tx.answered(d.State)
			}
			if !d.Settled && (x.done || x.tx != nil) {
				d.Dispose(nil, true)
			}
		}
	case engine.Credit:
		if ev.Drain {
			ev.Link.Drained()
		}
	default:
	}
}

// refusing says why nothing more can be sent.
func (snd *Sender) refusing() error {
	switch {
	case snd.err != nil:
		return snd.err
	case snd.closing:
		return ErrClosed
	}
	return snd.session.err
}

// pump hands over, in order, as long as there is credit and the next one's transaction is declared.
func (snd *Sender) pump() {
	for snd.next != nil && snd.link != nil && snd.link.Attached() {
		x := snd.next
		if x.tx != nil && !x.tx.ready() {
			return
		}
		if snd.link.Credit() == 0 || !snd.hand(x) {
			return
		}
	}
	if snd.closing && snd.first == nil && snd.link != nil {
		_ = snd.link.Detach(true, nil)
	}
}

// attaching says that the broker's Attach or Detach is due.
func (snd *Sender) attaching() bool {
	return snd.link != nil && !snd.link.Attached() && !snd.link.Detached()
}

// lost: the connection is gone; all is to be handed over again.
func (snd *Sender) lost() {
	snd.link = nil
	for x := snd.first; x != nil; x = x.succ {
		if x.on == nil {
			break // those behind were not handed over either
		}
		x.written = x.written || x.on.Written()
		x.on = nil
		if x.tx != nil {
			x.tx.unhanded++
		}
	}
	snd.next, snd.handed = snd.first, 0
	if snd.closing && snd.first == nil {
		snd.fail(ErrClosed)
	}
}

// expire: the session is gone. Plain sends that may have been stored are unknown, the others begin anew.
func (snd *Sender) expire(cause error) {
	for x := snd.first; x != nil; {
		succ := x.succ
		switch {
		case x.tx != nil: // ends with its transaction
		case x.written:
			snd.end(x, fmt.Errorf("%w: %w", ErrUnknown, cause))
		default:
			x.number = 0
		}
		x = succ
	}
	snd.next = snd.first
}

// fail ends the sender for good.
func (snd *Sender) fail(err error) {
	if snd.err == nil {
		snd.err = err
	}
	snd.link = nil
	for snd.first != nil {
		x := snd.first
		if x.tx != nil {
			x.tx.spoil(err)
		}
		snd.end(x, err)
	}
	c := snd.session.core
	c.finish(&snd.Attaching, err)
	c.finish(&snd.Closing, nil)
	list := snd.session.senders
	for i, other := range list {
		if other == snd {
			snd.session.senders = append(list[:i:i], list[i+1:]...)
			break
		}
	}
}

// Close begins to detach the sender once its sends are answered.
func (snd *Sender) Close() {
	if snd.err != nil || snd.closing {
		if snd.err != nil {
			snd.session.core.finish(&snd.Closing, nil)
		}
		return
	}
	snd.closing = true
	snd.session.pump()
	if snd.first == nil && snd.link == nil {
		snd.fail(ErrClosed)
	}
}

// Sender is the link that it was sent on.
func (x *Send) Sender() *Sender { return x.sender }

// SessionOf is the sender's session.
func (snd *Sender) SessionOf() *Session { return snd.session }
