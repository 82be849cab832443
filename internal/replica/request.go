package replica

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
)

// requests are the node's own commands that wait for their effect.
type requests struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]func(command.Effect, error) // guarded by mu
}

func (q *requests) begin(done func(command.Effect, error)) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	if q.waiting == nil {
		q.waiting = map[uint64]func(command.Effect, error){}
	}
	q.waiting[q.last] = done
	return q.last
}

// forget takes a request back; done is nil where it was answered.
func (q *requests) forget(id uint64) (done func(command.Effect, error)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	done = q.waiting[id]
	delete(q.waiting, id)
	return done
}

func (q *requests) answer(e command.Effect) {
	if done := q.forget(e.Request); done != nil {
		done(e, nil)
	}
}

// endAll answers all with ErrEpochEnded, in the order of their beginning.
func (q *requests) endAll() {
	q.mu.Lock()
	waiting := q.waiting
	q.waiting = nil
	q.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(waiting)) {
		waiting[id](command.Effect{}, ErrEpochEnded)
	}
}

// request proposes a queue, user or membership command of the node itself, whose Request is set here. done is
// called once, on the apply goroutine, with the effect or ErrEpochEnded, and must not block.
// Errors: ErrNoEpoch; done isn't called then.
func (s *steps) request(cmd command.Command, done func(command.Effect, error)) (id uint64, err error) {
	id = s.requests.begin(done)
	switch c := cmd.(type) {
	case *command.QueueCreate:
		c.Request = id
	case *command.QueueDelete:
		c.Request = id
	case *command.QueuePurge:
		c.Request = id
	case *command.UserPut:
		c.Request = id
	case *command.UserDelete:
		c.Request = id
	case *command.TokenPut:
		c.Request = id
	case *command.MemberAdd:
		c.Request = id
	case *command.MemberRemove:
		c.Request = id
	case *command.Finalize:
		c.Request = id
	case *command.SetTime:
		c.Request = id
	default:
		s.requests.forget(id)
		return 0, fmt.Errorf("oncemq: a node makes no requests of kind %d", cmd.Kind())
	}
	if !s.Propose(command.Append(nil, cmd)) {
		s.requests.forget(id)
		return 0, ErrNoEpoch
	}
	return id, nil
}

// Request proposes a queue, user or membership command of the node itself (zero Conn; its Request is set
// here) and waits for its effect. Errors: ErrNoEpoch, ErrEpochEnded, ErrClosed, ctx's:
// after all but the first the command may still be applied. A refusal is in the effect.
func (r *Replica) Request(ctx context.Context, cmd command.Command) (command.Effect, error) {
	type answer struct {
		effect command.Effect
		err    error
	}
	ch := make(chan answer, 1)
	id, err := r.request(cmd, func(e command.Effect, err error) { ch <- answer{e, err} })
	if err != nil {
		return command.Effect{}, err
	}
	select {
	case a := <-ch:
		return a.effect, a.err
	case <-ctx.Done():
		r.requests.forget(id)
		return command.Effect{}, ctx.Err()
	case <-r.done:
		return command.Effect{}, ErrClosed
	}
}

// Read runs fn on the apply goroutine behind a barrier. fn must be quick and only read;
// nothing of the machine may be kept. Errors: ErrNoQuorum, ErrNoEpoch of a node that recovers, ErrClosed, ctx's: fn may then
// still run.
func (r *Replica) Read(ctx context.Context, fn func(*state.Machine)) error {
	if r.damage != nil {
		return ErrNoEpoch
	}
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
