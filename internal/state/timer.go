package state

import "bytes"

// timers is a heap of sessions by the moment that one of their two times names; ties
// go by identity, so the order is total. Each session knows its place in it.
type timers struct {
	which int // 0: graceUntil (running time), 1: retainUntil (civil time)
	heap  []*session
}

func (t *timers) moment(s *session) int64 {
	if t.which == 0 {
		return s.graceUntil
	}
	return s.retainUntil
}

func (t *timers) less(a, b *session) bool {
	x, y := t.moment(a), t.moment(b)
	if x != y {
		return x < y
	}
	return bytes.Compare(a.id[:], b.id[:]) < 0
}

// next is the earliest moment, or Never.
func (t *timers) next() int64 {
	if len(t.heap) == 0 {
		return Never
	}
	return t.moment(t.heap[0])
}

// update puts s where its moment belongs; a moment of 0 takes it out.
func (t *timers) update(s *session) {
	i := s.timer[t.which] - 1
	if t.moment(s) == 0 || s.gone {
		if i < 0 {
			return
		}
		last := len(t.heap) - 1
		t.swap(i, last)
		t.heap[last] = nil
		t.heap = t.heap[:last]
		s.timer[t.which] = 0
		if i < last {
			t.fix(i)
		}
		return
	}
	if i < 0 {
		t.heap = append(t.heap, s)
		i = len(t.heap) - 1
		s.timer[t.which] = i + 1
	}
	t.fix(i)
}

func (t *timers) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].timer[t.which], t.heap[j].timer[t.which] = i+1, j+1
}

func (t *timers) fix(i int) {
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
