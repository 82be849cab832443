package state

import "bytes"

// timed is what timers order: each has two moments, and knows its places in the heaps of both.
type timed[T any] interface {
	// moment is 0 where it waits for nothing.
	moment(which int) int64
	// before orders what has the same moment: a total order, made of identities.
	before(other T) bool
	// place is its place in the heap, from 1; 0: it isn't there.
	place(which int) *int
}

// timers is a heap by the moment that one of the two times names; ties go by identity, so the order is total.
type timers[T timed[T]] struct {
	which int
	heap  []T
}

func (s *session) moment(which int) int64 {
	if which == 0 {
		return s.graceUntil // running time
	}
	return s.retainUntil // civil time
}

func (s *session) before(other *session) bool { return bytes.Compare(s.id[:], other.id[:]) < 0 }
func (s *session) place(which int) *int       { return &s.timer[which] }

func (t *timers[T]) less(a, b T) bool {
	if x, y := a.moment(t.which), b.moment(t.which); x != y {
		return x < y
	}
	return a.before(b)
}

// next is the earliest moment, or Never.
func (t *timers[T]) next() int64 {
	if len(t.heap) == 0 {
		return Never
	}
	return t.heap[0].moment(t.which)
}

// update puts x where its moment belongs; one that is gone, or has no moment, is taken out.
func (t *timers[T]) update(x T, gone bool) {
	at := x.place(t.which)
	i := *at - 1
	if gone || x.moment(t.which) == 0 {
		if i < 0 {
			return
		}
		last := len(t.heap) - 1
		t.swap(i, last)
		var none T
		t.heap[last] = none
		t.heap = t.heap[:last]
		*at = 0
		if i < last {
			t.fix(i)
		}
		return
	}
	if i < 0 {
		t.heap = append(t.heap, x)
		i = len(t.heap) - 1
		*at = i + 1
	}
	t.fix(i)
}

func (t *timers[T]) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	*t.heap[i].place(t.which), *t.heap[j].place(t.which) = i+1, j+1
}

func (t *timers[T]) fix(i int) {
	for i > 0 && t.less(t.heap[i], t.heap[(i-1)/2]) {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		down := 2*i + 1
		if down >= len(t.heap) {
			return
		}
		if down+1 < len(t.heap) && t.less(t.heap[down+1], t.heap[down]) {
			down++
		}
		if !t.less(t.heap[down], t.heap[i]) {
			return
		}
		t.swap(i, down)
		i = down
	}
}
