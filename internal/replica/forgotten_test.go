package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/store"
)

// C14: a node that has forgotten what it had acknowledged finds out from a leader as well that has heard nothing of it since its
// election, and has cut what the node lacks: from what it was told by the leader before.
func TestForgottenUnderANewLeader(t *testing.T) {
	w := newStepped(t, 1)
	w.ready()
	leader := w.leader()
	f, third := w.nodes[leader.id%3], w.nodes[(leader.id+1)%3]
	old := store.CrashFS(f.files, 0, 100)
	for i := range 20 {
		w.create(leader, fmt.Sprint("queue ", i))
	}
	lacks := leader.Status().Commit
	w.until("everybody knows that everybody has it", func() bool {
		return !slices.ContainsFunc(w.nodes, func(n *steppedNode) bool { return n.core.cutIndex < lacks })
	})
	f.crash()
	f.files, f.ends = old, true
	leader.Transfer(0)
	w.until("another leads", func() bool { return third.Status().Role == roleLeader })
	f.start()
	w.until("it finds out", func() bool { return f.ended != nil })
	if !errors.Is(f.ended, store.ErrCorrupt) || !strings.Contains(f.ended.Error(), "has acknowledged entry") {
		t.Errorf("it ends with %v", f.ended)
	}
}
