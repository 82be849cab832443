package oncemq

import (
	"context"
	"fmt"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
)

// Delivery is one message handed to this receiver, to be settled once: by one of its methods or within a transaction.
type Delivery struct {
	// Message is what was sent. It is the caller's.
	Message *Message

	r             *Receiver
	core          *client.Delivery
	count         uint32
	firstAcquirer bool
}

// Modification is how Modify gives a message back.
type Modification struct {
	// Failed counts this attempt as a failure (C13); UndeliverableHere keeps the message from this receiver.
	Failed, UndeliverableHere bool
	// Annotations are merged into the message's, at most 4 KiB.
	Annotations map[string]any
}

func newDelivery(r *Receiver, x *client.Delivery) (*Delivery, error) {
	d := &Delivery{r: r, core: x, Message: new(Message)}
	h, err := d.Message.decode(x.Payload)
	d.count, d.firstAcquirer = h.DeliveryCount, h.FirstAcquirer
	return d, err
}

// settle tells an outcome and waits until it is applied.
func settle(ctx context.Context, d *driver, x *client.Delivery, state amqp.DeliveryState) error {
	return d.begin(ctx, func() *client.Op { return &x.Settle(state).Op })
}

func (d *Delivery) settle(ctx context.Context, state amqp.DeliveryState) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	return settle(ctx, d.r.s.d, d.core, state)
}

// Accept consumes the message. It returns nil once that is durable on a quorum, ErrDeliveryLost where the message went elsewhere before,
// ErrSettled where it was settled in another way or within a transaction. With ctx's error the client goes on trying, and a further Accept waits
// again. ErrOutcomeUnknown: receiver, session or client ended before the answer, or under OnFailover Rollback the connection; the message comes
// again if it was not applied.
func (d *Delivery) Accept(ctx context.Context) error { return d.settle(ctx, &amqp.Accepted{}) }

// Release gives the message back to its place, untouched. Errors as Accept's.
func (d *Delivery) Release(ctx context.Context) error { return d.settle(ctx, &amqp.Released{}) }

// Reject gives the message to the dead letters, saying why. Errors as Accept's.
func (d *Delivery) Reject(ctx context.Context, reason string) error {
	return d.settle(ctx, rejected(reason))
}

// condRejected is the condition of an application's rejection.
const condRejected amqp.Symbol = "oncemq:rejected"

func rejected(reason string) *amqp.Rejected {
	return &amqp.Rejected{Error: &amqp.Error{Condition: condRejected, Description: reason}}
}

// maxModification bounds what Modify may add to a message.
const maxModification = 4 << 10

// Modify gives the message back changed. Errors as Accept's.
func (d *Delivery) Modify(ctx context.Context, m Modification) error {
	annotations, err := toMap(m.Annotations, true)
	if err != nil {
		return fmt.Errorf("modification annotations: %w", err)
	}
	if n := len(amqp.AppendMessageAnnotations(nil, annotations)); n > maxModification {
		return fmt.Errorf("oncemq: Modification.Annotations takes %d bytes: at most %d are kept", n, maxModification)
	}
	return d.settle(ctx, &amqp.Modified{DeliveryFailed: m.Failed, UndeliverableHere: m.UndeliverableHere, MessageAnnotations: annotations})
}

// Redelivered says that the message may have been seen before: it is not FirstAcquirer, or its DeliveryCount is above 0 (C8).
func (d *Delivery) Redelivered() bool { return !d.firstAcquirer || d.count > 0 }

// DeliveryCount is how many attempts failed before this one (C8).
func (d *Delivery) DeliveryCount() uint32 { return d.count }

// FirstAcquirer says that the message was on no wire before.
func (d *Delivery) FirstAcquirer() bool { return d.firstAcquirer }

// Attempt is the number of this hand-out of the message, 1 and up: a fencing number for the outside, which rejects what comes with a
// lower one (C12).
func (d *Delivery) Attempt() uint32 { return d.core.Attempt() }
