package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncemq/oncemq"
)

// callTimeout bounds one call of a program, but in a Workload that says otherwise; resolveTimeout bounds how long it then
// tries to learn what became of it.
const (
	callTimeout    = 30 * time.Second
	resolveTimeout = 60 * time.Second
)

// sendWindow is how many sends of a producer may be under way.
const sendWindow = 64

// pending is one send under way.
type pending struct {
	id      OrderID
	receipt *oncemq.Receipt
}

// produce sends numbered orders, rate of them a second, until produceUntil ends, and
// returns when the outcome of each is known or can't be learned.
func (d *Demo) produce(ctx context.Context, produceUntil <-chan struct{}, producer int) error {
	client, err := d.dial(ctx, producer, nil)
	if err != nil {
		return err
	}
	defer d.hangUp(client)
	session, err := client.OpenSession(ctx, nil)
	if err != nil {
		return fmt.Errorf("opening a session: %w", err)
	}
	sender, err := session.NewSender(ctx, ordersQueue, nil)
	if err != nil {
		return fmt.Errorf("attaching to %s: %w", ordersQueue, err)
	}
	window := make(chan pending, sendWindow)
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		for p := range window {
			d.checker.Sent(p.id, d.sendOutcome(ctx, p.receipt))
		}
	}()
	err = d.sendOrders(ctx, produceUntil, producer, sender, window)
	close(window)
	<-waited
	return err
}

// sendOrders is produce's loop. What it puts into window is waited for in order.
func (d *Demo) sendOrders(ctx context.Context, produceUntil <-chan struct{}, producer int, sender *oncemq.Sender, window chan<- pending) error {
	gap := time.Duration(float64(time.Second) * producers / float64(d.cfg.Rate))
	due := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// Producers that were held up don't make up for more than a second.
		due = due.Add(gap)
		if late := time.Now().Add(-time.Second); due.Before(late) {
			due = late
		}
		for first := true; first || d.backlogged.Load(); first = false {
			wait := time.Until(due)
			if !first {
				wait = 10 * time.Millisecond
			}
			timer.Reset(max(0, wait))
			select {
			case <-produceUntil:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-timer.C:
			}
		}
		d.numbers[producer]++
		number := d.numbers[producer]
		r := record{id: OrderID{Producer: producer, Number: number}, amount: int64(1 + (number*31+producer*17)%1000)}
		d.checker.Sending(r.id)
		receipt, err := d.sendAsync(ctx, sender, r)
		if err != nil {
			return err
		}
		if receipt == nil {
			d.checker.Sent(r.id, NotDone)
			continue
		}
		window <- pending{r.id, receipt}
	}
}

// sendAsync hands one order to the client. A nil receipt means that it was never sent.
func (d *Demo) sendAsync(ctx context.Context, sender *oncemq.Sender, r record) (*oncemq.Receipt, error) {
	call, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	receipt, err := sender.SendAsync(call, r.message())
	switch {
	case err == nil:
		return receipt, nil
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		d.note("%v was never sent: no credit within %v", r.id, d.patience)
		return nil, nil
	}
	return nil, fmt.Errorf("sending %v: %w", r.id, err)
}

// sendOutcome waits for the answer to one send, and after an unknown one further, as
// long as an application would ask.
func (d *Demo) sendOutcome(ctx context.Context, receipt *oncemq.Receipt) Outcome {
	for i, bound := range [...]time.Duration{d.patience, resolveTimeout} {
		call, cancel := context.WithTimeout(ctx, bound)
		err := receipt.Wait(call)
		cancel()
		refused := (*oncemq.Error)(nil)
		switch {
		case err == nil:
			return Done
		case errors.As(err, &refused) && !errors.Is(err, oncemq.ErrOutcomeUnknown):
			d.note("a send was refused: %v", err)
			return NotDone
		case i == 0:
			d.checker.SawUnknown()
			d.note("a send has an unknown outcome: %v", err)
		}
	}
	return Unknown
}
