package store

import (
	"fmt"
	"slices"
	"sort"
)

// FirstIndex is the lowest index that can be read; LastIndex+1 where the log is empty.
func (l *Log) FirstIndex() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.base() + 1
}

// LastIndex is the highest index appended and synced; 0 where nothing ever was.
func (l *Log) LastIndex() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.lastIndex()
}

// HardState is the newest hard state appended.
func (l *Log) HardState() HardState {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.index.state
}

// Empty reports that nothing was ever appended: no entry, no hard state.
func (l *Log) Empty() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.lastIndex() == 0 && l.index.state == (HardState{})
}

// Path is the directory of the log's segments.
func (l *Log) Path() string { return l.dirPath }

// SizeBytes is what the log's segments in use hold, without spares: what Cut could free, and the 256 MiB rule is about.
func (l *Log) SizeBytes() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := int64(0)
	for _, seg := range l.live {
		n += seg.end
	}
	return n
}

// Suffix is the first index of the newest entries that hold at most bytes of the log: cutting there leaves about so much of it.
func (l *Log) Suffix(bytes int64) uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	index := l.lastIndex() + 1
	for i := len(l.live) - 1; i >= 0; i-- {
		seg := l.live[i]
		if bytes -= seg.end; bytes < 0 {
			break
		}
		if len(seg.offsets) > 0 {
			index = seg.first
		}
	}
	return index
}

// Term is the term of the entry at index, for FirstIndex-1 <= index <= LastIndex; it is answered from memory. Otherwise
// ErrCut or ErrUnavailable. Term(0) is 0 where nothing was cut.
func (l *Log) Term(index uint64) (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case index < l.base():
		return 0, fmt.Errorf("term of entry %d: %w; the log begins at %d", index, ErrCut, l.base()+1)
	case index > l.lastIndex():
		return 0, fmt.Errorf("term of entry %d: %w; the log ends at %d", index, ErrUnavailable, l.lastIndex())
	}
	return l.termOf(index), nil
}

// Entries appends the entries lo <= index < hi to dst and returns it: at most maxBytes of data in all (0: no limit), but
// at least one entry. Recent ones come from memory and share their Data with the log, older ones are read from disk
// into fresh memory and checked. Errors: ErrCut, ErrUnavailable, ErrCorrupt.
func (l *Log) Entries(dst []Entry, lo, hi, maxBytes uint64) ([]Entry, error) {
	if maxBytes == 0 {
		maxBytes = 1<<64 - 1
	}
	count, bytes := len(dst), uint64(0)
	for next := lo; next < hi; {
		more, done, err := l.some(dst, next, hi, maxBytes-bytes, len(dst) > count)
		if err != nil {
			return dst[:count], err
		}
		for i := len(dst); i < len(more); i++ {
			bytes += uint64(len(more[i].Data))
		}
		next += uint64(len(more) - len(dst))
		dst = more
		if done || bytes >= maxBytes {
			break
		}
	}
	return dst, nil
}

// some appends entries from lo on to dst, from one source: memory, or one read of a segment. done says that maxBytes is
// reached. Unless have is set (dst has one already), it gives
// at least one entry.
func (l *Log) some(dst []Entry, lo, hi, maxBytes uint64, have bool) (out []Entry, done bool, err error) {
	l.mu.RLock()
	if err := l.bounds(lo, hi); err != nil {
		l.mu.RUnlock()
		return dst, true, err
	}
	if len(l.tail) > 0 && l.tail[0].Index <= lo {
		defer l.mu.RUnlock()
		dst, done = take(dst, l.tail[lo-l.tail[0].Index:][:hi-lo], maxBytes, have)
		return dst, done, nil
	}
	if len(l.tail) > 0 {
		hi = min(hi, l.tail[0].Index)
	}
	part := l.locate(lo, hi)
	if part.seg == nil {
		l.mu.RUnlock()
		panic(fmt.Sprintf("oncemq: the log's index has no entry %d of %d to %d", lo, l.base()+1, l.lastIndex()))
	}
	part.seg.inUse.RLock() // so that it isn't closed meanwhile
	l.mu.RUnlock()
	got, err := part.read(lo)
	part.seg.inUse.RUnlock()
	if err != nil {
		return dst, true, l.readError(part.seg.seq, lo, hi, err)
	}
	dst, done = take(dst, got, maxBytes, have)
	return dst, done, nil
}

// bounds checks a range of entries. l.mu is held.
func (l *Log) bounds(lo, hi uint64) error {
	if lo <= l.base() {
		return fmt.Errorf("entries %d to %d: %w; the log begins at %d", lo, hi-1, ErrCut, l.base()+1)
	}
	if hi > l.lastIndex()+1 {
		return fmt.Errorf("entries %d to %d: %w; the log ends at %d", lo, hi-1, ErrUnavailable, l.lastIndex())
	}
	return nil
}

// readError tells an entry that was cut or replaced while it was being read from damage.
func (l *Log) readError(seq, lo, hi uint64, err error) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if e := l.bounds(lo, hi); e != nil {
		return e
	}
	return damaged(LostLog, fmt.Errorf("%w: reading entry %d from log segment %s: %w; the node must not serve from it: keep the directory, and let the node join anew from its peers",
		ErrCorrupt, lo, l.path(seq), err))
}

// take appends entries to dst until maxBytes would be passed; the first one anyway unless have is set.
func take(dst, from []Entry, maxBytes uint64, have bool) (out []Entry, done bool) {
	bytes := uint64(0)
	for i := range from {
		bytes += uint64(len(from[i].Data))
		if bytes > maxBytes && (have || i > 0) {
			return dst, true
		}
		dst = append(dst, from[i])
	}
	return dst, false
}

// part is a run of entries in one segment that is read at once.
type part struct {
	seg    *segment
	end    int64    // of what the segment holds
	starts []uint32 // of the records; the read goes up to the end of the last
}

// readBytes is about how much is read from a segment at once.
const readBytes = 1 << 20

// locate finds where entries from lo on lie, for one read. l.mu is held.
func (l *Log) locate(lo, hi uint64) part {
	for _, seg := range l.live {
		if len(seg.offsets) == 0 || lo < seg.first || lo > seg.last() {
			continue
		}
		starts := seg.offsets[lo-seg.first : min(hi, seg.last()+1)-seg.first]
		k := sort.Search(len(starts), func(i int) bool { return int64(starts[i])-int64(starts[0]) > readBytes })
		return part{seg, seg.end, slices.Clone(starts[:max(k, 1)])}
	}
	return part{}
}

// read reads and checks the entries of a part; lo is the index of the first.
func (p part) read(lo uint64) ([]Entry, error) {
	first, last := int64(p.starts[0]), int64(p.starts[len(p.starts)-1])
	var head [recordHeaderBytes]byte
	if _, err := readFull(p.seg.file, head[:], last); err != nil {
		return nil, err
	}
	end := last + recordBytes(head[:])
	if end > p.end {
		return nil, fmt.Errorf("record at offset %d: bad length", last)
	}
	buf := make([]byte, end-first)
	if _, err := readFull(p.seg.file, buf, first); err != nil {
		return nil, err
	}
	entries := make([]Entry, len(p.starts))
	for i, start := range p.starts {
		var r record
		n := r.decode(buf[int64(start)-first:], p.seg.salt)
		if n == 0 || r.kind != kindEntry || r.index != lo+uint64(i) {
			return nil, fmt.Errorf("record at offset %d: bad checksum or not entry %d", start, lo+uint64(i))
		}
		entries[i] = Entry{Index: r.index, Term: r.term, Type: r.typ, Data: r.data}
	}
	return entries, nil
}
