package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/oncemq/oncemq/internal/mutant"
)

// Entry is one raft entry. Entries of one append are consecutive.
type Entry struct {
	// Index and Term are raft's.
	Index, Term uint64
	// Type is raft's entry type (0 normal, 1 configuration change, 2 configuration change v2); the log only keeps it.
	Type uint8
	// Data belongs to the log once appended, and to it and its other readers when it came out of it: never modify it.
	Data []byte
}

// HardState is raft's: what must survive a crash beside the entries. The zero value means "unchanged" in an Append.
type HardState struct {
	// Term is the highest term seen, Vote the node voted for in it (0: none), Commit the highest index known committed.
	Term, Vote, Commit uint64
}

// Append is what one call of Log.Append writes.
type Append struct {
	// Group is the raft group; only the group the log was opened for is accepted.
	Group uint16
	// State is the new hard state, or zero where it has not changed.
	State HardState
	// Entries are consecutive. The first may lie at or below LastIndex: then everything from there on is replaced.
	Entries []Entry
	// Commit: a State that differs in Commit alone is written and synced too, without entries.
	Commit bool
}

// LogOptions tunes a Log. The zero value is usable.
type LogOptions struct {
	// Group is the raft group that the log holds.
	Group uint16
	// SegmentBytes is the size of a segment file, 64 MiB where 0; at least 16 KiB, at most 1 GiB. An append that is larger
	// gets a larger file.
	SegmentBytes int64
	// TailBytes is how much of the newest entries is kept in memory, 8 MiB where 0.
	TailBytes int64
	// SpareSegments is how many recycled segments are kept for reuse, 4 where 0; more are deleted.
	SpareSegments int
	// NoSync leaves out every sync: for a directory marked "safety off", where it is always set, and for tests.
	NoSync bool
}

// Log is the segmented log of one raft group on disk. One goroutine calls Append, Cut, Prepare and Close; the reading
// methods may be called by any goroutine at any time.
type Log struct {
	dir     *Dir
	fs      FS
	dirPath string
	opts    LogOptions

	// Of the appending goroutine:
	ready   []*segment // made or recycled, not begun; numbered on from lastSeq
	lastSeq uint64     // number of the active segment, 0 before the first
	full    bool       // the active segment takes no more
	mark    position   // everything below is known synced
	prev    uint32     // checksum of the last batch header
	written HardState  // what the last state record says
	buf     []byte     // the batch being encoded
	starts  []uint32   // where its entries begin, in the batch
	vote    [8]byte    // scratch
	zeroing bool       // Prepare is catching up
	tight   atomic.Bool
	failed  error // the ErrDisk that ended it all

	mu    sync.RWMutex
	live  []*segment // guarded by mu: begun, oldest first; the last is the active one
	index            // guarded by mu
}

// OpenLog opens or creates the log of the directory and reads it through. Damage is ErrCorrupt; a torn or missing tail
// that was never acknowledged is dropped. Open a directory's log only once.
func (d *Dir) OpenLog(opts LogOptions) (*Log, error) {
	if err := opts.setDefaults(); err != nil {
		return nil, err
	}
	opts.NoSync = opts.NoSync || d.Stamp().SafetyOff
	l := &Log{dir: d, fs: d.fs, dirPath: d.fs.PathJoin(d.base(), logName), opts: opts}
	if err := l.recover(); err != nil {
		l.closeFiles()
		return nil, err
	}
	return l, nil
}

func (o *LogOptions) setDefaults() error {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.SegmentBytes < 16<<10 || o.SegmentBytes > 1<<30 {
		return fmt.Errorf("oncemq: log segments of %d bytes: 16 KiB to 1 GiB are possible", o.SegmentBytes)
	}
	o.SegmentBytes = roundUp(o.SegmentBytes)
	if o.TailBytes == 0 {
		o.TailBytes = 8 << 20
	}
	if o.SpareSegments == 0 {
		o.SpareSegments = 4
	}
	return nil
}

// Append writes entries and hard state in one write and one sync and returns when both are done: nil means "on disk".
// A hard state that differs in Commit alone, without entries (and without Append.Commit), is remembered and written with the next append, without a
// write of its own (raft needs no more). Entry data is kept, not copied. An error is ErrFull, and then
// the next append has to be this same one, or ErrDisk; a caller that breaks raft's rules (a gap, a suffix replaced below
// FirstIndex, another group) panics.
func (l *Log) Append(a Append) error {
	if l.failed != nil {
		return l.failed
	}
	l.checkAppend(a)
	state := a.State
	if state == (HardState{}) {
		state = l.index.state
	}
	if len(a.Entries) == 0 && state.Term == l.written.Term && state.Vote == l.written.Vote && !a.Commit {
		l.mu.Lock()
		l.index.state = state
		l.mu.Unlock()
		return nil
	}
	seg, err := l.write(a, state)
	if err != nil {
		var sync *syncError
		if isFull(err) && !errors.As(err, &sync) {
			return fmt.Errorf("%w: appending to %s: %w", ErrFull, l.dirPath, err)
		}
		return l.fail("appending to", seg, err)
	}
	l.mu.Lock()
	l.index.state = state
	if len(a.Entries) > 0 {
		l.truncate(a.Entries[0].Index - 1)
		for i := range a.Entries {
			l.push(seg, &a.Entries[i], l.starts[i])
		}
		l.keepTail(a.Entries, l.opts.TailBytes)
	}
	l.mu.Unlock()
	return nil
}

// checkAppend panics where raft's rules are broken. It reads the index without its lock: only this goroutine writes it.
func (l *Log) checkAppend(a Append) {
	if a.Group != l.opts.Group {
		panic(fmt.Sprintf("oncemq: append of group %d to the log of group %d", a.Group, l.opts.Group))
	}
	for i := range a.Entries {
		if a.Entries[i].Index != a.Entries[0].Index+uint64(i) {
			panic(fmt.Sprintf("oncemq: append of entry %d behind %d", a.Entries[i].Index, a.Entries[i-1].Index))
		}
	}
	if len(a.Entries) > 0 {
		if i := a.Entries[0].Index; i > l.lastIndex()+1 || i <= l.base() {
			panic(fmt.Sprintf("oncemq: append of entry %d to a log of %d to %d", i, l.base()+1, l.lastIndex()))
		}
	}
}

// syncError is a sync that failed: what it was for may be lost, whatever the reason (C14).
type syncError struct{ error }

// Unwrap is its cause.
func (e *syncError) Unwrap() error { return e.error }

// write encodes a batch, finds the segment for it, writes and syncs it.
func (l *Log) write(a Append, state HardState) (*segment, error) {
	var seg *segment
	if n := len(l.live); n > 0 && !l.full {
		seg = l.live[n-1]
		l.encode(seg, a, state, false)
		if seg.end+int64(len(l.buf)) > seg.size {
			seg = nil
		}
	}
	begin := seg == nil
	if begin {
		var err error
		if seg, err = l.nextSegment(); err != nil {
			return seg, err
		}
		l.encode(seg, a, state, true)
		seg.size = max(seg.size, int64(len(l.buf)))
	}
	offset := seg.end
	if _, err := seg.file.WriteAt(l.buf, offset); err != nil {
		return seg, err
	}
	if !l.opts.NoSync && !mutant.On(mutant.NoSync) {
		err := seg.file.SyncData()
		if err != nil && mutant.On(mutant.SyncAgain) {
			err = seg.file.SyncData()
		}
		if err != nil {
			return seg, &syncError{err}
		}
	}
	l.written = state
	l.prev = batchCRC(l.buf, begin)
	for i := range l.starts {
		l.starts[i] += uint32(offset)
	}
	l.mu.Lock()
	seg.end = offset + int64(len(l.buf))
	if begin {
		l.live = append(l.live, seg)
	}
	l.mu.Unlock()
	if begin {
		l.ready = append(l.ready[:0], l.ready[1:]...)
		l.lastSeq, l.full = seg.seq, false
	}
	seg.zeroed = max(seg.zeroed, seg.end)
	if !l.opts.NoSync {
		l.mark = position{seg.seq, uint32(seg.end)}
	}
	if cap(l.buf) > 4<<20 {
		l.buf = nil // one huge append is no reason to hold its memory
	}
	return seg, nil
}

// leastSegment is the size of the smallest segment that is made on a disk that is nearly full.
const leastSegment = 256 << 10

// Tight says whether there is little room on the disk: no more space is set aside then than must be, and Cut gives back what
// was. May be called by any goroutine.
func (l *Log) Tight(on bool) { l.tight.Store(on) }

// nextSegment is the segment to begin now: the one made ready, or one made on the spot.
func (l *Log) nextSegment() (*segment, error) {
	if len(l.ready) > 0 {
		return l.ready[0], nil
	}
	return l.createSegment(min(leastSegment, l.opts.SegmentBytes))
}

// fail makes the first failure final.
func (l *Log) fail(doing string, seg *segment, err error) error {
	path := l.dirPath
	if seg != nil {
		path = l.path(seg.seq)
	}
	l.failed = fmt.Errorf("%w: %s %s: %w; the node has to stop: what the disk holds is unknown", ErrDisk, doing, path, err)
	return l.failed
}

// Close syncs and closes the files. No other method may be running.
func (l *Log) Close() error {
	var err error
	if l.opts.NoSync && l.failed == nil {
		for _, seg := range l.live {
			if e := seg.file.SyncData(); e != nil && err == nil {
				err = l.fail("syncing", seg, e)
			}
		}
	}
	if e := l.closeFiles(); err == nil && e != nil {
		err = l.fail("closing", nil, e)
	}
	return err
}

func (l *Log) closeFiles() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	for _, segs := range [][]*segment{l.live, l.ready} {
		for _, seg := range segs {
			seg.inUse.Lock()
			if e := seg.file.Close(); err == nil {
				err = e
			}
			seg.inUse.Unlock()
		}
	}
	l.live, l.ready = nil, nil
	return err
}
