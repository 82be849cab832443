package store

import "sort"

// index is what the log knows in memory: terms, the newest entries, the hard state. Where older entries lie is in the
// segments. Log.mu guards it.
type index struct {
	// terms holds where each term begins: terms[i].term is that of the entries from terms[i].from up to the next one's
	// from. terms[0].from is the base, the index before the first entry; never empty.
	terms []termRun
	count uint64  // how many entries follow the base
	tail  []Entry // the newest entries, without gap up to the last
	bytes int64   // of the tail
	state HardState
	// replaced counts how often entries were dropped at the end, so that a reader sees that it happened under its hands.
	replaced uint64
}

// termRun says that a term begins at an index.
type termRun struct{ from, term uint64 }

// entryOverhead is what an entry in the tail costs beside its data.
const entryOverhead = 64

func (x *index) base() uint64      { return x.terms[0].from }
func (x *index) lastIndex() uint64 { return x.terms[0].from + x.count }

// termOf is the term at an index between base and last.
func (x *index) termOf(i uint64) uint64 {
	n := sort.Search(len(x.terms), func(n int) bool { return x.terms[n].from > i })
	return x.terms[n-1].term
}

// reset makes the log empty behind (index, term).
func (l *Log) reset(index, term uint64) {
	l.truncate(l.base())
	l.terms = append(l.terms[:0], termRun{index, term})
}

// truncate drops the entries above last.
func (l *Log) truncate(last uint64) {
	if last >= l.lastIndex() {
		return
	}
	l.count = last - l.base()
	l.replaced++
	for n := len(l.terms); n > 1 && l.terms[n-1].from > last; n-- {
		l.terms = l.terms[:n-1]
	}
	for n := len(l.tail); n > 0 && l.tail[n-1].Index > last; n-- {
		l.bytes -= int64(len(l.tail[n-1].Data)) + entryOverhead
		l.tail[n-1] = Entry{}
		l.tail = l.tail[:n-1]
	}
	for _, seg := range l.live {
		if n := len(seg.offsets); n > 0 && seg.last() > last {
			keep := uint64(0)
			if last >= seg.first {
				keep = last - seg.first + 1
			}
			seg.offsets = seg.offsets[:keep]
		}
	}
}

// push notes that the next entry's record lies at an offset in a segment.
func (l *Log) push(seg *segment, e *Entry, offset uint32) {
	if len(seg.offsets) == 0 {
		seg.first = e.Index
	}
	seg.offsets = append(seg.offsets, offset)
	l.count++
	if l.terms[len(l.terms)-1].term != e.Term {
		l.terms = append(l.terms, termRun{e.Index, e.Term})
	}
}

// keepTail adds entries to the tail and drops its oldest ones above limit bytes.
func (l *Log) keepTail(entries []Entry, limit int64) {
	l.tail = append(l.tail, entries...)
	for i := range entries {
		l.bytes += int64(len(entries[i].Data)) + entryOverhead
	}
	n := 0
	for ; l.bytes > limit && n < len(l.tail)-1; n++ {
		l.bytes -= int64(len(l.tail[n].Data)) + entryOverhead
		l.tail[n] = Entry{} // free the data; the slice's beginning goes when append moves it
	}
	l.tail = l.tail[n:]
}
