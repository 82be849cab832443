package oncemq

import "context"

// ReceiverOptions are a receiver's; nil or zero for the defaults.
type ReceiverOptions struct {
	// Name of the link, unique in the client; empty: a made one.
	Name string
	// Prefetch is how many deliveries may wait in the client (default 100, at most 10,000). 1: none is held back while another is worked on.
	Prefetch int
}

// Receiver receives from one address.
type Receiver struct{}

// NewReceiver attaches a receiver to address; a queue is created where there is none. *Error where the broker refuses.
func (s *Session) NewReceiver(ctx context.Context, address string, opts *ReceiverOptions) (*Receiver, error) {
	panic("skeleton")
}

// Address is the queue's name.
func (r *Receiver) Address() string { panic("skeleton") }

// Receive waits for the next delivery until ctx ends. It goes on over failovers.
func (r *Receiver) Receive(ctx context.Context) (*Delivery, error) { panic("skeleton") }

// AcceptThrough accepts d and all deliveries that Receive returned before it and that are not settled (JMS CLIENT_ACKNOWLEDGE); as
// Delivery.Accept for each, and the first error of any.
func (r *Receiver) AcceptThrough(ctx context.Context, d *Delivery) error { panic("skeleton") }

// Close detaches the receiver; what it holds unsettled goes back to its place in the queue.
func (r *Receiver) Close(ctx context.Context) error { panic("skeleton") }
