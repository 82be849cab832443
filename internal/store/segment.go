package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/oncemq/oncemq/internal/mutant"
)

// segment is one file of the log. Its number never comes again; a recycled file gets a new one.
type segment struct {
	seq  uint64
	salt uint32
	file vfs.File
	// inUse is read-locked while somebody reads the file outside Log.mu, and locked to close it.
	inUse *sync.RWMutex

	size   int64 // appends stop here
	zeroed int64 // up to here the file's blocks were written before, so that overwriting them is quick
	end    int64 // where the next batch goes; 0 in a segment that nothing was appended to

	// first is the index of the first of offsets; offsets[i] is where the record of entry first+i begins. Only entries
	// that were not replaced by a later append. Guarded by Log.mu.
	first   uint64
	offsets []uint32
}

// last is the index of the segment's last entry, first-1 where it has none.
func (s *segment) last() uint64 { return s.first + uint64(len(s.offsets)) - 1 }

// segmentName is the name of a segment's file.
func segmentName(seq uint64) string { return fmt.Sprintf("%016x.seg", seq) }

// parseSegmentName is its inverse; ok is false for any other name.
func parseSegmentName(name string) (seq uint64, ok bool) {
	if _, err := fmt.Sscanf(name, "%016x.seg", &seq); err != nil || segmentName(seq) != name {
		return 0, false
	}
	return seq, true
}

// openSegment opens the file of a segment, or makes it.
func (l *Log) openSegment(seq uint64) (*segment, error) {
	f, err := l.fs.OpenReadWrite(l.path(seq), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &segment{
		seq: seq, salt: salt(l.dir.key, seq), file: f, inUse: new(sync.RWMutex), size: max(l.opts.SegmentBytes, roundUp(info.Size())),
		zeroed: info.Size() &^ (blockBytes - 1),
	}, nil
}

// createSegment makes the file of a new segment behind all others, and its name durable. Space is reserved, for a smaller
// segment where there is not enough, but for least bytes; writing zeros ahead is Prepare's. An error of want of room leaves nothing.
func (l *Log) createSegment(least int64) (*segment, error) {
	seg, err := l.openSegment(l.nextSeq())
	if err != nil {
		return nil, err
	}
	err = seg.file.Preallocate(0, seg.size)
	for err != nil && isFull(err) && seg.size/2 >= least {
		seg.size = roundUp(seg.size / 2)
		err = seg.file.Preallocate(0, seg.size)
	}
	if err != nil && !unsupported(err) {
		// What it could reserve would be in the way of everything else.
		return nil, errors.Join(fmt.Errorf("reserving %d bytes: %w", seg.size, err), seg.file.Close(), l.fs.Remove(l.path(seg.seq)))
	}
	if mutant.On(mutant.NameNotSynced) {
		l.ready = append(l.ready, seg)
		return seg, nil
	}
	if err = syncDir(l.fs, l.dirPath); err != nil {
		seg.file.Close()
		return nil, &syncError{err}
	}
	l.ready = append(l.ready, seg)
	return seg, nil
}

// recycle gives the oldest segment's file a new number behind all others, or removes it where there are enough. One
// rename and one sync of the directory, so that after a crash the numbers have no gap.
func (l *Log) recycle() error {
	l.mu.Lock()
	old := l.live[0]
	l.live = append(l.live[:0], l.live[1:]...)
	l.mu.Unlock()

	if len(l.ready) >= l.spare() || old.size != l.opts.SegmentBytes {
		old.inUse.Lock() // until the last reader is gone
		err := old.file.Close()
		old.inUse.Unlock()
		if err == nil {
			err = l.fs.Remove(l.path(old.seq))
		}
		if err == nil {
			err = syncDir(l.fs, l.dirPath)
		}
		return err
	}
	seq := l.nextSeq()
	if err := l.fs.Rename(l.path(old.seq), l.path(seq)); err != nil {
		return err
	}
	if err := syncDir(l.fs, l.dirPath); err != nil {
		return err
	}
	// A reader may still hold old and read the file: the new number is in every checksum, so it can't take a new record
	// for an old one.
	l.ready = append(l.ready, &segment{
		seq: seq, salt: salt(l.dir.key, seq), file: old.file, inUse: old.inUse,
		size: old.size, zeroed: max(old.zeroed, old.end),
	})
	return nil
}

// spare is how many segments are kept ready.
func (l *Log) spare() int {
	if l.tight.Load() {
		return 1
	}
	return l.opts.SpareSegments
}

// giveSpare removes the segments that are ready beyond those to be kept, the newest first, so that the numbers have no gap.
func (l *Log) giveSpare() error {
	gone := false
	for n := len(l.ready); n > l.spare(); n = len(l.ready) {
		seg := l.ready[n-1]
		seg.inUse.Lock()
		err := seg.file.Close()
		seg.inUse.Unlock()
		if err == nil {
			err = l.fs.Remove(l.path(seg.seq))
		}
		if err != nil {
			return l.fail("removing", seg, err)
		}
		l.ready, gone = l.ready[:n-1], true
	}
	if gone {
		if err := syncDir(l.fs, l.dirPath); err != nil {
			return l.fail("removing segments from", nil, err)
		}
	}
	return nil
}

// nextSeq is the number of the next new segment.
func (l *Log) nextSeq() uint64 {
	if n := len(l.ready); n > 0 {
		return l.ready[n-1].seq + 1
	}
	return l.lastSeq + 1
}

// path is the path of a segment's file.
func (l *Log) path(seq uint64) string { return l.fs.PathJoin(l.dirPath, segmentName(seq)) }
