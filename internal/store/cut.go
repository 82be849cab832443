package store

import (
	"errors"
)

// How far zeros are written ahead of the appends: Prepare begins below lowAhead and goes on up to highAhead, a step at a
// time.
const (
	lowAhead  = 4 << 20
	highAhead = 12 << 20
	zeroStep  = 1 << 20
)

// zeros is what is written ahead, and padding.
var zeros [zeroStep]byte

// Cut recycles the segments whose entries all lie below index; index itself stays readable. Pass at most
// State.DurableIndex()+1, and at most what every peer has. FirstIndex tells what is left; the term of FirstIndex-1 stays
// known. Nothing of the active segment is ever cut.
func (l *Log) Cut(index uint64) error {
	if l.failed != nil {
		return l.failed
	}
	if l.tight.Load() {
		if err := l.giveSpare(); err != nil {
			return err
		}
	}
	for len(l.live) > 1 {
		old := l.live[0]
		if len(old.offsets) > 0 {
			if old.last() >= index {
				return nil
			}
			l.mu.Lock()
			l.rise(old.last())
			l.mu.Unlock()
		}
		if err := l.recycle(); err != nil {
			return l.fail("recycling", old, err)
		}
	}
	return nil
}

// rise makes base the index before the first entry.
func (l *Log) rise(base uint64) {
	term := l.termOf(base)
	l.count -= base - l.base()
	for len(l.terms) > 1 && l.terms[1].from <= base {
		l.terms = append(l.terms[:0], l.terms[1:]...)
	}
	l.terms[0] = termRun{base, term}
	n := 0
	for ; n < len(l.tail) && l.tail[n].Index <= base; n++ {
		l.bytes -= int64(len(l.tail[n].Data)) + entryOverhead
		l.tail[n] = Entry{}
	}
	l.tail = l.tail[n:]
}

// Prepare does one small step (a few milliseconds) of work ahead: it writes zeros before the place where appends will
// come, so that they meet allocated blocks, or readies the next segment. It reports whether a further step would help.
// The append goroutine calls it while it has nothing to append, one step at a time. Leaving it out costs speed only.
func (l *Log) Prepare() (more bool, err error) {
	if l.failed != nil {
		return false, l.failed
	}
	seg, ahead := l.ahead()
	if ahead < min(lowAhead, l.opts.SegmentBytes/2) {
		l.zeroing = true
	}
	if !l.zeroing || l.opts.NoSync || l.tight.Load() || ahead >= min(highAhead, l.opts.SegmentBytes) {
		l.zeroing = false
		return false, nil
	}
	if seg == nil {
		if _, err = l.createSegment(l.opts.SegmentBytes); err != nil {
			if isFull(err) {
				return false, nil // appends say so when they need it
			}
			return false, l.fail("preparing a segment in", nil, err)
		}
		return true, nil
	}
	var sync *syncError
	if err = l.writeZeros(seg, min(seg.zeroed+zeroStep, seg.size)); isFull(err) && !errors.As(err, &sync) {
		l.zeroing = false
		return false, nil
	} else if err != nil {
		return false, l.fail("writing zeros ahead to", seg, err)
	}
	return true, nil
}

// ahead says how many bytes of allocated blocks lie before the appends, and in which segment the next ones are to be
// written: nil where a new segment is needed.
func (l *Log) ahead() (seg *segment, bytes int64) {
	if n := len(l.live); n > 0 && !l.full {
		seg = l.live[n-1]
		bytes = seg.zeroed - seg.end
		if seg.zeroed < seg.size {
			return seg, bytes
		}
	}
	for _, seg := range l.ready {
		bytes += seg.zeroed
		if seg.zeroed < seg.size {
			return seg, bytes
		}
	}
	return nil, bytes
}

// writeZeros makes the blocks of a segment from zeroed up to end really there, and synced: a block that was only reserved
// costs an append's sync a commit of the file system's journal.
func (l *Log) writeZeros(seg *segment, end int64) error {
	end = min(end, seg.size)
	for seg.zeroed < end {
		n := min(end-seg.zeroed, zeroStep)
		if _, err := seg.file.WriteAt(zeros[:n], seg.zeroed); err != nil {
			return err
		}
		seg.zeroed += n
	}
	if l.opts.NoSync {
		return nil
	}
	if err := seg.file.SyncData(); err != nil {
		return &syncError{err}
	}
	return nil
}
