package replica

import "sync"

// inboxBytes is how much from peers may wait for raft's goroutine before their streams are
// held back. What comes from the storage goroutines is never held back: raft may be waiting
// for them.
const inboxBytes = 16 << 20

// inbox is a queue whose consumer takes all of it at once.
type inbox[T any] struct {
	wake chan struct{} // capacity 1

	mu     sync.Mutex
	room   sync.Cond // waited on while bytes is above the bound
	items  []T       // guarded by mu
	bytes  int       // of what came by putBounded; guarded by mu
	closed bool      // guarded by mu: nothing is taken any more
}

func newInbox[T any]() *inbox[T] {
	q := &inbox[T]{wake: make(chan struct{}, 1)}
	q.room.L = &q.mu
	return q
}

// put never blocks.
func (q *inbox[T]) put(items ...T) {
	q.mu.Lock()
	if !q.closed {
		q.items = append(q.items, items...)
	}
	q.mu.Unlock()
	q.kick()
}

// putBounded blocks while more than inboxBytes wait.
func (q *inbox[T]) putBounded(item T, bytes int) {
	q.mu.Lock()
	for q.bytes > inboxBytes && !q.closed {
		q.room.Wait()
	}
	if !q.closed {
		q.items = append(q.items, item)
		q.bytes += bytes
	}
	q.mu.Unlock()
	q.kick()
}

// kick wakes the consumer.
func (q *inbox[T]) kick() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// awake reports that the consumer is to be woken; calm takes the wake for done. For a
// consumer that does not wait.
func (q *inbox[T]) awake() bool { return len(q.wake) > 0 }

func (q *inbox[T]) calm() {
	select {
	case <-q.wake:
	default:
	}
}

// take returns everything and leaves into, emptied, in its place.
func (q *inbox[T]) take(into []T) []T {
	clear(into)
	q.mu.Lock()
	items := q.items
	q.items, q.bytes = into[:0], 0
	q.room.Broadcast()
	q.mu.Unlock()
	return items
}

// close lets blocked producers go; what is put from now on is dropped.
func (q *inbox[T]) close() {
	q.mu.Lock()
	q.closed = true
	q.room.Broadcast()
	q.mu.Unlock()
}

func (q *inbox[T]) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) == 0
}
