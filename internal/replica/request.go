package replica

import (
	"context"
	"fmt"
	"sync"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
)

// requests are the node's own commands that wait for their effect.
type requests struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan command.Effect // capacity 1; closed when the epoch ends; guarded by mu
}

func (q *requests) begin() (uint64, chan command.Effect) {
	ch := make(chan command.Effect, 1)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	if q.waiting == nil {
		q.waiting = map[uint64]chan command.Effect{}
	}
	q.waiting[q.last] = ch
	return q.last, ch
}

func (q *requests) forget(id uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.waiting, id)
}

func (q *requests) answer(e command.Effect) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ch, ok := q.waiting[e.Request]; ok {
		delete(q.waiting, e.Request)
		ch <- e
	}
}

func (q *requests) endAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, ch := range q.waiting {
		close(ch)
		delete(q.waiting, id)
	}
}

// Request proposes a queue command of the node itself (zero Conn; its Request is set
// here) and waits for its effect. Errors: ErrNoEpoch, ErrEpochEnded, ErrClosed, ctx's:
// after all but the first the command may still be applied. A refusal is in the effect.
func (r *Replica) Request(ctx context.Context, cmd command.Command) (command.Effect, error) {
	id, ch := r.requests.begin()
	switch c := cmd.(type) {
	case *command.QueueCreate:
		c.Request = id
	case *command.QueueDelete:
		c.Request = id
	case *command.QueuePurge:
		c.Request = id
	default:
		r.requests.forget(id)
		return command.Effect{}, fmt.Errorf("oncemq: a node makes no requests of kind %d", cmd.Kind())
	}
	if !r.Propose(command.Append(nil, cmd)) {
		r.requests.forget(id)
		return command.Effect{}, ErrNoEpoch
	}
	select {
	case e, ok := <-ch:
		if !ok {
			return command.Effect{}, ErrEpochEnded
		}
		return e, nil
	case <-ctx.Done():
		r.requests.forget(id)
		return command.Effect{}, ctx.Err()
	case <-r.done:
		return command.Effect{}, ErrClosed
	}
}

// Read runs fn on the apply goroutine behind a barrier. fn must be quick and only read;
// nothing of the machine may be kept. Errors: ErrNoQuorum, ErrClosed, ctx's: fn may then
// still run.
func (r *Replica) Read(ctx context.Context, fn func(*state.Machine)) error {
	answer := make(chan bool, 1)
	r.Barrier(func(ok bool) {
		if ok {
			fn(r.machine)
		}
		answer <- ok
	})
	select {
	case ok := <-answer:
		if !ok {
			return ErrNoQuorum
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.done:
		return ErrClosed
	}
}

// RawWriter is a path without frontend for `oncemq bench raw`: bodies go the way of
// production's.
type RawWriter struct{ replica *Replica }

// RawWriter returns a writer; any number may be used at once.
func (r *Replica) RawWriter() *RawWriter { return &RawWriter{r} }

// Write proposes body, which it owns from then on, and waits until it is applied here.
// Errors as Request's.
func (w *RawWriter) Write(ctx context.Context, body []byte) error {
	done := make(chan error, 1)
	if !w.replica.propose(body, func(err error) { done <- err }) {
		return ErrNoEpoch
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-w.replica.done:
		return ErrClosed
	}
}
