package oncemq

import (
	"context"
	"errors"

	"github.com/oncemq/oncemq/internal/client"
)

// SenderOptions are a sender's; nil or zero for the defaults.
type SenderOptions struct {
	// Name of the link, unique in the client; empty: a made one.
	Name string
}

// Sender sends to one address, in order (C11).
type Sender struct {
	s    *Session
	core *client.Sender
}

// NewSender attaches a sender to address; a queue is created where there is none. *Error where the broker refuses. An empty address is the anonymous
// relay: each message goes to the address in its To.
func (s *Session) NewSender(ctx context.Context, address string, opts *SenderOptions) (*Sender, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var name string
	if opts != nil {
		name = opts.Name
	}
	if err := errors.Join(checkName("address", address), checkName("link name", name)); err != nil {
		return nil, err
	}
	snd := &Sender{s: s}
	err := s.d.begin(ctx, func() *client.Op {
		snd.core = s.core.NewSender(address, name)
		return &snd.core.Attaching
	})
	if err != nil {
		s.d.do(snd.core.Close)
		return nil, err
	}
	return snd, nil
}

// Sender is the session's own sender to address: attached by the first call, and kept. Its Close detaches it for all.
func (s *Session) Sender(ctx context.Context, address string) (*Sender, error) {
	if snd := s.senders[address]; snd != nil {
		s.d.mu.Lock()
		err := snd.core.Err()
		s.d.mu.Unlock()
		if err == nil {
			return snd, nil
		}
	}
	snd, err := s.NewSender(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	if s.senders == nil {
		s.senders = make(map[string]*Sender)
	}
	s.senders[address] = snd
	return snd, nil
}

// Address is the queue's name.
func (s *Sender) Address() string { return s.core.Address() }

// Send sends m outside any transaction and returns when it is durable on a quorum. When ctx ends before the first byte was handed to the
// socket the message was not sent, and the error is ctx's; afterwards it is a *SendError, and the client goes on trying: see Session.Resend. *Error where the
// broker refuses the message. m must not be changed meanwhile.
func (s *Sender) Send(ctx context.Context, m *Message) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	r, err := s.SendAsync(ctx, m)
	if err != nil {
		return err
	}
	return r.wait(ctx, true)
}

// SendAsync is Send without the wait for the outcome: it waits only for credit, and a later send may follow at once. m is free again
// when it returns.
func (s *Sender) SendAsync(ctx context.Context, m *Message) (*Receipt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	payload, err := m.encode()
	if err != nil {
		return nil, err
	}
	r := &Receipt{s: s, payload: payload}
	d := s.s.d
	d.mu.Lock()
	r.start()
	var queued chan struct{}
	if !r.x.Queued() {
		queued = make(chan struct{})
		r.queued = queued
	}
	refused := r.x.Done() && r.x.Err() != nil
	d.after()
	d.mu.Unlock()
	if queued != nil {
		if err := r.waitQueued(ctx, queued); err != nil {
			return nil, err
		}
		d.mu.Lock()
		refused = !r.x.HandedOver() && r.x.Err() != nil
		d.mu.Unlock()
	}
	if refused {
		return nil, r.outcome()
	}
	return r, nil
}

// waitQueued waits until the send is handed over; when ctx ends first it is taken back.
func (r *Receipt) waitQueued(ctx context.Context, queued chan struct{}) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	select {
	case <-queued:
		return nil
	case <-ctx.Done():
	}
	d := r.s.s.d
	d.mu.Lock()
	withdrawn := r.x.Withdraw(ctx.Err())
	d.after()
	d.mu.Unlock()
	if withdrawn {
		return ctx.Err()
	}
	return nil
}

// Close detaches the sender after the sends under way were answered or ctx ended.
func (s *Sender) Close(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return s.s.d.begin(ctx, func() *client.Op {
		s.core.Close()
		return &s.core.Closing
	})
}

// Receipt stands for one send under way.
type Receipt struct {
	s       *Sender
	payload []byte // kept for Resend

	// Guarded by the driver's mu; done and queued are closed with it held.
	x      *client.Send
	done   chan struct{}
	queued chan struct{} // nil unless SendAsync waits
}

// start hands the message to the core. Called with mu held.
func (r *Receipt) start() {
	r.done = make(chan struct{})
	r.x = r.s.core.Send(r.payload)
	if r.x.Done() {
		close(r.done)
		return
	}
	r.x.Data = r
}

func (r *Receipt) handed() {
	if r.queued != nil {
		close(r.queued)
		r.queued = nil
	}
}

func (r *Receipt) finished() {
	r.handed()
	close(r.done)
}

// Wait waits for the outcome: nil when durable on a quorum, *Error where refused, a *SendError when ctx ends or the session expired
// first. It may be called again, from any goroutine.
func (r *Receipt) Wait(ctx context.Context) error {
	select {
	case <-r.Done(): // no timer where none is needed
		return r.outcome()
	default:
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	return r.wait(ctx, false)
}

// wait is Wait; withdraw takes the send back when ctx ends and nothing of it was written.
func (r *Receipt) wait(ctx context.Context, withdraw bool) error {
	select {
	case <-r.Done():
		return r.outcome()
	case <-ctx.Done():
	}
	d := r.s.s.d
	d.mu.Lock()
	if withdraw && r.x.Withdraw(ctx.Err()) {
		d.after()
		d.mu.Unlock()
		return ctx.Err()
	}
	done := r.x.Done()
	d.mu.Unlock()
	if done {
		return r.outcome()
	}
	return &SendError{Receipt: r, Err: ctx.Err()}
}

// outcome is how the send ended.
func (r *Receipt) outcome() error {
	d := r.s.s.d
	d.mu.Lock()
	err := r.x.Err()
	d.mu.Unlock()
	if errors.Is(err, ErrOutcomeUnknown) {
		return &SendError{Receipt: r, Err: public(err)}
	}
	return public(err)
}

// Done is closed when the outcome is there: Wait returns at once then. After a Resend it is another channel.
func (r *Receipt) Done() <-chan struct{} {
	d := r.s.s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	return r.done
}
