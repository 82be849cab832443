package replica

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/store"
)

func unsafe(o *Options) { o.SafetyOff = true }

// With safety off a killed leader takes with it what it answered last, and comes back.
func TestSafetyOffLoses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, unsafe)
	answered := uint64(0)
	// Now and then a round of replication comes just before the kill.
	for range 5 {
		l := c.leader()
		begin := answered
		for at := time.Now(); time.Since(at) < lazyEvery/2 || answered < begin+10; answered++ {
			c.write(l, fmt.Sprint(answered))
		}
		c.kill(l.id)
		c.start(l.id)
		c.ready()
		if got := c.follower(); got.Propose(body("x")) {
			t.Error("a follower has clients")
		}
		c.write(c.leader(), "next")
		answered++
		if n := c.same(); n < answered {
			return
		}
	}
	t.Errorf("%d bodies answered and applied: nothing was lost", answered)
}

// A leader that was cut off and had answered what the others never got ends itself, and
// comes back with their state.
func TestSafetyOffDiverges(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, unsafe)
	old := c.leader()
	c.isolate(old.id, true)
	c.write(old, "answered by the old leader alone")
	l := c.leader2(old.id)
	c.wait("an epoch", func() bool { return l.Ready() == nil })
	c.write(l, "the others go on")
	c.isolate(old.id, false)
	if err := <-old.ran; !errors.Is(err, ErrDiverged) {
		t.Fatalf("Run: %v, want ErrDiverged", err)
	}
	c.start(old.id)
	c.ready()
	if n := c.same(); n != 1 {
		t.Errorf("%d bodies, want 1", n)
	}
	c.kill(old.id)
	opts := c.options(old.id, &box{})
	opts.SafetyOff = false
	if _, err := Open(opts); !errors.Is(err, store.ErrSafety) {
		t.Errorf("opened with safety on: %v, want ErrSafety", err)
	}
}
