package sim

import (
	"hash/crc32"

	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// stored is what an entry is known by.
type stored struct {
	term uint64
	sum  uint32
	kind uint8
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func storedEntry(e *store.Entry) stored {
	return stored{e.Term, crc32.Update(uint32(e.Type), castagnoli, e.Data), e.Type}
}

// ledger is what a node has called durable, entry by entry: what it may tell a leader, and what its disk owes it (K9).
type ledger struct {
	entries []stored // of 1 and on
	term    uint64   // the highest it has stored
	batch   uint64   // the first index of the last append
}

// has says that the disk owes the node that entry.
func (l *ledger) has(index uint64, e stored) bool {
	return index <= uint64(len(l.entries)) && l.entries[index-1] == e
}

// drop forgets what is above last.
func (l *ledger) drop(last uint64) {
	if last < uint64(len(l.entries)) {
		l.entries = l.entries[:last]
	}
}

// watchedLog is a node's log with somebody who notes what is said to be on disk.
type watchedLog struct {
	replica.Log
	n *node
}

// Append implements replica.Log.
func (l *watchedLog) Append(a store.Append) error {
	err := l.Log.Append(a)
	owed := &l.n.owed
	if len(a.Entries) > 0 {
		owed.drop(a.Entries[0].Index - 1) // and where it failed, nobody knows what is there
	}
	if err != nil {
		return err
	}
	owed.term = max(owed.term, a.State.Term)
	if len(a.Entries) > 0 {
		owed.batch = a.Entries[0].Index
		l.n.w.store(l.n, a.Entries)
	}
	return nil
}

// store notes entries that follow on what a node has, and compares them with those of other nodes: the same index and term
// is the same entry everywhere.
func (w *world) store(n *node, entries []store.Entry) {
	for i := range entries {
		e := &entries[i]
		if e.Index != uint64(len(n.owed.entries))+1 {
			w.fail("K9", "n%d stores entry %d behind %d", n.id, e.Index, len(n.owed.entries))
			return
		}
		is := storedEntry(e)
		n.owed.entries = append(n.owed.entries, is)
		for uint64(len(w.entries)) < e.Index {
			w.entries = append(w.entries, nil)
		}
		at, known := &w.entries[e.Index-1], false
		for _, other := range *at {
			if other.term == is.term {
				known = true
				if other != is {
					w.fail("K9", "entry %d of term %d differs between n%d and another node", e.Index, e.Term, n.id)
				}
			}
		}
		if !known {
			*at = append(*at, is)
		}
	}
}

// committed notes what a node has applied: a majority called it durable before (K9).
func (w *world) noteCommitted(n *node, applied uint64) {
	for index := uint64(len(w.committed)) + 1; index <= min(applied, uint64(len(n.owed.entries))); index++ {
		if n.owed.entries[index-1].kind == confChange {
			w.noteConfiguration(n, index)
		}
	}
	for index := uint64(len(w.committed)) + 1; index <= applied; index++ {
		if index > uint64(len(n.owed.entries)) {
			w.fail("K9", "n%d has applied entry %d, and has %d of them on disk", n.id, index, len(n.owed.entries))
			return
		}
		is := n.owed.entries[index-1]
		w.committed = append(w.committed, is)
		if !w.safe(index, is) {
			w.fail("K9", "n%d has applied entry %d, which is on the disks of %d of %d nodes, and the voters are %v", n.id, index, w.holders(index, is), len(w.nodes), w.electorates())
		}
	}
}

// holders counts the nodes whose disk owes an entry.
func (w *world) holders(index uint64, is stored) (n int) {
	for _, other := range w.nodes {
		if other.owed.has(index, is) {
			n++
		}
	}
	return n
}

// checkDisk looks at a node's disk after its end, without its process: what it called durable is there, what was committed on a
// majority of disks, and nothing was cut that the state hasn't (K9). before tells what the disk had a right to lose.
func (w *world) checkDisk(n *node, forgets bool) {
	image, err := n.disk.Image()
	if err != nil {
		if forgets {
			n.forgot = true
		}
		if !forgets || !isDamage(err) {
			w.fail("K9", "n%d's disk: %v", n.id, err)
		}
		return
	}
	if applied := n.disk.durable(); applied < image.base {
		w.fail("K9", "n%d's log begins behind entry %d, its state has %d", n.id, image.base, applied)
	}
	if at, ok := n.owed.missing(&image); ok {
		if !forgets {
			w.fail("K9", "n%d called entry %d durable, and its disk doesn't have it (%d to %d)", n.id, at, image.base+1, image.last())
		}
		n.owed.drop(at - 1)
		n.forgot = forgets
	}
	if image.state.Term < n.owed.term && !forgets {
		w.fail("K9", "n%d stored term %d, and its disk has %d", n.id, n.owed.term, image.state.Term)
	}
	w.count("disk checked")
	w.checkHolders(n)
}

// checkHolders: what was committed is on a majority of disks (K9).
func (w *world) checkHolders(n *node) {
	for i, is := range w.committed {
		if !w.safe(uint64(i)+1, is) {
			w.fail("K9", "entry %d was committed, and too few disks have it after n%d's end", i+1, n.id)
			return
		}
	}
}

// missing is the first entry that an image lacks.
func (l *ledger) missing(image *logImage) (index uint64, ok bool) {
	for i := image.base; i < uint64(len(l.entries)); i++ {
		if i >= image.last() || storedEntry(&image.entries[i-image.base]) != l.entries[i] {
			return i + 1, true
		}
	}
	return 0, false
}

// opened compares what a node's process finds with what its disk owes it, and adds what it finds beyond that.
func (w *world) opened(n *node, log replica.Log) error {
	first, last := log.FirstIndex(), log.LastIndex()
	if have := uint64(len(n.owed.entries)); last < have {
		if n.flipped && last+1 >= n.owed.batch {
			w.count("last batch damaged") // nothing behind it says that it was synced
			n.forgot = true
		} else {
			w.fail("K9", "n%d starts with %d entries, it called %d durable", n.id, last, have)
		}
		n.owed.drop(last)
	}
	if last < first {
		return nil
	}
	entries, err := log.Entries(nil, first, last+1, 0)
	if err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Index > uint64(len(n.owed.entries)) || storedEntry(e) == n.owed.entries[e.Index-1]:
		case n.flipped && e.Index >= n.owed.batch:
			n.forgot = true // what the last batch replaced is back
			n.owed.drop(e.Index - 1)
		default:
			w.fail("K9", "n%d starts with another entry %d than it stored", n.id, e.Index)
		}
	}
	if more := uint64(len(n.owed.entries)) + 1; more <= last && more >= first {
		w.store(n, entries[more-first:])
	}
	return nil
}

// caughtUp says that all nodes but one have everything that was committed, and know its terms: it may come back without what it has
// forgotten. Before, it and a node that lags could elect a leader that lacks it (docs/faults.md, "A limit").
func (w *world) caughtUp(but *node) bool {
	for _, n := range w.nodes {
		if n == but || n.gone {
			continue
		}
		last := len(w.committed)
		if len(n.owed.entries) < last || n.owed.term < but.owed.term || last > 0 && n.owed.entries[last-1] != w.committed[last-1] {
			return false
		}
	}
	return true
}
