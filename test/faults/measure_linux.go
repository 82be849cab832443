package faults

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/oncemq/oncemq/test/cluster"
)

// Peak begins to watch the memory of a node's process; grown says by how many bytes it
// has been above today's since, at most (K12).
func (w *World) Peak(n *cluster.Node) (grown func() int64) {
	w.tb.Helper()
	dir := fmt.Sprintf("/proc/%d/", n.PID())
	if err := os.WriteFile(dir+"clear_refs", []byte("5"), 0); err != nil { // the high-water mark falls to what is in use
		w.tb.Fatal(err)
	}
	before := w.memory(dir, "VmHWM")
	return func() int64 {
		w.tb.Helper()
		more := w.memory(dir, "VmHWM") - before
		w.Note("node %d: %d MiB at first, %d more at its peak", n.ID, before>>20, more>>20)
		return more
	}
}

// memory reads a number of bytes from a process's status.
func (w *World) memory(dir, name string) int64 {
	w.tb.Helper()
	text, err := os.ReadFile(dir + "status")
	if err != nil {
		w.tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n"+name+":")
	line, _, _ := strings.Cut(rest, " kB\n")
	kb, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		w.tb.Fatalf("%s of %s: %v", name, dir, err)
	}
	return kb << 10
}

// Descriptors is how many files and sockets a node's process has open (K12).
func (w *World) Descriptors(n *cluster.Node) int {
	w.tb.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.PID()))
	if err != nil {
		w.tb.Fatal(err)
	}
	return len(list)
}

// CatchesUp waits until a node has applied what another has applied now (K8: all that
// are ready again have the same).
func (w *World) CatchesUp(n, with *cluster.Node, limit time.Duration) {
	w.tb.Helper()
	goal, err := with.Status(w.ctx)
	if err != nil {
		w.tb.Fatal(err)
	}
	took := w.Until(limit, fmt.Sprintf("node %d to apply entry %d", n.ID, goal.AppliedIndex), func() bool {
		st, err := n.Status(w.ctx)
		return err == nil && st.AppliedIndex >= goal.AppliedIndex
	})
	w.Note("node %d has caught up after %v", n.ID, took.Round(time.Millisecond))
}

// Lag is how many entries a node is behind another.
func (w *World) Lag(n, behind *cluster.Node) int64 {
	w.tb.Helper()
	ahead, err := behind.Status(w.ctx)
	if err != nil {
		w.tb.Fatal(err)
	}
	st, err := n.Status(w.ctx)
	if err != nil {
		w.tb.Fatal(err)
	}
	lag := int64(ahead.AppliedIndex) - int64(st.AppliedIndex)
	w.Note("node %d is %d entries behind", n.ID, lag)
	return lag
}

// pauses watches for the longest time without a commit, until it is asked.
func (w *World) pauses() (longest func() time.Duration) {
	stop, answer := make(chan struct{}), make(chan time.Duration)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		last, since, longest := -1, time.Now(), time.Duration(0)
		for {
			if now := w.checker.Counts().Committed; now != last {
				last, since = now, time.Now()
			}
			longest = max(longest, time.Since(since))
			select {
			case <-tick.C:
			case <-stop:
				answer <- longest
				return
			}
		}
	}()
	return func() time.Duration { close(stop); return <-answer }
}
