package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// allComeBack starts nodes and opens them again, as package node does, until they are ready; it returns how often each had recovered.
func (c *cluster) allComeBack(ids ...command.NodeID) map[command.NodeID]int {
	c.t.Helper()
	recovered := map[command.NodeID]int{}
	for _, id := range ids {
		if c.nodes[id] == nil {
			c.start(id)
		}
	}
	c.wait("all are back", func() bool {
		ready := true
		for _, id := range ids {
			select {
			case err := <-c.nodes[id].ran:
				if !errors.Is(err, ErrInstalled) && !errors.Is(err, ErrDamaged) {
					c.t.Fatalf("node %d ended with %v", id, err)
				}
				recovered[id]++
				c.start(id)
			default:
			}
			ready = ready && c.nodes[id].Ready() == nil
		}
		return ready
	})
	return recovered
}

// loseState damages the directory of a node that isn't running: its state is gone.
func (c *cluster) loseState(id command.NodeID) { c.remove(c.files(id, "state")[0]) }

// loseBatch damages the directory of a node that isn't running: an append in the segment that lies so far before the last one, or further before
// it, so that no entry is lost that another node has lost too. How many entries an append has depends on the machine's load, and a segment's
// number says nothing about another node's.
func (c *cluster) loseBatch(lost []store.Range, id command.NodeID, before int) []store.Range {
	c.t.Helper()
	begun := slices.DeleteFunc(c.files(id, "log/*.seg"), func(path string) bool {
		begun := false
		c.change(path, func(b []byte) []byte {
			// One that was recycled still has its old number in its header.
			begun = len(b) > 3*4096 && strings.HasSuffix(path, fmt.Sprintf("%016x.seg", binary.LittleEndian.Uint64(b[16:])))
			return b
		})
		return !begun
	})
	for i := len(begun) - 1 - before; i > 0; i-- {
		flip := func() { c.change(begun[i], func(b []byte) []byte { b[4096+60] ^= 1; return b }) }
		flip()
		if missing := c.missing(id); missing.First <= missing.Last && !slices.ContainsFunc(lost, func(r store.Range) bool {
			return missing.First <= r.Last && r.First <= missing.Last
		}) {
			return append(lost, missing)
		}
		flip()
	}
	c.t.Fatalf("node %d has in its segments %v no append but of the entries %v", id, begun, lost)
	return nil
}

// missing is the range of entries that is lost within the log of a node that isn't running.
func (c *cluster) missing(id command.NodeID) store.Range {
	c.t.Helper()
	in, err := store.Inspect(store.InspectOptions{Dir: c.dirs[id], Group: group})
	if err != nil {
		c.t.Fatal(err)
	}
	defer in.Close()
	if missing := in.Log.Missing(); len(missing) == 1 && !in.Log.TailLost && in.Log.StateSound {
		return missing[0]
	}
	return store.Range{First: 1}
}

// TestRecoverWithoutLeader: two of three nodes that are damaged at the same time, and all three in different places, become whole by what the
// others have left, though nobody can lead; nothing that was acknowledged is lost (C14; faults 48, 59).
func TestRecoverWithoutLeader(t *testing.T) {
	flushAt := int64(64 << 10)
	c := newCluster(t, 3, func(o *Options) {
		manySegments(o)
		o.Limits.LogFlushBytes = flushAt
	})
	var ledger []string
	write := func(n int) {
		for range n {
			name := fmt.Sprint("ledger ", len(ledger))
			c.write(c.leader(), name)
			c.write(c.leader(), fmt.Sprint(name, strings.Repeat(" filler", 600)))
			ledger = append(ledger, name)
		}
	}
	c.fill("first")
	c.wait("the logs are cut", func() bool {
		for _, m := range c.nodes {
			if m.log.FirstIndex() == 1 {
				return false
			}
		}
		return true
	})
	flushAt = 1 << 30 // what is written from here on is in the logs only
	for _, d := range []struct {
		name    string
		do      func()
		damaged []command.NodeID
		without command.NodeID // isn't there until the others are back
	}{
		{"a state, and a log", func() { c.loseState(1); c.loseBatch(nil, 2, 1) }, []command.NodeID{1, 2}, 0},
		{"two states", func() { c.loseState(2); c.loseState(3) }, []command.NodeID{2, 3}, 0},
		{"two logs in different places", func() { c.loseBatch(c.loseBatch(nil, 1, 1), 3, 2) }, []command.NodeID{1, 3}, 2},
		{"all three", func() {
			c.loseState(1)
			c.loseState(2)
			var lost []store.Range
			for i, id := range []command.NodeID{3, 2, 1} {
				lost = c.loseBatch(lost, id, 1+i)
			}
		}, []command.NodeID{1, 2, 3}, 0},
	} {
		for _, id := range []command.NodeID{1, 2, 3} {
			c.kill(id)
		}
		c.allComeBack(1, 2, 3)
		c.fill(d.name)
		write(20)
		for _, id := range []command.NodeID{1, 2, 3} {
			c.kill(id)
		}
		d.do()
		ids := slices.DeleteFunc([]command.NodeID{1, 2, 3}, func(id command.NodeID) bool { return id == d.without })
		recovered := c.allComeBack(ids...)
		for _, id := range d.damaged {
			if recovered[id] == 0 {
				t.Errorf("%s: node %d started as if nothing was wrong", d.name, id)
			}
		}
		c.allComeBack(1, 2, 3)
		c.write(c.nodes[1], d.name+" is over")
		c.digests()
		for id, m := range c.nodes {
			err := m.Read(t.Context(), func(s *state.Machine) {
				for _, name := range ledger {
					if _, ok := s.Queue(name); !ok {
						t.Errorf("%s: node %d has lost %q", d.name, id, name)
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRecoverPauses: recoveries that don't last follow on each other ever more slowly, and the status says what to do.
func TestRecoverPauses(t *testing.T) {
	c := newCluster(t, 3, func(o *Options) {
		manySegments(o)
		o.Limits.RecoverPause = time.Hour
	})
	c.fill("first")
	id := c.follower().id
	damage := func() {
		c.kill(id)
		c.change(c.files(id, "log/*.seg")[0], func(b []byte) []byte { b[4096+60] ^= 1; return b })
	}
	for i := range freeRecoveries {
		damage()
		if _, recovered := c.comesBack(id); recovered != 1 {
			t.Errorf("time %d: it began anew %d times", i, recovered)
		}
	}
	damage()
	m := c.start(id)
	c.wait("the status says what to do", func() bool {
		return strings.Contains(m.Status().Recovering, "on another one; the next begins in 1h0m0s")
	})
	if err := m.Ready(); err == nil {
		t.Error("it is ready")
	}
}

// TestRecoverAnswers: questions and answers without a leader come over as they are, and no other bytes are taken for one.
func TestRecoverAnswers(t *testing.T) {
	for _, a := range []checkpointAnswer{{}, {Has: 300}, {Later: true}, {Offer: Offer{ID: [16]byte{7}, Node: 2, Index: 1 << 40, Term: 300}}} {
		b := a.appendTo(nil)
		if got, err := decodeCheckpointAnswer(b); err != nil || got != a {
			t.Errorf("%+v became %+v, %v", a, got, err)
		}
		for n := range b {
			if got, err := decodeCheckpointAnswer(b[:n]); !errors.Is(err, peer.ErrFrame) {
				t.Errorf("%+v cut at %d became %+v, %v", a, n, got, err)
			}
		}
	}
	for _, b := range [][]byte{nil, {0}, {answerElsewhere, 0}, {9, 9}} {
		if _, _, err := decodeStretchAnswer(b); !errors.Is(err, peer.ErrFrame) {
			t.Errorf("%x: %v", b, err)
		}
	}
	if _, _, err := decodeStretchAnswer([]byte{answerOffer, 1}); !errors.Is(err, store.ErrStretch) {
		t.Errorf("half an answer: %v", err)
	}
	if _, ok, err := decodeStretchAnswer([]byte{answerElsewhere}); ok || err != nil {
		t.Errorf("none: %v, %v", ok, err)
	}
}
