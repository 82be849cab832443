package engine

import "testing"

// The queue keeps order over pushes, pops, drops and sweeps, and doesn't grow with what has gone through it.
func TestQueue(t *testing.T) {
	var q queue
	var want []*Delivery
	next := uint32(0)
	for round := range 5000 {
		for range round%3 + 1 {
			d := &Delivery{ID: next, stage: stageWaiting}
			next++
			q.push(d)
			want = append(want, d)
		}
		if round%7 == 0 {
			at := round % len(want)
			want[at].stage = stageDropped
			q.sweep()
			want = append(want[:at:at], want[at+1:]...)
		}
		for range round % 4 {
			d := q.front()
			if len(want) == 0 {
				if d != nil {
					t.Fatalf("%d is left", d.ID)
				}
				break
			}
			if d != want[0] {
				t.Fatalf("round %d: front %v, want %d", round, d, want[0].ID)
			}
			q.pop()
			want = want[1:]
		}
	}
	if q.len() > 2*len(want)+200 || len(q.items) > 4*len(want)+400 {
		t.Fatalf("%d items, %d in the slice, %d live", q.len(), len(q.items), len(want))
	}
}
