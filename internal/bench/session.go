package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncemq/oncemq"
)

// fillRate is for how many messages a second a queue is filled before a run that
// takes them out: more than this machine can take.
const fillRate = 12_000

func (c Config) fillCount() int { return int(fillRate * (c.Duration + warmUp).Seconds()) }

// Recv measures receive and accept, each waiting for its answer, on Sessions.
func Recv(ctx context.Context, c Config) (Result, error) {
	if err := fill(ctx, c, c.fillCount()); err != nil {
		return Result{}, err
	}
	return c.onSessions(ctx, fmt.Sprintf("recv %d", c.Sessions), func(ctx context.Context, s *oncemq.Session) (Op, error) {
		receiver, err := s.NewReceiver(ctx, c.Queue, nil)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			d, err := receiver.Receive(ctx)
			if err != nil {
				return err
			}
			return d.Accept(ctx)
		}, nil
	})
}

// Tx measures transactions of one send each, on Sessions.
func Tx(ctx context.Context, c Config) (Result, error) {
	body := make([]byte, c.Size)
	return c.onSessions(ctx, fmt.Sprintf("tx %d", c.Sessions), func(ctx context.Context, s *oncemq.Session) (Op, error) {
		sender, err := s.NewSender(ctx, c.Queue, nil)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			return s.InTx(ctx, func(tx *oncemq.Tx) error { return tx.Send(ctx, sender, oncemq.NewMessage(body)) })
		}, nil
	})
}

// Transfer measures transactions that receive one message and send one, on Sessions,
// from a queue that was filled before.
func Transfer(ctx context.Context, c Config) (Result, error) {
	if err := fill(ctx, c, c.fillCount()); err != nil {
		return Result{}, err
	}
	return c.onSessions(ctx, fmt.Sprintf("transfer %d", c.Sessions), func(ctx context.Context, s *oncemq.Session) (Op, error) {
		receiver, err := s.NewReceiver(ctx, c.Queue, nil)
		if err != nil {
			return nil, err
		}
		sender, err := s.NewSender(ctx, c.Queue+".to", nil)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			d, err := receiver.Receive(ctx)
			if err != nil {
				return err
			}
			return s.InTx(ctx, func(tx *oncemq.Tx) error {
				return errors.Join(tx.Accept(d), tx.Send(ctx, sender, &oncemq.Message{Data: d.Message.Data}))
			})
		}, nil
	})
}

// onSessions measures an operation on Sessions sessions over Connections connections.
func (c Config) onSessions(ctx context.Context, name string, open func(ctx context.Context, s *oncemq.Session) (Op, error)) (Result, error) {
	cs, err := dial(ctx, c.URLs, min(c.Connections, c.Sessions))
	if err != nil {
		return Result{}, err
	}
	defer cs.close()
	return Measure(ctx, name, c.Sessions, c.Duration, func(i int) (Op, error) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		s, err := cs[i%len(cs)].OpenSession(call, nil)
		if err != nil {
			return nil, fmt.Errorf("opening a session: %w", err)
		}
		op, err := open(call, s)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			call, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			return op(call)
		}, nil
	})
}

// Raw measures raw replication: it asks the leader's admin port to run it inside.
func Raw(ctx context.Context, c Config) (Result, error) {
	leader, err := findLeader(ctx, c.Admin)
	if err != nil {
		return Result{}, err
	}
	return postRaw(ctx, leader, c)
}

// settle is a moment in which a cluster ends what was done to it before: closed
// connections, a queue that was filled or deleted.
const settle = 500 * time.Millisecond
