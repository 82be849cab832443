package oncemq

import (
	"context"
	"errors"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/client"
)

// Tx is a transaction: its sends and settlements take effect wholly or not at all (C1). For one goroutine at a time.
type Tx struct {
	s     *Session
	core  *client.Tx
	ended bool // Commit or Rollback gave a definite result
}

// ID is the transaction's identity for ever. It may be stored before Commit, to ask for the outcome after a crash.
func (tx *Tx) ID() TxID { return TxID(tx.core.ID()) }

// Session is the transaction's session.
func (tx *Tx) Session() *Session { return tx.s }

// Send sends m in the transaction. It is pipelined and waits only for credit; a refusal shows at Commit. m is free again when it
// returns. With an error m is not part of the transaction. ErrTxDone after the end, ErrRolledBack where the transaction was rolled back meanwhile.
func (tx *Tx) Send(ctx context.Context, to *Sender, m *Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	payload, err := m.encode()
	if err != nil {
		return err
	}
	d := tx.s.d
	r := &Receipt{s: to}
	d.mu.Lock()
	x, err := tx.core.Send(to.core, payload)
	if err != nil {
		err = tx.why(err)
		d.mu.Unlock()
		return err
	}
	r.x = x
	if x.Queued() {
		if x.Done() {
			err = public(x.Err())
		}
		d.after()
		d.mu.Unlock()
		return err
	}
	queued := make(chan struct{})
	r.queued, r.done = queued, make(chan struct{})
	x.Data = r
	d.after()
	d.mu.Unlock()
	return tx.waitQueued(ctx, x, queued)
}

// waitQueued waits for credit; when ctx ends first the send is taken back.
func (tx *Tx) waitQueued(ctx context.Context, x *client.Send, queued chan struct{}) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	d := tx.s.d
	select {
	case <-queued:
		d.mu.Lock()
		defer d.mu.Unlock()
		if x.Done() {
			return tx.why(x.Err())
		}
		return nil
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if tx.core.WithdrawSend(x, ctx.Err()) {
		d.after()
		return ctx.Err()
	}
	if x.Done() {
		return tx.why(x.Err())
	}
	return nil
}

// why makes ErrTxDone of the core a *TxError where the application hasn't ended the transaction itself. Called with mu held.
func (tx *Tx) why(err error) error {
	if !errors.Is(err, client.ErrTxDone) || tx.ended {
		return public(err)
	}
	reason, ok := tx.core.RolledBack()
	if !ok { // committing, or committed: Commit says which
		return err
	}
	return &TxError{ID: tx.ID(), Outcome: RolledBack, Err: public(reason)}
}

// Accept consumes d when the transaction commits. It never waits. Errors are ErrTxDone or ErrRolledBack as at Send, ErrDeliveryLost, ErrSettled,
// ErrForeign.
func (tx *Tx) Accept(d *Delivery) error { return tx.settle(d, &amqp.Accepted{}) }

// Reject gives d to the dead letters when the transaction commits. Errors as Accept's.
func (tx *Tx) Reject(d *Delivery, reason string) error { return tx.settle(d, rejected(reason)) }

func (tx *Tx) settle(d *Delivery, state amqp.DeliveryState) error {
	dr := tx.s.d
	dr.mu.Lock()
	defer dr.mu.Unlock()
	err := tx.core.Settle(d.core, state)
	if err != nil {
		return tx.why(err)
	}
	dr.after()
	return nil
}

// Commit ends the transaction. nil: committed. Else a *TxError: RolledBack, where ctx was done already, or anything failed before the
// commit was handed to a socket, or the broker said so; Unknown, where ctx (30 s without a deadline) ended afterwards before any node gave the answer. After
// Unknown, Commit may be called again and then asks for the outcome; so does Rollback. After any other end it returns ErrTxDone.
func (tx *Tx) Commit(ctx context.Context) error {
	outcome, reason, err := tx.end(ctx, func() {
		if ctx.Err() != nil {
			tx.core.Rollback() // takes back what was on no wire
			return
		}
		tx.core.Commit()
	})
	switch {
	case err != nil:
		return err
	case outcome == Committed:
		return nil
	}
	return &TxError{ID: tx.ID(), Outcome: outcome, Err: reason}
}

// Rollback ends the transaction without effect; deliveries settled in it come again. ErrTxDone after the end: safe to defer. After a
// Commit that ended Unknown it asks for the outcome first: nil only if it is rolled back, else a *TxError with Outcome Committed or Unknown (C10).
func (tx *Tx) Rollback(ctx context.Context) error {
	outcome, reason, err := tx.end(ctx, tx.core.Rollback)
	switch {
	case err != nil:
		return err
	case outcome == RolledBack:
		return nil
	}
	return &TxError{ID: tx.ID(), Outcome: outcome, Err: reason}
}

// end begins an end and waits for the outcome; when ctx ends first it gives what is known.
func (tx *Tx) end(ctx context.Context, begin func()) (Outcome, error, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	d := tx.s.d
	d.mu.Lock()
	if tx.ended {
		d.mu.Unlock()
		return Unknown, nil, ErrTxDone
	}
	begin()
	w, ok := tx.core.Data.(*waiter)
	if !ok {
		w = newWaiter()
		if tx.core.Done() {
			w.finished()
		} else {
			tx.core.Data = w
		}
	}
	d.after()
	d.mu.Unlock()
	late := d.wait(ctx, w)
	d.mu.Lock()
	defer d.mu.Unlock()
	var outcome client.TxOutcome
	var reason error
	if late == nil {
		outcome, reason = tx.core.Result()
	} else {
		outcome, reason = tx.core.Abandon()
		if reason == nil {
			reason = late
		}
		d.after()
	}
	tx.ended = outcome != client.TxUnknown
	return outcomeOf[outcome], public(reason), nil
}

// outcomeOf translates the core's outcomes.
var outcomeOf = [...]Outcome{client.TxUnknown: Unknown, client.TxCommitted: Committed, client.TxRolledBack: RolledBack}
