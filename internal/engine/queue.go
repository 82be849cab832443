package engine

// queue holds a session's deliveries that are to be sent, in order. Dropped ones stay until they come to the front, or
// are half of it.
type queue struct {
	items   []*Delivery
	head    int
	dropped int
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) push(d *Delivery) {
	if q.head > 64 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, d)
}

// front is the first that isn't dropped, nil if there is none.
func (q *queue) front() *Delivery {
	for q.head < len(q.items) {
		if d := q.items[q.head]; d.stage != stageDropped {
			return d
		}
		q.pop()
	}
	return nil
}

// pop removes the first.
func (q *queue) pop() {
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
}

// sweep removes the dropped ones, once there were many.
func (q *queue) sweep() {
	q.dropped++
	if q.dropped < 64 || q.dropped < q.len()/2 {
		return
	}
	q.dropped = 0
	kept := q.items[:0]
	for _, d := range q.items[q.head:] {
		if d.stage != stageDropped {
			kept = append(kept, d)
		}
	}
	clear(q.items[len(kept):])
	q.items, q.head = kept, 0
}
