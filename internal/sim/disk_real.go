package sim

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// realDisk is a Disk that holds package store's own log and state, in memory: slower than the twins, but what recovers from
// torn and lost blocks is the product. Log and state have a file system each, since Pebble writes when it likes: of its
// files a crash leaves what is synced, which hangs on the calls alone.
type realDisk struct {
	logFiles   *store.CrashDisk
	stateFiles store.FS
	segment    int64          // bytes of a segment of the log
	open       []func() error // closes what is open, in order
	left       store.Left     // of the last loss of power
	damage     error          // what Pebble found wrong by itself
}

const (
	// realFlushBytes bounds DiskOptions.FlushBytes, so that Pebble has no reason to flush by itself; realFlushLeast does so from
	// below, since each flush makes a table.
	realFlushBytes, realFlushLeast = 128 << 10, 2 << 10
	// realTables is after how many flushes the tables are compacted.
	realTables = 8
)

func newRealDisk(segment int64) *realDisk {
	return &realDisk{logFiles: store.NewCrashDisk(), stateFiles: store.NewMemFS(), segment: segment}
}

// openReal opens both directories.
func (d *Disk) openReal() (replica.Log, replica.State, error) {
	r := d.real
	r.close()
	r.logFiles.Unplug(d.powerGone)
	log, err := r.openLog(store.FaultFS(r.logFiles, d.decide), d.rng.Uint64)
	if err != nil {
		return nil, nil, err
	}
	stateDir, err := store.Open(store.Options{Dir: "/data", FS: r.stateFiles, Node: 1, Random: d.rng.Uint64})
	if err != nil {
		return nil, nil, err
	}
	r.open = append(r.open, stateDir.Close)
	state, err := stateDir.OpenState(store.StateOptions{
		SpillInApply: true, CacheBytes: 256 << 10, MemTableBytes: 1 << 20, Fatal: func(err error) { r.damage = err },
	})
	if err != nil {
		return nil, nil, err
	}
	flushing := &realState{State: state, d: d}
	r.open = append([]func() error{flushing.Close}, r.open...)
	return log, flushing, nil
}

// openLog opens the log, with segments that are full soon.
func (r *realDisk) openLog(files store.FS, random func() uint64) (*store.Log, error) {
	dir, err := store.Open(store.Options{Dir: "/data", FS: files, Node: 1, Random: random})
	if err != nil {
		return nil, err
	}
	r.open = append(r.open, dir.Close)
	log, err := dir.OpenLog(store.LogOptions{SegmentBytes: r.segment, TailBytes: 16 << 10, SpareSegments: 2})
	if err != nil {
		return nil, err
	}
	r.open = append([]func() error{log.Close}, r.open...)
	return log, nil
}

// close ends what is open. Errors are of no interest: the process is gone.
func (r *realDisk) close() {
	for _, c := range r.open {
		_ = c()
	}
	r.open = nil
}

// crash leaves what a loss of power leaves.
func (r *realDisk) crash(d *Disk) {
	past := *r
	r.logFiles, r.left = r.logFiles.Crash(d.rng)
	r.stateFiles = store.CrashFS(r.stateFiles, 0, 0)
	past.close()
	r.open = nil
}

// image is the log that a loss of power would leave at least.
func (r *realDisk) image() (image logImage, err error) {
	offline := realDisk{segment: r.segment}
	defer offline.close()
	files, _ := r.logFiles.Crash(nil)
	log, err := offline.openLog(files, func() uint64 { return 0 })
	if err != nil {
		return image, err
	}
	image.base, image.state = log.FirstIndex()-1, log.HardState()
	if log.LastIndex() > image.base {
		image.entries, err = log.Entries(nil, image.base+1, log.LastIndex()+1, 0)
	}
	return image, err
}

// flip changes a bit of the log, of the stamp or of a table of the state, and says where.
func (r *realDisk) flip(d *Disk) (where string, err error) {
	if d.rng.IntN(4) > 0 {
		name, at := r.logFiles.Flip(d.rng, func(name string) bool {
			return strings.HasSuffix(name, ".seg") || strings.HasSuffix(name, "/STAMP") && d.rng.IntN(8) == 0
		})
		return fmt.Sprintf("byte %d of %s", at, name), nil
	}
	names, err := r.stateFiles.List("/data/state")
	if err != nil {
		return "", err
	}
	var tables []string
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			tables = append(tables, "/data/state/"+name)
		}
	}
	if len(tables) == 0 {
		return "no table", nil
	}
	slices.Sort(tables)
	name := tables[d.rng.IntN(len(tables))]
	at, err := store.FlipBit(r.stateFiles, name, d.rng)
	return fmt.Sprintf("byte %d of %s", at, name), err
}

// decide is what becomes of a write or sync of the log.
func (d *Disk) decide(_ string, bytes int) store.Fault {
	switch {
	case bytes == 0 && d.lying:
		d.lied = true
		return store.Fault{Lie: true}
	case bytes == 0 && d.tearing:
		d.tearing = false
		return store.Fault{Err: syscall.EIO}
	}
	if bytes == 0 {
		return store.Fault{}
	}
	err := d.writeError()
	if err == nil {
		return store.Fault{}
	}
	if errors.Is(err, syscall.ENOSPC) {
		return store.Fault{Err: err, Bytes: d.rng.IntN(min(bytes, 32))} // less than a batch
	}
	if d.rng.IntN(3) > 0 {
		d.tearing = true // the write is done, its sync fails
		return store.Fault{}
	}
	return store.Fault{Err: err, Bytes: d.rng.IntN(2) * d.rng.IntN(bytes)} // a batch is padded: often all that counts is there
}

// realState flushes when the twin would, and compacts now and then.
type realState struct {
	*store.State
	d       *Disk
	bytes   int
	flushes int
	closed  bool
}

// Close implements replica.State. Again it does nothing: the end of the process closes what is open.
func (s *realState) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	return s.State.Close()
}

// Apply implements replica.State.
func (s *realState) Apply(b *store.Batch, applied uint64) error {
	if b != nil {
		s.bytes += b.Len()
	}
	err := s.State.Apply(b, applied)
	if err == nil {
		err = s.d.real.damage
	}
	if err != nil || s.bytes < min(max(s.d.opts.FlushBytes, realFlushLeast), realFlushBytes) {
		return err
	}
	if err := s.Flush(); !errors.Is(err, store.ErrFull) {
		return err
	}
	return nil
}

// Flush implements replica.State.
func (s *realState) Flush() error {
	if s.d.failing || s.d.full {
		return diskError(statePath, s.d.writeError())
	}
	s.bytes = 0
	if err := s.State.Flush(); err != nil {
		return err
	}
	if s.flushes++; s.flushes%realTables == 0 {
		return s.Compact()
	}
	return nil
}

// each calls fn with what every file of log and state holds: for a hash over all that a world has written. Pebble's manifests have
// the time of day in them.
func (r *realDisk) each(fn func(b []byte)) {
	for _, at := range []struct {
		files store.FS
		dir   string
	}{{r.logFiles, "/data"}, {r.logFiles, "/data/log"}, {r.stateFiles, "/data/state"}} {
		names, err := at.files.List(at.dir)
		if err != nil {
			continue
		}
		slices.Sort(names)
		for _, name := range names {
			fn([]byte(name))
			if strings.HasPrefix(name, "MANIFEST") {
				continue
			}
			f, err := at.files.Open(at.files.PathJoin(at.dir, name))
			if err != nil {
				continue
			}
			if b, err := io.ReadAll(f); err == nil {
				fn(b)
			}
			_ = f.Close()
		}
	}
}
