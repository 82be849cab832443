package oncemq

import "context"

// Delivery is one message handed to this receiver, to be settled once: by one of its methods or within a transaction.
type Delivery struct {
	// Message is what was sent. It is the caller's.
	Message *Message
}

// Modification is how Modify gives a message back.
type Modification struct {
	// Failed counts this attempt as a failure (C13); UndeliverableHere keeps the message from this receiver.
	Failed, UndeliverableHere bool
	// Annotations are merged into the message's, at most 4 KiB.
	Annotations map[string]any
}

// Accept consumes the message. It returns nil once that is durable on a quorum, ErrDeliveryLost where the message went elsewhere before; with
// ctx's error the client goes on trying, and a further Accept waits again.
func (d *Delivery) Accept(ctx context.Context) error { panic("skeleton") }

// Release gives the message back to its place, untouched. Errors as Accept's.
func (d *Delivery) Release(ctx context.Context) error { panic("skeleton") }

// Reject gives the message to the dead letters, saying why. Errors as Accept's.
func (d *Delivery) Reject(ctx context.Context, reason string) error { panic("skeleton") }

// Modify gives the message back changed. Errors as Accept's.
func (d *Delivery) Modify(ctx context.Context, m Modification) error { panic("skeleton") }

// Redelivered says that the message may have been seen before: it is not FirstAcquirer, or its DeliveryCount is above 0 (C8).
func (d *Delivery) Redelivered() bool { panic("skeleton") }

// DeliveryCount is how many attempts failed before this one (C8).
func (d *Delivery) DeliveryCount() uint32 { panic("skeleton") }

// FirstAcquirer says that the message was on no wire before.
func (d *Delivery) FirstAcquirer() bool { panic("skeleton") }

// Attempt is the number of this hand-out of the message, 1 and up: a fencing number for the outside, which rejects what comes with a lower one (C12).
func (d *Delivery) Attempt() uint32 { panic("skeleton") }
