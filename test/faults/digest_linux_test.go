package faults

import (
	"bytes"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2" //nolint:depguard // the state is changed behind the store's back

	"github.com/oncemq/oncemq/test/cluster"
)

// Row 66: the state of one node isn't that of the others, as after a flipped bit in its
// memory: the nodes' comparison finds it, that node says so and takes the state of another, and the others go
// on. The bit is a counter's, in the state on disk while the node is down (docs/format,
// state and pebble): nothing but the comparison can tell.
func TestRow66StateDiffers(t *testing.T) {
	Long(t)
	w := New(t, Options{Rate: 1000})
	w.Run(func() {
		n := w.Follower(0)
		n.Signal(syscall.SIGTERM) // which writes the state out
		w.EndsWith(n, 0, failover)
		changeCounter(t, n)
		w.Note("a counter in the state of node %d is another", n.ID)
		n.Start()
		w.differs[n.ID] = true
		w.Recovered(n) // they compare every 4,096 entries
		w.Commits(100, failover)
	})
	for _, n := range w.Nodes {
		if w.differs[n.ID] && w.says(n, differs) == 0 {
			t.Errorf("node %d didn't say what is wrong", n.ID)
		}
	}
}

// changeCounter makes the last counter of the clock's value another: the byte before the
// digest, which is the last eight.
func changeCounter(t *testing.T, n *cluster.Node) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := pebble.Open(filepath.Join(n.Dir, "state"), &pebble.Options{FormatMajorVersion: pebble.FormatTableFormatV6, Logger: quiet{}})
	must(err)
	clock := []byte{0, 0, 1} // group 0, kind 1
	value, closer, err := db.Get(clock)
	must(err)
	changed := bytes.Clone(value)
	must(closer.Close())
	changed[len(changed)-9] ^= 1
	must(db.Set(clock, changed, pebble.NoSync))
	must(db.Flush())
	must(db.Close())
}

// quiet is a pebble.Logger that says nothing.
type quiet struct{}

func (quiet) Infof(string, ...any)      {}
func (quiet) Errorf(string, ...any)     {}
func (quiet) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
