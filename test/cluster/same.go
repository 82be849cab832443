package cluster

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// Same kills all nodes, which have nothing to do any more, and compares their states at the same index, as their disks have them (K8). It fails the
// test where they differ, or where one doesn't apply what the others have within a minute.
func (c *Cluster) Same() {
	c.tb.Helper()
	at := c.settle()
	for _, n := range c.Nodes {
		n.Kill()
	}
	disks := make([]*offline, len(c.Nodes))
	for i, n := range c.Nodes {
		disks[i] = openOffline(c.tb, n)
		at = max(at, disks[i].state.AppliedIndex())
	}
	var sums []uint64
	for _, d := range disks {
		sums = append(sums, d.digest(at))
	}
	for i, sum := range sums {
		if sum != sums[0] {
			c.tb.Errorf("at entry %d node %d has digest %016x, node 1 has %016x", at, i+1, sum, sums[0])
		}
	}
}

// settle waits until all nodes have applied the same, and says up to where.
func (c *Cluster) settle() (at uint64) {
	c.tb.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		if at = c.Nodes[0].applied(); at > 0 && !slices.ContainsFunc(c.Nodes, func(n *Node) bool { return n.applied() != at }) {
			return at
		}
	}
	c.tb.Fatal("the nodes don't apply the same within a minute")
	return 0
}

// applied is a node's applied index, 0 where it doesn't answer.
func (n *Node) applied() uint64 {
	st, err := n.Status(context.Background())
	if err != nil {
		return 0
	}
	return st.AppliedIndex
}

// offline is the directory of a node that is killed.
type offline struct {
	tb    testing.TB
	dir   *store.Dir
	log   *store.Log
	state *store.State
}

func openOffline(tb testing.TB, n *Node) *offline {
	tb.Helper()
	d := &offline{tb: tb}
	var err error
	if d.dir, err = store.Open(store.Options{Dir: n.Dir, Node: uint64(n.ID)}); err != nil {
		tb.Fatal(err)
	}
	if _, err = d.dir.Install(store.LogOptions{}); err != nil {
		tb.Fatal(err)
	}
	if d.log, err = d.dir.OpenLog(store.LogOptions{}); err != nil {
		tb.Fatal(err)
	}
	if d.state, err = d.dir.OpenState(store.StateOptions{}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _, _ = d.state.Close(), d.log.Close(), d.dir.Close() })
	return d
}

// digest is that of the state after an entry: what the disk has, and the log from there on.
func (d *offline) digest(at uint64) uint64 {
	d.tb.Helper()
	var keys, values [][]byte
	bodies, behind := state.BodyRange(0)
	for _, r := range [][2][]byte{{{0, 0}, bodies}, {behind, {0, 1}}} {
		err := d.state.IterateRange(r[0], r[1], func(k, v []byte) bool {
			keys, values = append(keys, append([]byte(nil), k...)), append(values, append([]byte(nil), v...))
			return true
		})
		if err != nil {
			d.tb.Fatal(err)
		}
	}
	next := 0
	m, err := state.Load(0, func() ([]byte, []byte, bool) {
		if next == len(keys) {
			return nil, nil, false
		}
		next++
		return keys[next-1], values[next-1], true
	})
	if err != nil {
		d.tb.Fatal(err)
	}
	batch := d.state.NewBatch()
	for i := d.state.AppliedIndex() + 1; i <= at; i++ {
		entries, err := d.log.Entries(nil, i, i+1, 0)
		if err != nil {
			d.tb.Fatal(err)
		}
		if len(entries[0].Data) > 0 && entries[0].Type == 0 {
			if _, err := m.Apply(i, entries[0].Data, batch, nil); err != nil {
				d.tb.Fatal(err)
			}
		}
		if batch.Reset(); i > d.log.LastIndex() {
			d.tb.Fatalf("entry %d isn't there", i)
		}
	}
	return m.Digest()
}
