package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
)

// drainBound is how long a stage of the workload may take to empty its queues once
// nothing is put into them any more.
const drainBound = 90 * time.Second

// depth asks any node for a queue's depth.
func (d *Demo) depth(ctx context.Context, queue string) (q admin.Queue, exists bool, err error) {
	for _, n := range d.cluster.Nodes() {
		if q, exists, err = n.Queue(ctx, queue); err == nil {
			return q, exists, nil
		}
	}
	return q, exists, err
}

// drain waits until the queues are empty, which their consumers see to.
func (d *Demo) drain(ctx context.Context, queues ...string) error {
	bound, cancel := context.WithTimeout(ctx, drainBound)
	defer cancel()
	for _, queue := range queues {
		for {
			q, _, err := d.depth(bound, queue)
			if err == nil && q.Depth == 0 {
				break
			}
			if wait(bound, 50*time.Millisecond) != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				left := fmt.Errorf("queue %s was not emptied within %v: %d messages left, %d of them in flight", queue, drainBound, q.Depth, q.InFlight)
				return errors.Join(left, err)
			}
		}
	}
	return nil
}

// readDeadLetters reads what stands in the dead-letter queues; this workload gives no
// reason for any.
func (d *Demo) readDeadLetters(ctx context.Context) error {
	for _, queue := range allQueues {
		queue = "DLQ." + queue
		q, exists, err := d.depth(ctx, queue)
		if err != nil {
			return fmt.Errorf("looking for dead letters: %w", err)
		}
		if !exists || q.Depth == 0 {
			continue
		}
		if err := d.readDeadLetterQueue(ctx, queue, int(q.Depth)); err != nil {
			return fmt.Errorf("reading %s: %w", queue, err)
		}
	}
	return nil
}

func (d *Demo) readDeadLetterQueue(ctx context.Context, queue string, depth int) error {
	call, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	client, err := d.dial(call, 0, nil)
	if err != nil {
		return err
	}
	defer d.hangUp(client)
	session, err := client.OpenSession(call, nil)
	if err != nil {
		return err
	}
	receiver, err := session.NewReceiver(call, queue, nil)
	if err != nil {
		return err
	}
	for range depth {
		delivery, err := receiver.Receive(call)
		if err != nil {
			return err
		}
		r, bad := readRecord(delivery.Message)
		d.checker.DeadLetter(queue, r.id, bad == nil)
		if err := delivery.Accept(call); err != nil {
			return err
		}
	}
	return nil
}

// backlogBound is the depth of the orders queue at which producers hold back, so that
// a slow machine measures failovers and not the draining of a backlog.
const backlogBound = 2000

// observe prints a line a second, watches the backlog, and fails the run when a node
// ends by itself, until quiet is closed.
func (d *Demo) observe(ctx context.Context, quiet <-chan struct{}, fail context.CancelCauseFunc) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-quiet:
			return nil
		case <-ctx.Done():
			return nil
		case ended := <-d.cluster.Unexpected():
			fail(ended.Err)
			return nil
		case <-tick.C:
			d.progress()
		case <-look.C:
			call, cancel := context.WithTimeout(ctx, time.Second)
			q, _, err := d.depth(call, ordersQueue)
			cancel()
			if err == nil { // else no node answers now; the next look will tell
				d.backlogged.Store(q.Depth > backlogBound)
			}
		}
	}
}
