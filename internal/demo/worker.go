package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncemq/oncemq"
)

// worker is one transactional worker: it turns orders into ledger entries and receipts.
type worker struct {
	demo    *Demo
	index   int
	client  *oncemq.Client
	session *oncemq.Session
	orders  *oncemq.Receiver
	// Where a transaction's three messages go.
	debit, credit, receipts *oncemq.Sender
}

// work runs worker number index until workUntil ends.
func (d *Demo) work(ctx context.Context, workUntil context.Context, index int) error {
	client, err := d.dial(ctx, index, func(e oncemq.Event) {
		if c, ok := e.(oncemq.Connected); ok {
			d.homes[index].Store(&c.Addr)
		}
	})
	if err != nil {
		return err
	}
	defer d.hangUp(client)
	w := &worker{demo: d, index: index, client: client}
	if err := w.open(ctx); err != nil {
		return err
	}
	for {
		delivery, err := w.orders.Receive(workUntil)
		if workUntil.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receiving from %s: %w", ordersQueue, err)
		}
		if err := w.handle(ctx, delivery); err != nil {
			return err
		}
	}
}

func (w *worker) open(ctx context.Context) (err error) {
	if w.session, err = w.client.OpenSession(ctx, nil); err != nil {
		return fmt.Errorf("opening a session: %w", err)
	}
	for _, s := range []struct {
		queue  string
		sender **oncemq.Sender
	}{{debitQueue, &w.debit}, {creditQueue, &w.credit}, {receiptsQueue, &w.receipts}} {
		if *s.sender, err = w.session.NewSender(ctx, s.queue, nil); err != nil {
			return fmt.Errorf("attaching to %s: %w", s.queue, err)
		}
	}
	if w.orders, err = w.session.NewReceiver(ctx, ordersQueue, &oncemq.ReceiverOptions{Prefetch: 32}); err != nil {
		return fmt.Errorf("attaching to %s: %w", ordersQueue, err)
	}
	return nil
}

// handle does one order in one transaction. A transaction that was rolled back is no
// error: its order comes again, to this worker or another.
func (w *worker) handle(ctx context.Context, delivery *oncemq.Delivery) error {
	order, err := readRecord(delivery.Message)
	if err != nil {
		return err
	}
	w.demo.checker.Received(w.index, order.id, delivery.Attempt())
	call, cancel := context.WithTimeout(ctx, w.demo.patience)
	defer cancel()
	tx, err := w.session.Begin(call)
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	if err := w.fill(call, tx, delivery, order); err != nil {
		w.demo.note("worker %d gives up its transaction over %v: %v", w.index+1, order.id, err)
		if err := tx.Rollback(call); err != nil && !errors.Is(err, oncemq.ErrTxDone) {
			w.demo.note("worker %d: rolling back: %v", w.index+1, err)
		}
		w.demo.checker.Decided(order.id, NotDone)
		return ctx.Err()
	}
	sent := time.Now()
	err = tx.Commit(call)
	outcome := w.demo.txOutcome(ctx, w.client, tx.ID(), err)
	w.demo.checker.Decided(order.id, outcome)
	if err == nil {
		acked := time.Now()
		w.demo.watch.committed(w.index, sent, acked)
		w.demo.latency.add(acked.Sub(sent))
	}
	if outcome == Done {
		w.demo.receipts[w.index]++
	}
	return ctx.Err()
}

// fill puts the four operations into the transaction.
func (w *worker) fill(ctx context.Context, tx *oncemq.Tx, delivery *oncemq.Delivery, order record) error {
	if err := tx.Accept(delivery); err != nil {
		return err
	}
	credit := record{id: order.id, amount: -order.amount}
	receipt := record{id: order.id, worker: w.index, receipt: w.demo.receipts[w.index] + 1}
	return errors.Join(
		tx.Send(ctx, w.debit, order.message()),
		tx.Send(ctx, w.credit, credit.message()),
		tx.Send(ctx, w.receipts, receipt.message()),
	)
}

// txOutcome turns what Commit returned into what is true: an unknown outcome is
// counted, then asked for, as an application would.
func (d *Demo) txOutcome(ctx context.Context, client *oncemq.Client, id oncemq.TxID, err error) Outcome {
	switch oncemq.OutcomeOf(err) {
	case oncemq.Committed:
		return Done
	case oncemq.RolledBack:
		d.note("rolled back: %v", err)
		return NotDone
	case oncemq.Unknown:
	}
	d.checker.SawUnknown()
	d.note("commit with an unknown outcome: %v", err)
	call, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	outcome, err := client.Outcome(call, id)
	switch {
	case err != nil:
		d.note("asking for the outcome of %v: %v", id, err)
	case outcome == oncemq.Committed:
		return Done
	case outcome == oncemq.RolledBack:
		return NotDone
	}
	return Unknown
}
