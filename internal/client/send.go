package client

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/engine"
)

// errReleased is the outcome of a plain send that the broker gave back: it is not stored.
var errReleased = errors.New("oncemq: the broker gave the message back unstored: send it again")

// Send is one message of a Sender.
type Send struct {
	// Op ends with the outcome of a plain send; a transacted one ends with its transaction, without an event.
	Op

	sender     *Sender
	tx         *Tx
	payload    [1][]byte
	number     uint64 // 0 until taken
	on         *engine.Delivery
	written    bool // may have been on a wire
	queued     bool // was handed over once
	listed     bool
	prev, succ *Send
}

func numberTag(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// outcome finishes a plain send, if state is an outcome.
func (snd *Sender) outcome(x *Send, state amqp.DeliveryState) {
	var err error
	switch st := state.(type) {
	case *amqp.Accepted:
	case *amqp.Rejected:
		err = refusal(st.Error)
	case *amqp.Released, *amqp.Modified:
		err = errReleased
	default:
		return
	}
	snd.session.core.progress = true
	snd.end(x, err)
}

// refusal is a broker's reason as an error that shares nothing with its frame.
func refusal(e *amqp.Error) error {
	if e == nil {
		return &amqp.Error{Condition: amqp.ErrCondInternalError, Description: "rejected without a reason"}
	}
	return &amqp.Error{Condition: e.Condition, Description: e.Description}
}

// Send queues a plain message. It is the core's until it is finished or withdrawn.
func (snd *Sender) Send(payload []byte) *Send {
	x := &Send{sender: snd}
	x.payload[0] = payload
	snd.put(x)
	return x
}

// put appends x and hands it over if that is possible now.
func (snd *Sender) put(x *Send) {
	if err := snd.refusing(); err != nil {
		x.sender = snd
		snd.session.core.finish(&x.Op, err)
		return
	}
	x.prev, x.listed = snd.last, true
	if snd.last == nil {
		snd.first = x
	} else {
		snd.last.succ = x
	}
	snd.last = x
	if snd.next == nil {
		snd.next = x
	}
	if snd.next == x {
		snd.session.pump()
	}
}

// hand gives x to the engine; false: not now.
func (snd *Sender) hand(x *Send) bool {
	fresh := x.number == 0
	if fresh {
		x.number = snd.number + 1
	}
	var tag [8]byte
	binary.BigEndian.PutUint64(tag[:], x.number)
	t := engine.Transfer{Tag: tag[:], Payload: x.payload[:]}
	if x.tx != nil {
		t.State = &x.tx.work
	}
	d, err := snd.link.Send(t)
	switch {
	case err == nil:
	case errors.Is(err, engine.ErrTooLarge):
		if fresh {
			x.number = 0
		}
		snd.tooLarge(x)
		return true
	default:
		if fresh {
			x.number = 0
		}
		return false
	}
	snd.number = max(snd.number, x.number)
	d.Data = x
	x.on = d
	snd.next = x.succ
	if x.tx == nil {
		snd.handed++
	} else {
		x.tx.unhanded--
	}
	if !x.queued {
		x.queued = true
		snd.session.core.queued(x)
	}
	return true
}

// tooLarge ends a send that exceeds the link's max-message-size. In a transaction it is no part of it, unless the caller was told that it is,
// which takes a node with a lower limit than the last one's.
func (snd *Sender) tooLarge(x *Send) {
	var err error = &amqp.Error{
		Condition:   amqp.ErrCondMessageSizeExceeded,
		Description: fmt.Sprintf("a message of %d bytes to %s: the node takes at most %d", len(x.payload[0]), snd.address, snd.link.Remote().MaxMessageSize),
	}
	tx := x.tx
	switch {
	case tx == nil && x.written:
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	case tx != nil && x.queued:
		snd.end(x, err)
		tx.spoil(err)
		return
	case tx != nil:
		tx.operations--
	}
	snd.end(x, err)
}

// end finishes a send and takes it off the list.
func (snd *Sender) end(x *Send, err error) {
	snd.unlist(x)
	snd.session.core.finish(&x.Op, err)
}

func (snd *Sender) unlist(x *Send) {
	if !x.listed {
		return
	}
	x.listed = false
	if x.on != nil && x.tx == nil {
		snd.handed--
	}
	if x.on == nil && x.tx != nil {
		x.tx.unhanded--
	}
	if snd.next == x {
		snd.next = x.succ
	}
	if x.prev == nil {
		snd.first = x.succ
	} else {
		x.prev.succ = x.succ
	}
	if x.succ == nil {
		snd.last = x.prev
	} else {
		x.succ.prev = x.prev
	}
	x.prev, x.succ, x.payload[0] = nil, nil, nil
}

// dropWaiting ends what was never handed over: known not to be sent.
func (snd *Sender) dropWaiting(err error) {
	for x := snd.first; x != nil; {
		succ := x.succ
		if x.on == nil && !x.written {
			snd.end(x, err)
		}
		x = succ
	}
}

// Withdraw takes back a send whose caller no longer waits, if nothing of it can have been stored: true. Then it has ended with cause. False: its
// outcome is open, or already there; the core goes on.
func (x *Send) Withdraw(cause error) bool {
	if x.done || x.written || !x.listed {
		return false
	}
	if x.on != nil {
		if x.on.Sent() {
			return false
		}
		x.on.Abort() // before its last frame is made it can't be stored
	}
	x.sender.end(x, cause)
	return true
}

// Unstored says that an ended plain send is known not to be stored and was never refused: Resend sends it anew.
func (x *Send) Unstored() bool {
	var no *amqp.Error
	return x.done && x.err != nil && !errors.Is(x.err, ErrUnknown) && !errors.As(x.err, &no)
}

// Queued says that it was handed over once, or has ended.
func (x *Send) Queued() bool { return x.queued || x.done }

// HandedOver says that it was handed to a connection once.
func (x *Send) HandedOver() bool { return x.queued }
