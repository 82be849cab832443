package client

import (
	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

type deliveryState uint8

const (
	dWaiting   deliveryState = iota // Take hasn't given it out
	dTaken                          // the application has it
	dSettling                       // an outcome is under way
	dEnlisted                       // settled in an open transaction
	dReturning                      // to be given back once its transfer was resumed
	dDone                           // settled
	dLost
)

// Delivery is one delivery of a Receiver.
type Delivery struct {
	// Payload is the message's sections as they came; the application's for ever.
	Payload []byte

	receiver   *Receiver
	on         *engine.Delivery // on the present connection; nil while it is not resumed
	tag        []byte
	state      deliveryState
	held       bool // stands in the receiver's list
	place      uint64
	settling   *Settlement
	tx         *Tx
	outcome    amqp.DeliveryState // in tx
	prev, next *Delivery
}

// Settlement is one outcome on its way: we say it, the broker says it once it is applied, we settle [3.3].
type Settlement struct {
	Op
	delivery *Delivery
	state    amqp.DeliveryState
}

// settlements counts those without an answer.
type settlements struct{ open int }

// Attempt is the number of this hand-out, 0 if the broker's tag doesn't say.
func (d *Delivery) Attempt() uint32 { return attemptOf(d.tag) }

// Receiver is the link that it came over.
func (d *Delivery) Receiver() *Receiver { return d.receiver }

// Unsettled says that it can still be settled.
func (d *Delivery) Unsettled() bool { return d.state == dTaken }

// Settle begins to settle d with an outcome. A repeat gives the same Settlement; another outcome is refused, or its caller would be told of success.
func (d *Delivery) Settle(state amqp.DeliveryState) *Settlement {
	c := d.receiver.session.core
	if d.settling != nil && sameOutcome(state, d.settling.state) {
		return d.settling
	}
	x := &Settlement{delivery: d, state: state}
	if err := d.refusing(); err != nil {
		c.finish(&x.Op, err)
		return x
	}
	d.state, d.settling = dSettling, x
	d.receiver.session.settle.open++
	x.tell()
	return x
}

// refusing says why d can't be settled, or nil.
func (d *Delivery) refusing() error {
	switch d.state {
	case dTaken, dWaiting:
		return nil
	case dLost, dReturning:
		return ErrDeliveryLost
	default:
		return ErrSettled
	}
}

// tell says the outcome on the present connection, if the delivery is there.
func (x *Settlement) tell() {
	if d := x.delivery; !x.done && d.on != nil {
		d.on.Dispose(x.state, false)
	}
}

// end finishes a settlement; its delivery is then done, or lost.
func (x *Settlement) end(err error) {
	if x.done {
		return
	}
	s := x.delivery.receiver.session
	s.settle.open--
	s.core.progress = s.core.progress || err == nil
	s.core.finish(&x.Op, err)
}

// disposed: the broker said something about a delivery of ours.
func (d *Delivery) disposed(ed *engine.Delivery) {
	switch {
	case d.settling != nil && !saysLost(ed.State) && sameOutcome(ed.State, d.settling.state):
		if !ed.Settled {
			ed.Dispose(nil, true)
		}
		d.applied(ed.State)
	case d.settling != nil && (ed.Settled || amqp.IsOutcome(ed.State)):
		if !ed.Settled {
			ed.Dispose(nil, true)
		}
		d.lose()
	case ed.Settled && d.state != dEnlisted:
		d.lose()
	}
}

// saysLost: the broker's answer to an outcome for a delivery that isn't ours any more.
func saysLost(state amqp.DeliveryState) bool {
	r, ok := state.(*amqp.Rejected)
	return ok && r.Error != nil && r.Error.Condition == amqp.ErrCondDeliveryLost
}

// applied: the broker says that state was applied to d, before or after the connection was lost. In an unsettled map it says released
// for every outcome but accepted.
func (d *Delivery) applied(state amqp.DeliveryState) {
	x := d.settling
	_, back := state.(*amqp.Released)
	if x == nil || !sameOutcome(state, x.state) && (!back || sameOutcome(x.state, &amqp.Accepted{})) {
		d.lose()
		return
	}
	d.unlist()
	d.state = dDone
	x.end(nil)
}

// sameOutcome compares outcomes by kind.
func sameOutcome(a, b amqp.DeliveryState) bool {
	return outcomeKind(a) == outcomeKind(b)
}

func outcomeKind(s amqp.DeliveryState) int {
	switch s.(type) {
	case *amqp.Accepted:
		return 1
	case *amqp.Rejected:
		return 2
	case *amqp.Released:
		return 3
	case *amqp.Modified:
		return 4
	}
	return 0
}

// resumed: the transfer that goes on with d on the new connection is there.
func (d *Delivery) resumed() {
	switch d.state {
	case dSettling:
		d.receiver.again = append(d.receiver.again, d.settling)
	case dReturning:
		d.giveBack()
	case dLost, dDone:
		d.on.Dispose(&amqp.Released{}, true)
	default: // the application's, or told with its transaction
	}
}

// lose: the message is no longer ours. In an open transaction that shows when it is committed.
func (d *Delivery) lose() {
	d.unlist()
	if x := d.settling; x != nil {
		x.end(ErrDeliveryLost)
	}
	d.on = nil
	if d.state != dDone {
		d.state = dLost
	}
}

// drop lets go of d: a decided transaction consumed it.
func (d *Delivery) drop() {
	d.unlist()
	d.tx = nil
	d.state = dDone
}

// giveBack returns d after a rollback, as a failed attempt (C8), unless the broker has done so because it was told of the
// settlement; without a connection that waits for the next.
func (d *Delivery) giveBack() {
	d.tx = nil
	switch {
	case !d.held:
	case d.on == nil && d.receiver.err == nil && !d.receiver.session.over:
		d.state = dReturning
		return
	case d.on != nil && !d.on.Settled:
		d.on.Dispose(&amqp.Modified{DeliveryFailed: true}, true)
	}
	d.lose()
}

func (d *Delivery) unlist() {
	if !d.held {
		return
	}
	d.held = false
	r := d.receiver
	if d.prev == nil {
		r.first = d.next
	} else {
		d.prev.next = d.next
	}
	if d.next == nil {
		r.last = d.prev
	} else {
		d.next.prev = d.prev
	}
	d.prev, d.next = nil, nil
	r.count--
}

// Settle enlists the outcome of d in the transaction. It takes effect at commit.
func (tx *Tx) Settle(d *Delivery, state amqp.DeliveryState) error {
	if err := tx.usable(); err != nil {
		return err
	}
	if d.receiver.session != tx.session {
		return ErrForeign
	}
	if err := d.refusing(); err != nil {
		return err
	}
	d.state, d.tx, d.outcome = dEnlisted, tx, state
	tx.enlisted = append(tx.enlisted, d)
	tx.operations++
	tx.session.pump()
	return nil
}

// settle tells the transaction's settlements to the present connection, in order; it stops at one whose transfer is not resumed yet. A lost one
// is left out: the broker then counts too few operations and rolls back (C2).
func (tx *Tx) settle() {
	for tx.disposed < len(tx.enlisted) {
		d := tx.enlisted[tx.disposed]
		if d.held {
			if d.on == nil {
				return
			}
			d.on.Dispose(&amqp.TransactionalState{TxnID: tx.id[:], Outcome: d.outcome}, true)
		}
		tx.disposed++
	}
}

// Through gives the deliveries up to and with d that were taken and are not settled, in order.
func (d *Delivery) Through() []*Delivery {
	var list []*Delivery
	for x := d.receiver.first; x != nil && x.place < d.place; x = x.next {
		if x.state == dTaken {
			list = append(list, x)
		}
	}
	return append(list, d)
}
