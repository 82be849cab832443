package replica

import (
	"errors"
	"fmt"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/store"
)

// rotten is a log in which nothing can be read any more.
type rotten struct{ Log }

// Entries implements Log.
func (r rotten) Entries([]store.Entry, uint64, uint64, uint64) ([]store.Entry, error) {
	return nil, fmt.Errorf("%w: a bit has flipped", store.ErrCorrupt)
}

// A log that turns out damaged while raft reads it ends the node with an error that says so, not with a panic of raft's.
func TestDamageWhileRaftReads(t *testing.T) {
	w := newStepped(t, 1)
	w.ready()
	leader := w.leader()
	leader.disk.log = rotten{leader.disk.log}
	if err := leader.Request(&command.QueueCreate{Name: "q"}, func(command.Effect, error) {}); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		leader.Raft(w.now-leader.born, w.now.Milliseconds())
		if err := leader.Append(); err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("the node ends with %v", err)
			}
			return
		}
		for _, n := range w.nodes {
			if n != leader {
				n.steps()
			}
		}
		wire := w.wire
		w.wire = nil
		for _, f := range wire {
			if err := w.nodes[f.to-1].Receive(f.from, f.frame); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Error("the node goes on")
}
