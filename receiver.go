package oncemq

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
)

// ReceiverOptions are a receiver's; nil or zero for the defaults.
type ReceiverOptions struct {
	// Name of the link, unique in the client; empty: a made one.
	Name string
	// Selector says which messages to receive, in the language of JMS: price > 10 AND region = 'EU'. Empty: all. What it doesn't fit stays
	// in the queue for others. *Error where it isn't valid.
	Selector string
	// Prefetch is how many deliveries may wait in the client (default 100, at most 10,000). With 1 a message is asked for only when Receive is called,
	// which costs a round trip; none waits here but one that comes after a Receive whose context has ended.
	Prefetch int
	// Subscription is which one to read, where the address is a topic; nil: what is published while the receiver is there.
	Subscription *Subscription
}

// Subscription is a subscription of a topic that has a name. The first receiver makes it, with its selector; another selector, topic or option makes it
// anew, unless somebody reads it: then the receiver is refused with amqp:resource-locked.
type Subscription struct {
	// Name is at most 4,096 bytes of UTF-8, without a bar (|). The subscriptions of a user are told apart by the client's Config.ClientID, which a durable one needs
	// the same in every life of the program, and its name.
	Name string
	// Durable: it keeps what is published while no receiver is there, until Receiver.Unsubscribe. Otherwise it ends with its last receiver.
	Durable bool
	// Shared: any number of receivers get each message together once. Otherwise a new receiver takes the place of the one before it.
	Shared bool
	// Global: it is for clients of all ClientIDs. Only with Shared.
	Global bool
	// NoLocal: what clients of the same ClientID send isn't for it.
	NoLocal bool
}

// check finds what can't be meant.
func (x *Subscription) check() error {
	switch {
	case x == nil:
		return nil
	case x.Name == "" && (x.Durable || x.Shared):
		return errors.New("oncemq: Subscription.Name is empty: a durable or shared subscription needs one")
	case strings.Contains(x.Name, "|") || len(x.Name) > 4096:
		return fmt.Errorf("oncemq: Subscription.Name is %.80q: want at most 4,096 bytes without a bar", x.Name)
	case x.Global && !x.Shared:
		return errors.New("oncemq: Subscription.Global is set and Shared isn't: only a shared subscription is for all containers")
	}
	return checkName("subscription name", x.Name)
}

// Receiver receives from one address.
type Receiver struct {
	s      *Session
	core   *client.Receiver
	notify chan struct{} // capacity 1
}

// NewReceiver attaches a receiver to address; a queue is created where there is none, or a topic, where the address begins with topic://
// or there is a Subscription. *Error where the broker refuses.
func (s *Session) NewReceiver(ctx context.Context, address string, opts *ReceiverOptions) (*Receiver, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var o ReceiverOptions
	if opts != nil {
		o = *opts
	}
	if o.Prefetch < 0 || o.Prefetch > 10_000 {
		return nil, fmt.Errorf("oncemq: ReceiverOptions.Prefetch is %d: want 1 to 10,000 (0 is the default)", o.Prefetch)
	}
	if err := errors.Join(checkName("address", address), checkName("link name", o.Name), o.Subscription.check()); err != nil {
		return nil, err
	}
	r := &Receiver{s: s, notify: make(chan struct{}, 1)}
	from := client.Source{Address: address, Selector: o.Selector, Name: o.Name, Prefetch: o.Prefetch}
	if x := o.Subscription; x != nil {
		from.Subscription = &client.Subscription{Name: x.Name, Durable: x.Durable, Shared: x.Shared, Global: x.Global, NoLocal: x.NoLocal}
	}
	err := s.d.begin(ctx, func() *client.Op {
		r.core = s.core.Receive(from)
		r.core.Data = r
		return &r.core.Attaching
	})
	if err != nil {
		s.d.do(r.core.Close)
		return nil, err
	}
	return r, nil
}

// Address is the queue's name.
func (r *Receiver) Address() string { return r.core.Address() }

func (r *Receiver) available() { poke(r.notify) }

// Receive waits for the next delivery until ctx ends. It goes on over failovers. A message that can't be decoded is rejected, which brings
// it to the dead letters, and not returned.
func (r *Receiver) Receive(ctx context.Context) (*Delivery, error) {
	d := r.s.d
	for {
		d.mu.Lock()
		x := r.core.Take()
		err := r.core.Err()
		d.after()
		d.mu.Unlock()
		if x != nil {
			del, err := newDelivery(r, x)
			if err == nil {
				return del, nil
			}
			d.do(func() {
				x.Settle(&amqp.Rejected{Error: &amqp.Error{Condition: amqp.ErrCondDecodeError, Description: err.Error()}})
			})
			continue
		}
		if err != nil {
			return nil, public(err)
		}
		select {
		case <-r.notify:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// AcceptThrough accepts d and all deliveries that Receive returned before it and that are not settled (JMS CLIENT_ACKNOWLEDGE); as
// Delivery.Accept for each, and the first error of any.
func (r *Receiver) AcceptThrough(ctx context.Context, d *Delivery) error {
	if d.r != r {
		return ErrForeign
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	var list []*client.Delivery
	r.s.d.do(func() {
		list = d.core.Through()
		for _, x := range list {
			x.Settle(&amqp.Accepted{})
		}
	})
	var first error
	for _, x := range list {
		if err := settle(ctx, r.s.d, x, &amqp.Accepted{}); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Unsubscribe closes the receiver as Close does, and ends the durable subscription that it reads, with all that waits there, if no other receiver reads it.
func (r *Receiver) Unsubscribe(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return r.s.d.begin(ctx, func() *client.Op {
		r.core.End()
		return &r.core.Closing
	})
}

// Close detaches the receiver; what it holds unsettled goes back to its place in the queue. Deliveries that open transactions have taken
// stay theirs. A durable subscription stays.
func (r *Receiver) Close(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return r.s.d.begin(ctx, func() *client.Op {
		r.core.Close()
		return &r.core.Closing
	})
}
