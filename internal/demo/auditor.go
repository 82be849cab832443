package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncemq/oncemq"
)

// auditBatch is how many messages an auditor takes in one transaction, at most.
const auditBatch = 64

// audit empties one queue until auditUntil ends, in transactions, and tells the
// checker what was consumed for certain, in the order received.
func (d *Demo) audit(ctx context.Context, auditUntil context.Context, index int, queue string, tell func(record)) error {
	client, err := d.dial(ctx, index, nil)
	if err != nil {
		return err
	}
	defer d.hangUp(client)
	for {
		again, err := d.auditSession(ctx, auditUntil, client, queue, tell)
		if err != nil || !again {
			return err
		}
	}
}

// auditSession audits on one session until auditUntil ends, or until a transaction
// did not commit: its messages return to their places in the queue, before those that
// wait in this client, so order is kept only by giving those back too (again is true).
func (d *Demo) auditSession(ctx, auditUntil context.Context, client *oncemq.Client, queue string, tell func(record)) (again bool, err error) {
	session, err := client.OpenSession(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("opening a session: %w", err)
	}
	receiver, err := session.NewReceiver(ctx, queue, &oncemq.ReceiverOptions{Prefetch: 4 * auditBatch})
	if err != nil {
		return false, fmt.Errorf("attaching to %s: %w", queue, err)
	}
	for {
		batch, err := d.collect(ctx, auditUntil, receiver)
		if err != nil {
			return false, err
		}
		if len(batch) == 0 {
			return false, d.closeSession(ctx, session)
		}
		outcome, err := d.consume(ctx, client, session, batch)
		if err != nil {
			return false, err
		}
		if outcome != Done {
			return true, d.closeSession(ctx, session)
		}
		for _, delivery := range batch {
			r, err := readRecord(delivery.Message)
			if err != nil {
				return false, err
			}
			tell(r)
		}
	}
}

// collect waits for a message and takes what comes within a moment of it. An empty
// batch means that auditUntil has ended.
func (d *Demo) collect(ctx, auditUntil context.Context, receiver *oncemq.Receiver) (batch []*oncemq.Delivery, err error) {
	delivery, err := receiver.Receive(auditUntil)
	for err == nil {
		if batch = append(batch, delivery); len(batch) == auditBatch {
			return batch, nil
		}
		moment, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		delivery, err = receiver.Receive(moment)
		cancel()
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return batch, ctx.Err()
	}
	return nil, fmt.Errorf("receiving from %s: %w", receiver.Address(), err)
}

// consume accepts a batch in one transaction.
func (d *Demo) consume(ctx context.Context, client *oncemq.Client, session *oncemq.Session, batch []*oncemq.Delivery) (Outcome, error) {
	call, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	tx, err := session.Begin(call)
	if err != nil {
		return Unknown, fmt.Errorf("beginning a transaction: %w", err)
	}
	for _, delivery := range batch {
		if err := tx.Accept(delivery); err != nil {
			d.note("an auditor gives up its transaction: %v", err)
			if err := tx.Rollback(call); err != nil && !errors.Is(err, oncemq.ErrTxDone) {
				d.note("an auditor: rolling back: %v", err)
			}
			return NotDone, ctx.Err()
		}
	}
	return d.txOutcome(ctx, client, tx.ID(), tx.Commit(call)), ctx.Err()
}

// closeSession closes a session, so that what its links hold goes back at once.
func (d *Demo) closeSession(ctx context.Context, session *oncemq.Session) error {
	call, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	if err := session.Close(call); err != nil {
		return fmt.Errorf("closing a session: %w", err)
	}
	return nil
}
