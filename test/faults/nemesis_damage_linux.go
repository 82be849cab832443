package faults

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/test/cluster"
)

// The kinds of faults that damage what a node has, and those that an operator makes.

// scrubbed are flags of nodes that read all that they have again and again, and don't have much: damage that a round leaves behind would be a
// second node's in the next one.
var scrubbed = []string{"--scrub-every=3s", "--scrub-rate=1GiB", "--log-segment=4MiB", "--flush-log=8MiB", "--retain-log=32MiB"}

// damage has a node's directory changed, if no other one's was in this round and the node lives.
func (x *Nemesis) damage(n *cluster.Node, change func() string) func() {
	if x.unsound != nil || x.dead[n.ID] {
		return nil
	}
	x.unsound = n
	before := x.w.says(n, recovers)
	x.w.Note("node %d: %s", n.ID, change())
	x.after = append(x.after, func() { x.found(n, before) })
	return func() {}
}

// found waits until a node has found the damage, or has read all that it has without finding any: what was damaged may have been replaced
// meanwhile, or is nothing that counts.
func (x *Nemesis) found(n *cluster.Node, before int) {
	x.w.tb.Helper()
	n.WaitReady()
	passes := x.w.status(n).Scrub.Passes
	took := x.w.Until(time.Minute, fmt.Sprintf("node %d to find the damage, or to be sound", n.ID), func() bool {
		if x.w.says(n, recovers) > before {
			return true
		}
		st := x.w.status(n)
		return st.Scrub.Passes >= passes+2 && st.Scrub.Damage == ""
	})
	n.WaitReady()
	x.w.Note("node %d has recovered %d times, %v after it was healed", n.ID, x.w.says(n, recovers)-before, took.Round(time.Millisecond))
}

// some draws a kind of place of those that fit.
func (x *Nemesis) some(fits func(k *Kind) bool) *Kind {
	for {
		if k := &Kinds[x.rng.IntN(len(Kinds))]; fits(k) {
			return k
		}
	}
}

// bitIn kills a node, and flips a bit of what it has in a directory, "." being its own.
func (x *Nemesis) bitIn(dir string) func(n *cluster.Node) func() {
	return func(n *cluster.Node) func() {
		k := x.some(func(k *Kind) bool { return filepath.Dir(k.Pattern) == dir })
		return x.damage(n, func() string {
			x.end(x.w.Kill, n)
			return fmt.Sprintf("a bit is another, %s: %v", k.Name, k.Damage(x.w.tb, n.Dir))
		})
	}
}

// bitWhileRunning flips a bit of what a running node has.
func (x *Nemesis) bitWhileRunning(n *cluster.Node) func() {
	k := x.some(func(k *Kind) bool { return k.Scrubbed })
	return x.damage(n, func() string {
		return fmt.Sprintf("a bit is another while it runs, %s: %v", k.Name, k.Damage(x.w.tb, n.Dir))
	})
}

// segmentIsCut kills a node, and leaves a few blocks, or nothing, of its log's first segment.
func (x *Nemesis) segmentIsCut(n *cluster.Node) func() {
	blocks := x.rng.Int64N(3)
	return x.damage(n, func() string {
		x.end(x.w.Kill, n)
		return fmt.Sprintf("the first segment is cut after %d blocks: %v", blocks, os.Truncate(oldest(n.Dir, "log/*.seg"), blocks*block))
	})
}

// segmentIsGone kills a node, and removes a segment of its log, or a table of its state.
func (x *Nemesis) segmentIsGone(n *cluster.Node) func() {
	pattern := []string{"log/*.seg", "state/*.sst"}[x.rng.IntN(2)]
	return x.damage(n, func() string {
		x.end(x.w.Kill, n)
		path := oldest(n.Dir, pattern)
		return fmt.Sprintf("%s is gone: %v", path, os.Remove(path))
	})
}

// call asks a node's admin API, once, and doesn't wait long: it may be unable to answer.
func (x *Nemesis) call(n *cluster.Node, path string, body any) error {
	ctx, cancel := context.WithTimeout(x.w.ctx, 3*time.Second)
	defer cancel()
	err := admin.Call(ctx, n.Admin, http.MethodPost, path, body, nil)
	x.w.Note("node %d is asked for %s %v: %v", n.ID, path, body, err)
	return err
}

// transfer moves leadership to a node, if that can be now.
func (x *Nemesis) transfer(n *cluster.Node) func() {
	_ = x.call(n, "/api/v1/cluster/transfer", map[string]int{"to": n.ID})
	return func() {}
}

// drain moves leadership and clients away from a node, and keeps them away until the end of the round.
func (x *Nemesis) drain(n *cluster.Node) func() {
	if x.dead[n.ID] || x.call(n, "/api/v1/node/drain", map[string]string{"over": "1s"}) != nil {
		return nil
	}
	x.after = append(x.after, func() {
		x.w.Until(failover, fmt.Sprintf("node %d to be open again", n.ID), func() bool { return x.call(n, "/api/v1/node/revive", nil) == nil })
	})
	return func() {}
}
