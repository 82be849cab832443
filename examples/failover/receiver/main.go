// Command receiver is one half of the failover pair: it takes what sender sends, each
// message in a transaction of its own, and stops hard when a number is missing or
// comes twice.
//
//	go run ./examples/failover/receiver --urls amqp://127.0.0.1:5672,amqp://127.0.0.1:5682,amqp://127.0.0.1:5692
//
// The queue must be empty at the beginning, since numbers begin with 1. After
// --duration it goes on until nothing has come for three seconds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/oncemq/oncemq"
)

// quiet is how long nothing may have come for the queue to count as empty.
const quiet = 3 * time.Second

// errValidation: a message is missing, or came twice.
var errValidation = errors.New("VALIDATION FAILED")

// receiver is the application. Its data is one number.
type receiver struct {
	client  *oncemq.Client
	session *oncemq.Session
	orders  *oncemq.Receiver

	commitCounter int64 // of the last message whose consumption was committed

	report report
}

// report is what --json prints.
type report struct {
	Committed   int64 `json:"committed"`
	RolledBack  int64 `json:"rolled_back"`
	Resolved    int64 `json:"resolved"` // outcomes that Commit could not tell and Outcome did
	Redelivered int64 `json:"redelivered"`
	Counter     int64 `json:"counter"`
}

func main() {
	urls := flag.String("urls", "amqp://127.0.0.1:5672", "address list of the cluster")
	queue := flag.String("queue", "failover", "queue to receive from")
	duration := flag.Duration("duration", time.Minute, "how long to receive, at least")
	pause := flag.Duration("pause", 0, "time between two messages")
	asJSON := flag.Bool("json", false, "print the summary as one JSON object")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	r := &receiver{}
	err := r.run(ctx, *urls, *queue, *duration, *pause)
	r.report.Counter = r.commitCounter
	if *asJSON {
		json.NewEncoder(os.Stdout).Encode(r.report)
	} else {
		fmt.Printf("committed %d, rolled back %d, resolved %d, redelivered %d\n", r.report.Committed, r.report.RolledBack, r.report.Resolved, r.report.Redelivered)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (r *receiver) run(ctx context.Context, urls, queue string, duration, pause time.Duration) (err error) {
	if r.client, err = oncemq.Dial(ctx, urls, nil); err != nil {
		return err
	}
	defer r.close()
	if r.session, err = r.client.OpenSession(ctx, nil); err != nil {
		return err
	}
	// One at a time: a message that comes again then comes before all later ones.
	if r.orders, err = r.session.NewReceiver(ctx, queue, &oncemq.ReceiverOptions{Prefetch: 1}); err != nil {
		return err
	}
	for end := time.Now().Add(duration); ctx.Err() == nil; time.Sleep(pause) {
		wait, cancel := context.WithDeadline(ctx, later(end, time.Now().Add(quiet)))
		delivery, err := r.orders.Receive(wait)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		// A transaction that has begun is ended, whatever the signal says.
		if err := r.receive(context.WithoutCancel(ctx), delivery); err != nil {
			return err
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// receive validates one message and consumes it in a transaction of its own.
func (r *receiver) receive(ctx context.Context, delivery *oncemq.Delivery) error {
	if delivery.Redelivered() {
		r.report.Redelivered++
	}
	counter, ok := delivery.Message.Properties["counter"].(int64)
	if !ok {
		return fmt.Errorf("%w: a message without a number: %v", errValidation, delivery.Message.Properties)
	}
	if counter != r.commitCounter+1 {
		return fmt.Errorf("%w: received %d after %d (redelivered %v, attempt %d)", errValidation, counter, r.commitCounter, delivery.Redelivered(), delivery.Attempt())
	}
	tx, err := r.session.Begin(ctx)
	if err != nil {
		return err
	}
	if err := tx.Accept(delivery); err != nil {
		// Nothing was committed; end the transaction, so that the session is usable.
		if err := tx.Rollback(ctx); err != nil && !errors.Is(err, oncemq.ErrTxDone) {
			return err
		}
		r.report.RolledBack++
		return nil
	}
	err = tx.Commit(ctx)
	outcome := oncemq.OutcomeOf(err)
	if outcome == oncemq.Unknown {
		// No node with a majority was reachable in time. It will be: ask until it is.
		fmt.Fprintln(os.Stderr, err)
		if outcome, err = resolve(ctx, r.client, tx.ID()); err != nil {
			return err
		}
		r.report.Resolved++
	}
	if outcome == oncemq.RolledBack {
		// The message comes again: the application's data stays at the last commit.
		r.report.RolledBack++
		return nil
	}
	r.commitCounter = counter
	r.report.Committed++
	return nil
}

// resolve asks how a transaction ended until a node can tell. It ends as soon as a
// majority of the nodes is there.
func resolve(ctx context.Context, client *oncemq.Client, id oncemq.TxID) (oncemq.Outcome, error) {
	for {
		call, cancel := context.WithTimeout(ctx, 30*time.Second)
		outcome, err := client.Outcome(call, id)
		cancel()
		if err == nil || errors.Is(err, oncemq.ErrExpired) || errors.Is(err, oncemq.ErrClosed) {
			return outcome, err
		}
		fmt.Fprintln(os.Stderr, err)
		time.Sleep(time.Second)
	}
}

func (r *receiver) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.client.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "closing:", err)
	}
}
