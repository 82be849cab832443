package oncemq

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// consumePrefetch is how many messages each worker of Consume may hold back.
const consumePrefetch = 16

// Consume runs n workers until ctx ends. Each has a session and a receiver of its own; per message it begins a transaction, accepts the
// message in it, calls fn, and commits on nil. Where fn returns an error the transaction is rolled back and the message comes again, at
// most up to the redelivery limit (C13). A transaction that was rolled back is only reported to the Logger, and one whose outcome is unknown is
// asked for first: the message comes again if it was not consumed. fn sends by tx.Session().Sender. Consume returns ctx's error, or the first error that no retry can heal, after all workers are gone.
func Consume(ctx context.Context, c *Client, address string, n int, fn func(ctx context.Context, tx *Tx, d *Delivery) error) error {
	if n < 1 {
		return fmt.Errorf("oncemq: Consume with %d workers: want at least 1", n)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := c.consume(ctx, address, fn); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// consume is one worker.
func (c *Client) consume(ctx context.Context, address string, fn func(ctx context.Context, tx *Tx, d *Delivery) error) error {
	s, err := patiently(ctx, func() (*Session, error) { return c.OpenSession(ctx, nil) })
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	r, err := patiently(ctx, func() (*Receiver, error) {
		return s.NewReceiver(ctx, address, &ReceiverOptions{Prefetch: consumePrefetch})
	})
	if err != nil {
		return err
	}
	for {
		d, err := r.Receive(ctx)
		if err != nil {
			return err
		}
		err = s.InTx(ctx, func(tx *Tx) error {
			if err := tx.Accept(d); err != nil {
				return err
			}
			return fn(ctx, tx, d)
		})
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrClosed), errors.Is(err, ErrTooManyUnknown):
			return err
		default:
			c.settle(ctx, address, err)
		}
	}
}

// settle reports a transaction that did not commit, and learns what became of an unknown one.
func (c *Client) settle(ctx context.Context, address string, err error) {
	var te *TxError
	if errors.As(err, &te) && te.Outcome == Unknown {
		outcome, why := c.Outcome(ctx, te.ID)
		err = errors.Join(fmt.Errorf("%w: later found %s", err, outcome), why)
	}
	if c.d.cfg.Logger != nil {
		c.d.cfg.Logger.Warn("transaction not committed", "queue", address, "err", err)
	}
}

// patiently calls f again where only the time-out of a call without a deadline has ended it.
func patiently[T any](ctx context.Context, f func() (T, error)) (T, error) {
	for {
		v, err := f()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return v, err
		}
	}
}
