package sim

import (
	"errors"
	"syscall"

	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// realDisk is a Disk that holds package store's own log and state, on file systems in memory: slower than the twins, but
// what recovers from torn and lost blocks is the product. Log and state have a file system each, since Pebble writes when it
// likes: of its files a crash leaves what is synced, which hangs on the calls alone.
type realDisk struct {
	logFiles, stateFiles store.FS
	open                 []func() error // closes what is open, in order
}

// realFlushBytes bounds DiskOptions.FlushBytes, so that Pebble has no reason to flush by itself.
const realFlushBytes = 128 << 10

// openReal opens both directories.
func (d *Disk) openReal() (replica.Log, replica.State, error) {
	r := d.real
	r.close()
	logDir, err := store.Open(store.Options{Dir: "/data", FS: store.FaultFS(r.logFiles, d.decide), Node: 1})
	if err != nil {
		return nil, nil, err
	}
	r.open = append(r.open, logDir.Close)
	log, err := logDir.OpenLog(store.LogOptions{SegmentBytes: 64 << 10})
	if err != nil {
		return nil, nil, err
	}
	r.open = append([]func() error{log.Close}, r.open...)
	stateDir, err := store.Open(store.Options{Dir: "/data", FS: r.stateFiles, Node: 1})
	if err != nil {
		return nil, nil, err
	}
	r.open = append(r.open, stateDir.Close)
	state, err := stateDir.OpenState(store.StateOptions{SpillInApply: true, CacheBytes: 1 << 20})
	if err != nil {
		return nil, nil, err
	}
	flushing := &realState{State: state, d: d}
	r.open = append([]func() error{flushing.Close}, r.open...)
	return log, flushing, nil
}

// close ends what is open. Errors are of no interest: the process is gone.
func (r *realDisk) close() {
	for _, c := range r.open {
		_ = c()
	}
	r.open = nil
}

// crash leaves what a loss of power leaves: of the log's unsynced blocks all or none, for CrashFS chooses among them in the
// order of a map. A write that fails leaves torn ones.
func (r *realDisk) crash(d *Disk) {
	past := *r
	r.logFiles = store.CrashFS(r.logFiles, 0, 100*d.rng.IntN(2))
	r.stateFiles = store.CrashFS(r.stateFiles, 0, 0)
	past.close()
	r.open = nil
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
		return store.Fault{Err: err}
	}
	if d.rng.IntN(3) == 0 {
		d.tearing = true // the write is done, its sync fails
		return store.Fault{}
	}
	return store.Fault{Err: err, Bytes: d.rng.IntN(2) * d.rng.IntN(bytes)} // a batch is padded: often all that counts is there
}

// realState flushes when the twin would.
type realState struct {
	*store.State
	d      *Disk
	bytes  int
	closed bool
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
	if err := s.State.Apply(b, applied); err != nil || s.bytes < min(s.d.opts.FlushBytes, realFlushBytes) {
		return err
	}
	return s.Flush()
}

// Flush implements replica.State.
func (s *realState) Flush() error {
	if s.d.failing || s.d.full {
		return diskError(statePath, s.d.writeError())
	}
	s.bytes = 0
	return s.State.Flush()
}
