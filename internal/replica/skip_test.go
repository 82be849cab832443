package replica

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// deadly is the real machine with a fault: an entry that has the word death in it makes it panic in the middle of its change.
type deadly struct {
	*state.Machine
	compared sync.Map // indexes whose digests were proposed
}

func newDeadly(s State) (machine, error) {
	m, err := loadMachine(s)
	return &deadly{Machine: m}, err
}

func (m *deadly) Apply(index uint64, entry []byte, out state.Changes, effects []command.Effect) ([]command.Effect, error) {
	_, records, _ := command.DecodeEntry(entry)
	for len(records) > 0 {
		var r command.Record
		r, records, _ = command.DecodeRecord(records)
		var d command.Decoder
		d.Reset(r.Body)
		if c, ok := d.Next().(*command.Digest); ok {
			m.compared.Store([2]uint64{c.Index, uint64(c.Node)}, true)
		}
	}
	effects, err := m.Machine.Apply(index, entry, out, effects)
	if bytes.Contains(entry, []byte("death")) {
		panic("the query of death")
	}
	return effects, err
}

// 4.4: an entry that makes every node panic is skipped on all of them; they come up with the same state, remember it, and have
// compared their digests.
func TestSkipEntry(t *testing.T) {
	var failed []error
	failures := make(chan error, 3)
	c := newCluster(t, 3, func(o *Options) { o.testMachine, o.Fatal = newDeadly, func(err error) { failures <- err } })
	request := func(name string) error {
		_, err := c.nodes[1].Request(c.soon(), &command.QueueCreate{Name: name})
		return err
	}
	if err := request("before"); err != nil {
		t.Fatal(err)
	}
	if err := request("death"); err == nil {
		t.Fatal("it was answered")
	}
	// The third may not have heard that the entry is committed before nobody was left to tell it.
	c.wait("a majority fails", func() bool { return len(failures) >= 2 })
	for _, m := range c.nodes {
		m.Close()
	}
	for len(failures) > 0 {
		failed = append(failed, <-failures)
	}
	for _, err := range failed {
		if !errors.Is(err, ErrApplyPanicked) || !strings.Contains(err.Error(), "recover skip") {
			t.Fatal(err)
		}
	}
	all := deadlyEntries(t, c, 1, 2, 3)
	index := all[0].Index
	// Without the skip it is the same again.
	lone, err := Open(c.options(1, &box{}))
	if err != nil {
		t.Fatal(err)
	}
	lone.Close()

	for _, e := range all {
		has := 0
		for id := range c.peers {
			r, err := SkipEntry(SkipOptions{Dir: c.dirs[id], Index: e.Index})
			if err == nil && r.InLog && r.Term == e.Term && r.Commands["QueueCreate"] == 1 {
				has++
			} else {
				r, err = SkipEntry(SkipOptions{Dir: c.dirs[id], Index: e.Index, Term: e.Term})
			}
			if err != nil || r.Node != id {
				t.Fatalf("%+v %v", r, err)
			}
		}
		if has < 2 && e == all[0] {
			t.Errorf("%d nodes have the entry in their logs", has)
		}
	}
	if _, err := SkipEntry(SkipOptions{Dir: c.dirs[1], Index: index + 1000}); err == nil || !strings.Contains(err.Error(), "give its term") {
		t.Errorf("an entry that isn't there: %v", err)
	}
	for id := range c.peers {
		c.start(id)
	}
	c.ready()
	if err := request("after"); err != nil {
		t.Fatal(err)
	}
	c.wait("the digests behind the skipped entry were proposed", func() bool {
		for id := range c.peers {
			if _, ok := c.nodes[1].decides.(*deadly).compared.Load([2]uint64{index, uint64(id)}); !ok {
				return false
			}
		}
		return true
	})
	for id, m := range c.nodes { // before any is stopped, which then can't tell the others
		c.wait(fmt.Sprintf("node %d has applied all", id), func() bool { return m.Status().Applied >= c.nodes[1].Status().Applied })
	}
	for id, m := range c.nodes {
		m.Stop(t.Context())
		x := m.decides.(*deadly)
		if s := x.Skips(); len(s) == 0 || len(s) > len(all) || s[0].Index != index {
			t.Errorf("node %d: %+v; want %+v", id, s, all)
		}
		for name, want := range map[string]bool{"before": true, "death": false, "after": true} {
			if _, got := x.Queue(name); got != want {
				t.Errorf("node %d: queue %s: %v", id, name, got)
			}
		}
	}
	// What is behind the state is forgotten by the next start.
	again := c.start(1)
	if left, err := again.dir.Skips(); err != nil || len(left) != 0 || len(again.skips) != 0 {
		t.Errorf("%v %v", left, err)
	}
}

// 4.4 and 8.7: a forced recovery passes over the entries that its directory says, as a start does; without that it stops at the entry
// that the program can't apply, and has changed nothing.
func TestForcePassesOverSkipped(t *testing.T) {
	c := newCluster(t, 3, func(o *Options) { o.testMachine = newDeadly })
	n := c.leader() // which hears first that an entry is committed
	for _, name := range []string{"before", "death"} {
		_, err := n.Request(c.soon(), &command.QueueCreate{Name: name})
		if (err != nil) != (name == "death") {
			t.Fatalf("%s: %v", name, err)
		}
	}
	<-n.ran
	index := deadlyEntries(t, c, n.id)[0].Index
	if _, err := SkipEntry(SkipOptions{Dir: c.dirs[n.id], Index: index}); err != nil {
		t.Fatal(err)
	}
	f, err := Foresee(nil, c.dirs[n.id])
	if err != nil || f.Last < index {
		t.Fatalf("%+v %v", f, err)
	}
	if err := ForceNewCluster(ForceOptions{Dir: c.dirs[n.id], Cluster: [16]byte{1}, History: f.History + 1}); err != nil {
		t.Fatal(err)
	}
	alone := newCluster(t, 0, realMachine)
	alone.peers[n.id], alone.dirs[n.id] = "alone", c.dirs[n.id]
	m := alone.start(n.id)
	alone.wait("it is ready", func() bool { return m.Ready() == nil })
	err = m.Read(t.Context(), func(s *state.Machine) {
		_, before := s.Queue("before")
		_, death := s.Queue("death")
		if skips := s.Skips(); !before || death || len(skips) != 1 || skips[0].Index != index {
			t.Errorf("queue before: %v, of the skipped entry: %v, skips %+v", before, death, skips)
		}
	})
	if err != nil {
		t.Error(err)
	}
	if left, err := m.dir.Skips(); err != nil || len(left) != 0 {
		t.Errorf("what is behind the state is still listed: %v %v", left, err)
	}
}

// An entry that makes the machine panic ends a forced recovery with where it was.
func TestForceMeetsAPanic(t *testing.T) {
	e := &store.Entry{Index: 7, Term: 2, Data: command.AppendRecord(command.AppendEntry(nil, command.EntryHeader{}), command.Record{Body: []byte("death")})}
	s := &survivor{}
	err := s.bringEntry(&deadly{Machine: state.New(group)}, e, new(store.Batch))
	if !errors.Is(err, ErrApplyPanicked) || !strings.Contains(err.Error(), "entry 7, term 2") || !strings.Contains(err.Error(), "goroutine") {
		t.Errorf("%v", err)
	}
	s.skips = Skips{{Index: 7, Term: 3}}
	if err := s.bringEntry(&deadly{Machine: state.New(group)}, e, new(store.Batch)); !errors.Is(err, ErrApplyPanicked) {
		t.Errorf("skipped by another term: %v", err)
	}
}

// deadlyEntries finds the entry in the logs of nodes that don't run. A home that hears nothing proposes again, so there may be more than one.
func deadlyEntries(t *testing.T, c *cluster, nodes ...command.NodeID) (all []store.Skip) {
	t.Helper()
	for _, node := range nodes {
		all = append(all, deadlyOf(t, c, node)...)
	}
	slices.SortFunc(all, func(a, b store.Skip) int { return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Term, b.Term)) })
	if all = slices.Compact(all); len(all) == 0 {
		t.Fatal("there is no such entry in the logs")
	}
	return all
}

func deadlyOf(t *testing.T, c *cluster, node command.NodeID) (found []store.Skip) {
	t.Helper()
	d, err := store.Open(store.Options{Dir: c.dirs[node], Node: uint64(node)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	log, err := d.OpenLog(store.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	entries, err := log.Entries(nil, log.FirstIndex(), log.LastIndex()+1, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if bytes.Contains(e.Data, []byte("death")) {
			found = append(found, store.Skip{Index: e.Index, Term: e.Term})
		}
	}
	return found
}
