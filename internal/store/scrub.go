package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A scrub reads what lies on the disk and nobody asks for, so that damage is found while other nodes have what is lost by it (C14). It
// reads beside the work: what is cut, recycled or compacted away meanwhile is passed over, and only what is still in use after it could not
// be read is damage.

// Pace is asked before so many bytes are read, at most about 1 MiB; it may wait. An error ends the scrub, which returns it.
type Pace func(bytes int) error

// Scrub reads all of the log once, from its first segment in use on, and checks every checksum. Damage is ErrCorrupt. It may be called by
// any goroutine, and stands in nobody's way but that of a file's removal, for one read.
func (l *Log) Scrub(pace Pace) error {
	l.mu.RLock()
	var seqs []uint64
	for _, seg := range l.live {
		seqs = append(seqs, seg.seq)
	}
	l.mu.RUnlock()
	var buf []byte
	for _, seq := range seqs {
		for offset := int64(0); offset >= 0; {
			if err := pace(windowBytes); err != nil {
				return err
			}
			var err error
			if offset, buf, err = l.scrubSome(seq, offset, buf); err != nil {
				return err
			}
		}
	}
	return nil
}

// use finds a segment in use and keeps its file open until inUse is unlocked; nil: it isn't in use any more. end is how much of it was
// appended to.
func (l *Log) use(seq uint64) (seg *segment, end int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, seg := range l.live {
		if seg.seq == seq {
			seg.inUse.RLock()
			return seg, seg.end
		}
	}
	return nil, 0
}

// scrubSome checks batches from offset on, about as many as are read at once, and returns the offset behind them: -1 at the end.
func (l *Log) scrubSome(seq uint64, offset int64, buf []byte) (next int64, _ []byte, err error) {
	seg, end := l.use(seq)
	if seg == nil {
		return -1, buf, nil
	}
	dropCached(seg.file, offset, windowBytes)
	w := window{file: seg.file, buf: buf}
	bad := int64(-1)
	for next = offset; next < end && next < offset+windowBytes; {
		var n int64
		if n, err = w.scrubBatch(seg, next); n == 0 {
			bad = next
			break
		}
		next += n
	}
	seg.inUse.RUnlock()
	if bad >= 0 {
		if now, _ := l.use(seq); now == nil {
			return -1, w.buf, nil // it was cut, and overwritten while it was read
		}
		seg.inUse.RUnlock()
		if err == nil {
			err = errors.New("bad checksum")
		}
		return bad, w.buf, damaged(LostLog, fmt.Errorf("%w: log segment %s at offset %d: %w; it was read on trial", ErrCorrupt, l.path(seq), bad, err))
	}
	if next >= end {
		next = -1
	}
	return next, w.buf, nil
}

// scrubBatch checks what lies at offset, the header or a batch, and returns how many bytes it takes with its padding; 0 where it is
// damaged.
func (w *window) scrubBatch(seg *segment, offset int64) (int64, error) {
	if offset == 0 {
		block, err := w.at(0, blockBytes)
		var h segmentHeader
		if err != nil || !h.decode(block) || h.seq != seg.seq {
			return 0, err
		}
		return blockBytes, nil
	}
	h, body, err := w.batch(seg.seq, seg.salt, offset)
	if err != nil || body == nil {
		return 0, err
	}
	return roundUp(batchHeaderBytes + int64(h.length)), nil
}

// Scrub reads every block of every table of the state once, and its manifests, and checks every checksum. Damage is ErrCorrupt. It may be
// called by any goroutine; the state must not be closed meanwhile.
func (s *State) Scrub(pace Pace) error {
	tables, err := usedTables(s.db)
	if err != nil {
		return fmt.Errorf("listing the tables in %s: %w", s.path, err)
	}
	var stopped error
	paced := func(bytes int) error {
		stopped = pace(bytes)
		return stopped
	}
	options := StateOptions{}.pebble(s.fs, s.path).MakeReaderOptions()
	for _, name := range tables {
		path := s.fs.PathJoin(s.path, name)
		err := guarded(func() error { return verifyTable(s.fs, path, options, paced) })
		switch {
		case stopped != nil:
			return stopped
		case err == nil:
			continue
		}
		if still, e := usedTables(s.db); e != nil || !slices.Contains(still, name) {
			continue // it was compacted away
		}
		return damaged(LostState, fmt.Errorf("%w: table %s: %w; it was read on trial", ErrCorrupt, path, err))
	}
	return s.scrubManifests(paced)
}

// scrubManifests reads Pebble's lists of tables. The last record of one may be being written, and one may be removed: what is wrong has to
// be so twice.
func (s *State) scrubManifests(pace Pace) error {
	names, err := s.fs.List(s.path)
	if err != nil {
		return fmt.Errorf("listing %s: %w", s.path, err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "MANIFEST-") {
			continue
		}
		path := s.fs.PathJoin(s.path, name)
		var at int64
		for range 2 {
			if err := pace(windowBytes); err != nil {
				return err
			}
			if at, err = verifyManifest(s.fs, path); err == nil || errors.Is(err, fs.ErrNotExist) {
				err = nil
				break
			}
		}
		if err != nil {
			return damaged(LostState, fmt.Errorf("%w: %s at offset %d: %w; it was read on trial", ErrCorrupt, path, at, err))
		}
	}
	return nil
}

// SizeBytes is about what the state's files hold.
func (s *State) SizeBytes() int64 { return int64(s.db.Metrics().DiskSpaceUsage()) }

// pacedFile is a file whose reads are paced, and come from the disk.
type pacedFile struct {
	vfs.File
	pace Pace
}

// ReadAt implements io.ReaderAt.
func (f *pacedFile) ReadAt(b []byte, offset int64) (int, error) {
	if err := f.pace(len(b)); err != nil {
		return 0, err
	}
	dropCached(f.File, offset, int64(len(b)))
	return f.File.ReadAt(b, offset)
}
