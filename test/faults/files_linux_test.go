package faults

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncemq/oncemq/test/cluster"
)

// smallFiles are flags of nodes whose files are small, and read on trial all the time.
var smallFiles = []string{"--log-segment=1MiB", "--flush-log=2MiB", "--retain-log=16MiB", "--scrub-every=2s", "--scrub-rate=1GiB", "--snapshot-rate=4MiB"}

// moment is when a bit becomes another one.
type moment int

const (
	stopped moment = iota // by SIGTERM, with the state written out
	killed                // kill -9
	running
)

func (m moment) String() string { return [...]string{"stopped", "killed", "running"}[m] }

// What a node comes to whose directory is damaged.
const (
	hasRecovered = "recovers"
	goesOn       = "goes on"
)

// play damages one place of a node and says what came of it, and after how long the node served, voted and was in all like the others.
func (w *World) play(n *cluster.Node, k *Kind, when moment) (what string, took time.Duration) {
	w.tb.Helper()
	passes := w.status(n).Scrub.Passes + 1 // the one that goes on has perhaps read the place already
	switch when {
	case stopped:
		n.Signal(syscall.SIGTERM)
		w.EndsWith(n, 0, 3*failover)
		passes = 0
	case killed:
		w.Kill(n)
		passes = 0
	case running:
	}
	there := k.Damage(w.tb, n.Dir)
	w.Note("node %d, %v: %s: a bit is another: %v", n.ID, when, k.Name, there)
	w.saidBefore[n.ID] = w.says(n, recovers)
	begun := time.Now()
	if when != running {
		w.Commits(10, failover)
		begun = time.Now()
		n.Start()
	}
	w.Until(time.Minute, fmt.Sprintf("node %d to find out about its %s", n.ID, k.Name), func() bool {
		if w.says(n, recovers) > w.saidBefore[n.ID] {
			what = hasRecovered
			return true
		}
		st := w.status(n)
		if st.Scrub.Passes > passes && st.Scrub.Damage == "" {
			what = goesOn
			return true
		}
		return false
	})
	n.WaitReady()
	w.saidBefore[n.ID] = w.says(n, recovers)
	took = time.Since(begun)
	switch {
	case !there:
		what = "has none"
	case k.Harmless && what != goesOn, !k.Harmless && !k.Perhaps && what != hasRecovered:
		w.tb.Errorf("node %d, %v: %s: the node %s", n.ID, when, k.Name, what)
	}
	w.Note("node %d, %v: %s: %s, %v", n.ID, when, k.Name, what, took.Round(time.Millisecond))
	w.Newcomer(n, 2*failover)
	w.Votes(n)
	return what, took
}

// Votes requires that commits go on with a node and one other alone.
func (w *World) Votes(n *cluster.Node) {
	w.tb.Helper()
	leader := w.Leader()
	others := w.Others(n)
	third := others[0]
	if third == leader { // it needn't be elected again
		third = others[1]
	}
	w.CatchesUp(n, leader, 2*failover) // or it is the one that is waited for
	w.Stop(third)
	w.Commits(10, 2*failover)
	w.Continue(third)
	third.WaitReady()
}

// bulk stores messages that nobody takes, so that the state has tables of them.
func (w *World) bulk() { w.store("bulk", 300, 10<<10) }

// Row 57: a bit in files of each sort is another one at the next start of a node, and while it runs: it finds out, recovers from the others,
// serves and votes again.
func TestRow57EveryFile(t *testing.T) {
	w := New(t, Options{Flags: smallFiles})
	w.Run(func() {
		w.bulk()
		for i := range Kinds {
			if k := &Kinds[i]; k.Short {
				w.play(w.Follower(0), k, stopped)
			}
		}
	})
	w.Same()
}

// Row 57, whole: a bit in each kind of file, on each node in turn, while the node is down. Nothing that was acknowledged is missing, and the nodes
// have the same in the end.
func TestRow57EveryFileEveryNode(t *testing.T) {
	Long(t)
	w := New(t, Options{Flags: smallFiles})
	table := newTable()
	w.Run(func() {
		w.bulk()
		for i := range Kinds {
			for _, n := range w.Nodes {
				when := moment((i + n.ID) % 2)
				what, took := w.play(n, &Kinds[i], when)
				table.add(Kinds[i].Name, n.ID, when, what, took)
			}
		}
		for _, n := range w.Nodes {
			if names := Unknown(t, n); len(names) > 0 {
				t.Errorf("node %d has files of kinds that aren't played: %v", n.ID, names)
			}
		}
	})
	w.Same()
	t.Log("\n" + table.String())
}

// Row 57, while the node runs: it reads all that it has on trial, finds the bit, and recovers as soon as the others can do without it. The log's
// segments are so long that none is cut meanwhile, with the bit in it.
func TestRow57EveryFileRunning(t *testing.T) {
	Long(t)
	w := New(t, Options{Flags: []string{"--scrub-every=2s", "--scrub-rate=1GiB"}})
	table := newTable()
	w.Run(func() {
		w.bulk()
		for i := range Kinds {
			if !Kinds[i].Scrubbed {
				continue
			}
			for _, n := range w.Nodes {
				n.Signal(syscall.SIGTERM) // so that it has tables
				w.EndsWith(n, 0, 3*failover)
				w.Start(n)
				what, took := w.play(n, &Kinds[i], running)
				table.add(Kinds[i].Name, n.ID, running, what, took)
			}
		}
	})
	w.Same()
	t.Log("\n" + table.String())
}

// Row 57, what is fetched: a node that recovers is killed in the middle, and a bit of what it has fetched is another one; and one in the
// checkpoint that it is offered. It finds out, fetches again, and never installs it.
func TestRow57FetchedFiles(t *testing.T) {
	Long(t)
	w := New(t, Options{Flags: smallFiles})
	table := newTable()
	w.Run(func() {
		w.bulk()
		for i, pattern := range []string{"fetch/state/*.sst", "fetch/state/MANIFEST-*", "fetch/MANIFEST", "fetch/CONFIRMED", "fetch/COMPLETE", "checkpoint/*/MANIFEST-*"} {
			n := w.Follower(i % 2)
			what, took := w.playFetched(n, pattern)
			table.add(pattern, n.ID, killed, what, took)
		}
	})
	w.Same()
	t.Log("\n" + table.String())
}

// playFetched has a node lose what it promised, kills it when it, or the leader for it, has a file of a pattern, and flips a bit of that.
func (w *World) playFetched(n *cluster.Node, pattern string) (what string, took time.Duration) {
	w.tb.Helper()
	for range 5 {
		n.Signal(syscall.SIGTERM)
		w.EndsWith(n, 0, 3*failover)
		if err := flip(filepath.Join(n.Dir, "STAMP"), 20); err != nil {
			w.tb.Fatal(err)
		}
		dir := n.Dir
		if strings.HasPrefix(pattern, "checkpoint") {
			dir = w.Leader().Dir
		}
		n.Start()
		for end := time.Now().Add(30 * time.Second); len(matching(dir, pattern)) == 0 && time.Now().Before(end); { // no pause: it may be there for milliseconds
		}
		w.Kill(n)
		begun := time.Now()
		files := matching(dir, pattern)
		if len(files) == 0 {
			w.Note("%s was gone when node %d was dead", pattern, n.ID)
			w.Start(n)
			continue
		}
		path, at, err := half(files)
		if err == nil {
			err = flip(path, at)
		}
		if err != nil {
			w.Note("%s: %v", path, err) // it had no byte yet
			w.Start(n)
			continue
		}
		w.Note("a bit of %s is another", path)
		n.Start()
		n.WaitReady()
		w.saidBefore[n.ID] = w.says(n, recovers)
		took = time.Since(begun)
		w.Newcomer(n, 2*failover)
		w.Votes(n)
		return hasRecovered, took
	}
	return "was never met", 0
}

// table is what came of each kind on each node.
type table struct {
	names []string
	cells map[string][nodes + 1]string
}

func newTable() *table { return &table{cells: map[string][nodes + 1]string{}} }

func (t *table) add(name string, node int, when moment, what string, took time.Duration) {
	row, ok := t.cells[name]
	if !ok {
		t.names = append(t.names, name)
	}
	row[node] = fmt.Sprintf("%s: %s, %.1f s", when, what, took.Seconds())
	t.cells[name] = row
}

func (t *table) String() string {
	var b strings.Builder
	for _, name := range t.names {
		fmt.Fprintf(&b, "%-26s", name)
		for id := 1; id <= nodes; id++ {
			fmt.Fprintf(&b, "%-30s", t.cells[name][id])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
