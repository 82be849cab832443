// Command sender is one half of the failover pair: it numbers its messages and commits
// each one. Kill any node of the cluster at any moment: the other half, receiver, finds
// neither a gap nor a repeat.
//
//	go run ./examples/failover/sender --urls amqp://127.0.0.1:5672,amqp://127.0.0.1:5682,amqp://127.0.0.1:5692
//
// The address list is the only thing about failover that it sets.
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

// sender is the application. Its data are two numbers.
type sender struct {
	client  *oncemq.Client
	session *oncemq.Session
	orders  *oncemq.Sender

	counter       int64 // of the message being sent
	commitCounter int64 // of the last one that was committed

	report report
}

// report is what --json prints.
type report struct {
	Committed  int64 `json:"committed"`
	RolledBack int64 `json:"rolled_back"`
	Resolved   int64 `json:"resolved"` // outcomes that Commit could not tell and Outcome did
	Counter    int64 `json:"counter"`
}

func main() {
	urls := flag.String("urls", "amqp://127.0.0.1:5672", "address list of the cluster")
	queue := flag.String("queue", "failover", "queue to send to")
	duration := flag.Duration("duration", time.Minute, "how long to send")
	pause := flag.Duration("pause", 10*time.Millisecond, "time between two messages")
	asJSON := flag.Bool("json", false, "print the summary as one JSON object")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	s := &sender{}
	err := s.run(ctx, *urls, *queue, *duration, *pause)
	s.report.Counter = s.commitCounter
	if *asJSON {
		json.NewEncoder(os.Stdout).Encode(s.report)
	} else {
		fmt.Printf("committed %d, rolled back %d, resolved %d\n", s.report.Committed, s.report.RolledBack, s.report.Resolved)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (s *sender) run(ctx context.Context, urls, queue string, duration, pause time.Duration) (err error) {
	if s.client, err = oncemq.Dial(ctx, urls, nil); err != nil {
		return err
	}
	defer s.close()
	if s.session, err = s.client.OpenSession(ctx, nil); err != nil {
		return err
	}
	if s.orders, err = s.session.NewSender(ctx, queue, nil); err != nil {
		return err
	}
	for end := time.Now().Add(duration); time.Now().Before(end) && ctx.Err() == nil; {
		// A transaction that has begun is ended, whatever the signal says.
		if err := s.send(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		time.Sleep(pause)
	}
	return nil
}

// send sends the next number in a transaction of its own.
func (s *sender) send(ctx context.Context) error {
	tx, err := s.session.Begin(ctx)
	if err != nil {
		return err
	}
	s.counter++
	m := oncemq.NewText(fmt.Sprintf("message %d", s.counter))
	m.Properties = map[string]any{"counter": s.counter}
	if err := tx.Send(ctx, s.orders, m); err != nil {
		// Nothing was committed; end the transaction, so that the session is usable.
		if err := tx.Rollback(ctx); err != nil && !errors.Is(err, oncemq.ErrTxDone) {
			return err
		}
		s.rolledBack()
		return nil
	}
	err = tx.Commit(ctx)
	outcome := oncemq.OutcomeOf(err)
	if outcome == oncemq.Unknown {
		// No node with a majority was reachable in time. It will be: ask until it is.
		fmt.Fprintln(os.Stderr, err)
		if outcome, err = resolve(ctx, s.client, tx.ID()); err != nil {
			return err
		}
		s.report.Resolved++
	}
	if outcome == oncemq.RolledBack {
		s.rolledBack()
		return nil
	}
	s.commitCounter = s.counter
	s.report.Committed++
	return nil
}

// rolledBack takes the application's data back to the last commit.
func (s *sender) rolledBack() {
	s.counter = s.commitCounter
	s.report.RolledBack++
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

func (s *sender) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.client.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "closing:", err)
	}
}
