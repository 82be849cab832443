package replica

import (
	"testing"
	"time"
)

// [3.8] A node whose end has been proposed gets no lease any more, though it is heard again before that is committed: others get
// what it would go on to write.
func TestNoLeaseBehindANodeDown(t *testing.T) {
	w := newStepped(t, 1)
	w.ready()
	leader := w.leader()
	f, third := w.nodes[leader.id%3], w.nodes[(leader.id+1)%3]
	f.WantLease(true)
	w.until("a lease", func() bool { return f.lease.Load() > 0 })
	f.held = true
	w.until("its end is proposed", func() bool {
		return leader.core.epochs.dooms(f.id, leader.core.progress.epochs)
	})
	third.held, f.held, f.hangs = true, false, true // it isn't committed without f's disk
	had, until := f.lease.Load(), w.now+300*time.Millisecond
	w.until("f knows", func() bool {
		f.hangs = w.now < until
		if now := int64(w.now - f.born); f.epoch != 0 && f.lease.Load() > max(had, now) {
			t.Fatalf("f has a lease until %v at %v", time.Duration(f.lease.Load()), w.now-f.born)
		}
		return f.epoch == 0
	})
}
