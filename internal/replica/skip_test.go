package replica

import (
	"bytes"
	"context"
	"errors"
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
		_, err := c.nodes[1].Request(context.Background(), &command.QueueCreate{Name: name})
		return err
	}
	if err := request("before"); err != nil {
		t.Fatal(err)
	}
	if err := request("death"); err == nil {
		t.Fatal("it was answered")
	}
	for range 3 {
		failed = append(failed, <-failures)
	}
	for _, m := range c.nodes {
		<-m.ran
	}
	for _, err := range failed {
		if !errors.Is(err, ErrApplyPanicked) || !strings.Contains(err.Error(), "recover skip") {
			t.Fatal(err)
		}
	}
	index := deadlyIndex(t, c)
	// Without the skip it is the same again.
	lone, err := Open(c.options(1, &box{}))
	if err != nil {
		t.Fatal(err)
	}
	lone.Close()

	var term uint64
	for id := command.NodeID(1); id <= 3; id++ {
		r, err := SkipEntry(SkipOptions{Dir: c.dirs[id], Index: index})
		if err != nil || r.Node != id || !r.InLog || r.Commands["QueueCreate"] != 1 {
			t.Fatalf("%+v %v", r, err)
		}
		term = r.Term
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
	for id, m := range c.nodes {
		c.wait("all is applied", func() bool { return m.Status().Applied >= c.nodes[1].Status().Applied })
		m.Stop(context.Background())
		x := m.decides.(*deadly)
		if s := x.Skips(); len(s) != 1 || s[0].Index != index {
			t.Errorf("node %d: %+v; want entry %d of term %d", id, s, index, term)
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

// deadlyIndex finds the entry in the first node's log.
func deadlyIndex(t *testing.T, c *cluster) uint64 {
	t.Helper()
	d, err := store.Open(store.Options{Dir: c.dirs[1], Node: 1})
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
			return e.Index
		}
	}
	t.Fatal("there is no such entry in the log")
	return 0
}
