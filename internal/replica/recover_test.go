package replica

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/store"
)

// comesBack starts a node and opens it again, as package node does, until it is ready: recovered is how often it was found
// damaged or had recovered.
func (c *cluster) comesBack(id command.NodeID) (m *member, recovered int) {
	c.t.Helper()
	if m = c.nodes[id]; m == nil {
		m = c.start(id)
	}
	deadline := time.After(30 * time.Second)
	for m.Ready() != nil {
		select {
		case err := <-m.ran:
			if !errors.Is(err, ErrInstalled) && !errors.Is(err, ErrDamaged) {
				c.t.Fatalf("node %d ended with %v", id, err)
			}
			recovered++
			m = c.start(id)
		case <-deadline:
			c.t.Fatalf("node %d isn't ready: %v", id, m.Ready())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return m, recovered
}

// files lists a node's files by a pattern below its directory, ascending.
func (c *cluster) files(id command.NodeID, pattern ...string) (found []string) {
	c.t.Helper()
	for _, p := range pattern {
		for _, base := range []string{"", "gen-*"} {
			names, err := filepath.Glob(filepath.Join(c.dirs[id], base, p))
			if err != nil {
				c.t.Fatal(err)
			}
			found = append(found, names...)
		}
	}
	slices.Sort(found)
	if len(found) == 0 {
		c.t.Fatalf("node %d has no file %v", id, pattern)
	}
	return found
}

// change changes a file.
func (c *cluster) change(path string, f func(b []byte) []byte) {
	c.t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, f(b), 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) remove(path string) {
	c.t.Helper()
	if err := os.RemoveAll(path); err != nil {
		c.t.Fatal(err)
	}
}

// flipAt flips a bit at a part of the file.
func flipAt(part float64) func([]byte) []byte {
	return func(b []byte) []byte {
		b[int(float64(len(b)-1)*part)] ^= 0x10
		return b
	}
}

// damages are what can happen to a directory between two starts, all of it to what was once synced.
var damages = []struct {
	name string
	do   func(c *cluster, id command.NodeID)
}{
	{"a bit of a segment's header", func(c *cluster, id command.NodeID) {
		c.change(c.files(id, "log/*.seg")[0], func(b []byte) []byte { b[20] ^= 1; return b })
	}},
	{"a bit of a batch", func(c *cluster, id command.NodeID) {
		c.change(c.files(id, "log/*.seg")[0], func(b []byte) []byte { b[4096+60] ^= 1; return b })
	}},
	{"a segment is cut to nothing", func(c *cluster, id command.NodeID) {
		c.change(c.files(id, "log/*.seg")[0], func([]byte) []byte { return nil })
	}},
	{"a segment is cut", func(c *cluster, id command.NodeID) {
		c.change(c.files(id, "log/*.seg")[0], func(b []byte) []byte { return b[:4096+100] })
	}},
	{"a segment is gone", func(c *cluster, id command.NodeID) { c.remove(c.files(id, "log/*.seg")[1]) }},
	{"all segments are gone", func(c *cluster, id command.NodeID) {
		for _, path := range c.files(id, "log/*.seg") {
			c.remove(path)
		}
	}},
	{"the log is gone", func(c *cluster, id command.NodeID) { c.remove(c.files(id, "log")[0]) }},
	{"a bit of the stamp", func(c *cluster, id command.NodeID) { c.change(c.files(id, "STAMP")[0], flipAt(0.6)) }},
	{"the stamp is gone", func(c *cluster, id command.NodeID) { c.remove(c.files(id, "STAMP")[0]) }},
	{"a bit of the list of nodes", func(c *cluster, id command.NodeID) { c.change(c.files(id, "VOTERS")[0], flipAt(0.9)) }},
	{"the list of nodes is gone", func(c *cluster, id command.NodeID) { c.remove(c.files(id, "VOTERS")[0]) }},
	{"a list of skipped entries that can't be read", func(c *cluster, id command.NodeID) {
		if err := os.WriteFile(filepath.Join(c.dirs[id], "SKIP"), []byte("index 1 term 1\ncrc32c 00000000\n"), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}},
	{"bits of the manifests", func(c *cluster, id command.NodeID) {
		for _, path := range c.files(id, "state/MANIFEST-*") {
			c.change(path, flipAt(0.5))
		}
	}},
	{"the manifests are gone", func(c *cluster, id command.NodeID) {
		for _, path := range c.files(id, "state/MANIFEST-*") {
			c.remove(path)
		}
	}},
	{"a table is gone", func(c *cluster, id command.NodeID) { c.remove(c.files(id, "state/*.sst")[0]) }},
	{"a table is cut", func(c *cluster, id command.NodeID) {
		c.change(c.files(id, "state/*.sst")[0], func(b []byte) []byte { return b[:len(b)/2] })
	}},
	{"bits of the tables", func(c *cluster, id command.NodeID) {
		for _, path := range c.files(id, "state/*.sst") {
			c.change(path, flipAt(0.3))
		}
	}},
	{"the state is gone", func(c *cluster, id command.NodeID) { c.remove(c.files(id, "state")[0]) }},
	{"log and state are damaged", func(c *cluster, id command.NodeID) {
		c.change(c.files(id, "log/*.seg")[0], func(b []byte) []byte { b[4096+60] ^= 1; return b })
		c.remove(c.files(id, "state")[0])
	}},
}

// manySegments makes a log of many segments, and tables.
func manySegments(o *Options) {
	o.testMachine = nil
	o.Limits = Limits{SegmentBytes: 16 << 10, LogFlushBytes: 64 << 10, KeepEvery: 20 * time.Millisecond, Tick: 20 * time.Millisecond, RetainBytes: 256 << 10, RecoverPause: time.Millisecond}
}

// fill writes until the log of every node has several segments and its state a table.
func (c *cluster) fill(name string) {
	c.t.Helper()
	leader := c.leader()
	for i := range 15 {
		c.write(leader, fmt.Sprintf("%s %d %s", name, i, strings.Repeat("x", 4000)))
	}
	for _, m := range c.nodes {
		if err := m.state.Flush(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestRecoverForgotten: a node that comes back with an older copy of its directory is told by its leader, and gets from it what it had
// acknowledged since (faults 46, 61).
func TestRecoverForgotten(t *testing.T) {
	c := newCluster(t, 3, manySegments)
	c.fill("before")
	id := c.follower().id
	c.kill(id)
	old := filepath.Join(t.TempDir(), "old")
	if err := os.CopyFS(old, os.DirFS(c.dirs[id])); err != nil {
		t.Fatal(err)
	}
	c.comesBack(id)
	c.write(c.nodes[id], "acknowledged by all")
	c.digests()
	c.kill(id)
	c.remove(c.dirs[id])
	if err := os.CopyFS(c.dirs[id], os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	m, recovered := c.comesBack(id)
	if recovered != 2 {
		t.Errorf("it began anew %d times; want: when it found out, and when it had recovered", recovered)
	}
	c.write(m, "through the node that recovered")
	c.digests()
}

// TestRecoverRunning: a node that meets damage while it runs, as one message that can't be read, gives its clients up and begins anew, to
// recover from the others (faults 48).
func TestRecoverRunning(t *testing.T) {
	c := newCluster(t, 3, func(o *Options) {
		manySegments(o)
		o.Limits.OfferFor = time.Second
	})
	c.fill("before")
	m := c.follower()
	before := m.box
	_, _, err := unreadable{}.Get(nil, nil)
	m.lose(err)
	select {
	case err := <-m.ran:
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("the node ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the node goes on")
	}
	delete(c.nodes, m.id)
	m, recovered := c.comesBack(m.id)
	if recovered != 1 {
		t.Errorf("it began anew %d times after it had started as one that recovers, want once", recovered)
	}
	if m.box == before {
		t.Error("it is the same life")
	}
	c.write(m, "through the node that recovered")
	c.digests()
}

// TestRecoverFromDamagedLeader: the leader that a damaged node asks for a checkpoint finds its own state damaged by that. It goes on, since the two have
// the majority, has the third one lead, which has a sound state, and recovers itself when the other one is back.
func TestRecoverFromDamagedLeader(t *testing.T) {
	c := newCluster(t, 3, manySegments)
	c.fill("before")
	id := c.follower().id
	c.kill(id)
	for _, path := range c.files(id, "log/*.seg") { // so that it needs a leader
		c.remove(path)
	}
	leader := c.leader()
	c.change(c.files(leader.id, "state/*.sst")[0], flipAt(0.3)) // which it has open, and needn't read
	m, _ := c.comesBack(id)
	c.write(m, "through the node that recovered")
	select {
	case err := <-leader.ran:
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("the damaged leader ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the former leader doesn't recover")
	}
	delete(c.nodes, leader.id)
	c.comesBack(leader.id)
	c.digests()
}

// TestUnreadableMessage: who can't read a message has the node end.
func TestUnreadableMessage(t *testing.T) {
	s := &steps{state: unreadable{}, appends: newInbox[appendJob]()}
	if _, err := s.Message(nil, 7, 1); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("the message is there: %v", err)
	}
	if _, err := s.append(); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("the node goes on: %v", err)
	}
}

// unreadable is a state of which a message can't be read.
type unreadable struct{ State }

func (unreadable) Get([]byte, []byte) ([]byte, bool, error) {
	return nil, false, fmt.Errorf("%w: a block can't be read", store.ErrCorrupt)
}

// TestRecover: a node whose directory is damaged, in whichever place, comes back by itself with what the others have, as long as those are a
// majority; the generation that was damaged is gone then (C14; faults 46, 56, 57, 58).
func TestRecover(t *testing.T) {
	c := newCluster(t, 3, manySegments)
	c.fill("first")
	for i, d := range damages {
		id := c.leader().id // others elect another
		if i%2 == 0 {
			id = c.follower().id
		}
		c.kill(id)
		c.write(c.leader(), fmt.Sprint("without it ", i))
		d.do(c, id)
		m, recovered := c.comesBack(id)
		if recovered == 0 {
			t.Errorf("%s: node %d started as if nothing was wrong", d.name, id)
		}
		c.write(m, fmt.Sprint("through the node that recovered ", i))
		c.digests()
		if got := m.dir.Loss(); got != 0 {
			t.Errorf("%s: the directory is still marked with %d", d.name, got)
		}
		c.fill(fmt.Sprint("fill ", i))
	}
}
