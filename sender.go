package oncemq

import "context"

// SenderOptions are a sender's; nil or zero for the defaults.
type SenderOptions struct {
	// Name of the link, unique in the client; empty: a made one.
	Name string
}

// Sender sends to one address, in order (C11).
type Sender struct{}

// NewSender attaches a sender to address; a queue is created where there is none. *Error where the broker refuses.
func (s *Session) NewSender(ctx context.Context, address string, opts *SenderOptions) (*Sender, error) {
	panic("skeleton")
}

// Address is the queue's name.
func (s *Sender) Address() string { panic("skeleton") }

// Send sends m outside any transaction and returns when it is durable on a quorum. When ctx ends before the first byte was handed to the
// socket the message was not sent, and the error is ctx's; afterwards it is a *SendError, and the
// client goes on trying: see Session.Resend. *Error where the broker refuses the message. m must not be changed meanwhile.
func (s *Sender) Send(ctx context.Context, m *Message) error { panic("skeleton") }

// SendAsync is Send without the wait for the outcome: it waits only for credit, and a later send may follow at once. m is free again when it returns.
func (s *Sender) SendAsync(ctx context.Context, m *Message) (*Receipt, error) { panic("skeleton") }

// Close detaches the sender after the sends under way were answered or ctx ended.
func (s *Sender) Close(ctx context.Context) error { panic("skeleton") }

// Receipt stands for one send under way.
type Receipt struct{}

// Wait waits for the outcome: nil when durable on a quorum, *Error where refused, a *SendError when ctx ends or
// the session expired first. It may be called again, from any goroutine.
func (r *Receipt) Wait(ctx context.Context) error { panic("skeleton") }

// Done is closed when the outcome is there: Wait returns at once then.
func (r *Receipt) Done() <-chan struct{} { panic("skeleton") }
