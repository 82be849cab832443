package oncemq

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
)

// OnFailover says what becomes of a session's open transaction when its connection is lost.
type OnFailover uint8

// The ways.
const (
	// Resume replays the transaction on the next node under the same id; deliveries stay reserved (C6).
	Resume OnFailover = iota
	// Rollback rolls it back: its next use returns ErrRolledBack, and what was consumed comes again, redelivered (S1–S3).
	Rollback
)

// SessionOptions are a session's; nil or zero for the defaults.
type SessionOptions struct {
	// OnFailover is Resume or Rollback.
	OnFailover OnFailover
}

// Session is one ordered conversation with the broker, for one goroutine at a time. It survives the loss of its node.
type Session struct {
	d    *driver
	core *client.Session

	senders map[string]*Sender // of Session.Sender
}

// OpenSession opens a session. It waits until a node has it in its log.
func (c *Client) OpenSession(ctx context.Context, opts *SessionOptions) (*Session, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	d := c.d
	s := &Session{d: d}
	rollback := opts != nil && opts.OnFailover == Rollback
	err := d.begin(ctx, func() *client.Op {
		s.core = d.core.OpenSession(rollback)
		return &s.core.Opening
	})
	if err != nil {
		d.do(s.core.Close)
		return nil, err
	}
	return s, nil
}

// checkName refuses a name that the wire would alter, so that the broker's answer would be for another.
func checkName(what, s string) error {
	if !utf8.ValidString(s) {
		return &Error{Condition: string(amqp.ErrCondInvalidField), Description: fmt.Sprintf("%s %.80q is not UTF-8", what, s)}
	}
	return nil
}

// do calls f with the core.
func (d *driver) do(f func()) {
	d.mu.Lock()
	f()
	d.after()
	d.mu.Unlock()
}

// begin calls f with the core and waits for the operation that it gives.
func (d *driver) begin(ctx context.Context, f func() *client.Op) error {
	d.mu.Lock()
	op := f()
	w, ok := op.Data.(*waiter)
	if !ok {
		w = newWaiter()
		if op.Done() {
			w.finished()
		} else {
			op.Data = w
		}
	}
	d.after()
	d.mu.Unlock()
	if err := d.wait(ctx, w); err != nil {
		return err
	}
	return public(op.Err())
}

// Begin begins a transaction. It sends nothing by itself; while the session is between two lives, after its former one expired, it
// waits. Several may be open at once. ErrTooManyUnknown: see there.
func (s *Session) Begin(ctx context.Context) (*Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for {
		s.d.mu.Lock()
		tx, err := s.core.Begin()
		s.d.mu.Unlock()
		if err == nil {
			return &Tx{s: s, core: tx}, nil
		}
		if !errors.Is(err, client.ErrExpired) {
			return nil, public(err)
		}
		if err := s.d.begin(ctx, s.core.Reopened); err != nil {
			return nil, err
		}
	}
}

// InTx begins a transaction, calls fn, and commits on nil; on an error or panic it rolls back and returns or raises that. It never
// calls fn again.
func (s *Session) InTx(ctx context.Context, fn func(tx *Tx) error) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // a panic, which keeps its stack, or runtime.Goexit
			_ = tx.Rollback(ctx)
		}
	}()
	err = fn(tx)
	returned = true
	if err != nil {
		_ = tx.Rollback(ctx)
		return err
	}
	return tx.Commit(ctx)
}

// Resend repeats a send under its number and returns its first outcome (C9): nil, or the same refusal. A send that is known not to be
// stored, because it was never written, is sent under a new number. The receipt must be of this session.
func (s *Session) Resend(ctx context.Context, r *Receipt) error {
	if r.s.s != s {
		return ErrForeign
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	s.d.mu.Lock()
	if r.x.Unstored() {
		r.start()
	}
	s.d.after()
	s.d.mu.Unlock()
	return r.Wait(ctx)
}

// Close ends the session: open transactions are rolled back, links closed, what is unsettled returns to its queue. It waits for the
// answers to what was sent. When ctx ends first, the client goes on by itself.
func (s *Session) Close(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return s.d.begin(ctx, func() *client.Op {
		s.core.Close()
		return &s.core.Closing
	})
}
