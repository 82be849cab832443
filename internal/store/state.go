package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/oncemq/oncemq/internal/mutant"
)

// StateOptions tunes a State. The zero value is usable.
type StateOptions struct {
	// Group is the raft group whose applied index is kept.
	Group uint16
	// CacheBytes is the size of the block cache, 8 MiB where 0.
	CacheBytes int64
	// MemTableBytes is the size at which a memtable is flushed, 64 MiB where 0. The first ones are smaller (256 KiB,
	// doubling), so that an idle node needs little.
	MemTableBytes uint64
	// SpillInApply has Apply write a full buffer to Pebble itself, instead of a goroutine: slower, but what a crash leaves then
	// hangs on the calls alone; and nothing is compacted but by Compact. For simulators, with a MemTableBytes that is never reached.
	SpillInApply bool
	cache        *pebble.Cache // of several states, for tests; nil: one of its own

	// Logf takes Pebble's information and error lines; nil drops them.
	Logf func(format string, args ...any)
	// Wait is called, from any goroutine, by a write that finds no room on the disk, with the error; it returns true when
	// the write is to be tried again, and false where the process is about to end: the write then never returns, and Close leaves
	// everything open. Nil: such a write fails like any other.
	Wait func(err error) (again bool)
	// Fatal is called, from a goroutine of Pebble's, when a flush or compaction failed or a table turned out damaged; it
	// has to end the process. The error wraps ErrDisk or ErrCorrupt. Nil panics.
	Fatal func(error)
}

// State is the replicated state on disk: keys and values in Pebble, without its write-ahead log, behind a buffer of the
// last changes. One goroutine calls Apply; everything else may be called by any goroutine.
//
// A key's first two bytes are its group's id, big-endian; 0xFFFF is the store's own. What follows is the business of
// package state.
type State struct {
	db       *pebble.DB
	path     string
	fs       FS
	group    uint16
	inMemory atomic.Uint64 // the applied index

	mu      sync.RWMutex
	buffer  *buffer // what is applied and not on its way to Pebble; guarded by mu
	written uint64  // the applied index that Pebble has, or is given by spilling; guarded by mu
	// spilling is the buffer that a goroutine writes to Pebble, nil while there is none; it isn't changed any more. Guarded by mu.
	spilling *buffer
	spilled  sync.Cond // on mu: spilling has become nil
	empty    *buffer   // for reuse; guarded by mu
	err      error     // of a spill that failed: the state is over; guarded by mu
	closed   bool      // guarded by mu
	scratch  *pebble.Batch
	inApply  bool    // StateOptions.SpillInApply
	room     *waitFS // nil: writes that find no room fail
	over     bool    // somebody has given up waiting for room: the process is about to end; guarded by mu
}

// OpenState opens or creates the state of the directory. Errors: ErrCorrupt, ErrVersion.
func (d *Dir) OpenState(opts StateOptions) (*State, error) {
	s := &State{path: d.fs.PathJoin(d.base(), stateName), fs: d.fs, group: opts.Group, inApply: opts.SpillInApply}
	if err := d.fs.MkdirAll(s.path, 0o700); err != nil {
		return nil, fmt.Errorf("making the state directory %s: %w", s.path, err)
	}
	if err := syncDir(d.fs, d.base()); err != nil {
		return nil, fmt.Errorf("%w: syncing %s: %w", ErrDisk, d.base(), err)
	}
	files := d.fs
	if opts.Wait != nil {
		s.room = &waitFS{FS: d.fs, dir: s.path + string(filepath.Separator), wait: opts.Wait, changed: make(chan struct{})}
		files = s.room
	}
	db, err := pebble.Open(s.path, opts.pebble(files, s.path))
	if err != nil {
		return nil, s.openError(err)
	}
	if err := s.begin(db); err != nil {
		return nil, err
	}
	if s.room != nil {
		s.room.start(s.giveUp)
	}
	return s, nil
}

// begin takes an opened database; on an error it is closed.
func (s *State) begin(db *pebble.DB) error {
	s.db, s.scratch, s.buffer, s.empty = db, db.NewBatch(), newBuffer(), newBuffer()
	s.spilled.L = &s.mu
	applied, err := s.readApplied(&pebble.IterOptions{})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	s.inMemory.Store(applied)
	s.written = applied
	return nil
}

// openError says what a failure to open means: damage, but where the system says that it is something else.
func (s *State) openError(err error) error {
	var errno syscall.Errno
	switch {
	case strings.Contains(err.Error(), "unknown format major version"):
		return fmt.Errorf("%w: opening the state in %s: %w; run a newer version", ErrVersion, s.path, err)
	case errors.As(err, &errno) && errno != syscall.ENOENT && !pebble.IsCorruptionError(err):
		return fmt.Errorf("opening the state in %s: %w", s.path, err)
	}
	return damaged(LostState, fmt.Errorf("%w: opening the state in %s: %w; the node must not serve from it", ErrCorrupt, s.path, err))
}

// Apply takes the batch and the applied index as one, without a sync, and empties the batch for reuse. applied must be
// higher than before, or it panics (a batch may hold the changes of several entries). A nil batch moves the applied index
// alone. An error is ErrDisk, perhaps of changes that were applied earlier.
func (s *State) Apply(b *Batch, applied uint64) error {
	if before := s.inMemory.Load(); applied <= before {
		panic(fmt.Sprintf("oncemq: entry %d applied after entry %d", applied, before))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if b == nil {
		s.inMemory.Store(applied)
		return nil
	}
	b.each(func(kind operationKind, key, value []byte) {
		switch kind {
		case opDelete:
			s.buffer.remove(key)
		case opDeleteRange:
			s.buffer.removeRange(key, value)
		default:
			s.buffer.put(key, value, kind == opInsert)
		}
	})
	b.Reset()
	s.inMemory.Store(applied)
	if s.buffer.full() {
		s.spill()
	}
	return s.err
}

// spill has the buffer written to Pebble, with the applied index that it belongs to, while Apply goes on with another; where
// the last one is still being written it waits for that. Called with mu held.
func (s *State) spill() {
	for s.spilling != nil && !s.over {
		s.spilled.Wait()
	}
	if s.over && s.err == nil {
		s.err = fmt.Errorf("%w: the state in %s; what is not flushed comes again from the log", ErrFull, s.path)
	}
	if s.written == s.inMemory.Load() || s.err != nil {
		return
	}
	if s.inApply {
		s.written = s.inMemory.Load()
		s.err = s.commit(s.written, s.buffer.write(s.scratch))
		s.buffer.reset()
		return
	}
	s.spilling, s.buffer, s.empty = s.buffer, s.empty, nil
	s.written = s.inMemory.Load()
	go s.write(s.spilling, s.written)
}

// write is the goroutine of a spill.
func (s *State) write(b *buffer, applied uint64) {
	err := s.commit(applied, b.write(s.scratch))
	s.mu.Lock()
	defer s.mu.Unlock()
	b.reset()
	s.spilling, s.empty = nil, b
	s.err = err
	s.spilled.Broadcast()
}

// spillAll returns when everything that was applied is in Pebble. Called with mu held.
func (s *State) spillAll() error {
	s.spill()
	for s.spilling != nil && !s.over {
		s.spilled.Wait()
	}
	return s.err
}

// giveUp lets go whoever waits for a spill, since nothing more is written.
func (s *State) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.spilled.Broadcast()
}

// commit writes scratch with the applied index, unless err says that it is broken.
func (s *State) commit(applied uint64, err error) error {
	var key [appliedKeyBytes]byte
	var value [8]byte
	binary.BigEndian.PutUint64(value[:], applied)
	if err == nil && mutant.On(mutant.IndexApart) {
		err = s.db.Set(appendAppliedKey(key[:0], s.group), value[:], pebble.NoSync)
	}
	if err == nil {
		err = s.scratch.Set(appendAppliedKey(key[:0], s.group), value[:], nil)
	}
	if err == nil {
		err = s.scratch.Commit(pebble.NoSync)
	}
	if err != nil {
		return fmt.Errorf("%w: applying entry %d to the state in %s: %w; the node has to stop", ErrDisk, applied, s.path, err)
	}
	s.scratch.Reset()
	return nil
}

// Get appends the value of key to dst. ok is false where there is no such key.
func (s *State) Get(key, dst []byte) (value []byte, ok bool, err error) {
	s.mu.RLock()
	v, exists, known := s.buffer.get(key)
	if !known && s.spilling != nil {
		v, exists, known = s.spilling.get(key)
	}
	dst = append(dst, v...)
	s.mu.RUnlock()
	if known {
		return dst, exists, nil
	}
	v, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, s.readError(err)
	}
	dst = append(dst, v...)
	closer.Close()
	return dst, true, nil
}

// Iterate calls fn for every key with the prefix, in order, until fn returns false. key and value are borrowed for the
// call. It sees the state as of its beginning.
func (s *State) Iterate(prefix []byte, fn func(key, value []byte) bool) error {
	return s.IterateRange(prefix, prefixEnd(prefix), fn)
}

// IterateRange is Iterate for start <= key < end; a nil end is behind everything.
func (s *State) IterateRange(start, end []byte, fn func(key, value []byte) bool) error {
	s.mu.Lock()
	err := s.spillAll()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return s.readError(err)
	}
	for ok := it.First(); ok && fn(it.Key(), it.Value()); {
		ok = it.Next()
	}
	if err = errors.Join(it.Error(), it.Close()); err != nil {
		return s.readError(err)
	}
	return nil
}

// prefixEnd is the first key behind all that have the prefix, nil where there is none.
func prefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for n := len(end); n > 0; n-- {
		if end[n-1]++; end[n-1] != 0 {
			return end[:n]
		}
	}
	return nil
}

// Report describes the tables on disk for a human reader; it is empty after Close.
func (s *State) Report() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ""
	}
	return s.db.Metrics().String()
}

// Path is the directory of the state.
func (s *State) Path() string { return s.path }

// AppliedIndex is the index of the last Apply, from memory; after OpenState, the index the log is to be replayed from.
func (s *State) AppliedIndex() uint64 { return s.inMemory.Load() }

// DurableIndex is the applied index read back from what is flushed and synced [6.2]; 0 where nothing is.
func (s *State) DurableIndex() (uint64, error) {
	return s.readApplied(&pebble.IterOptions{OnlyReadGuaranteedDurable: true})
}

// readApplied reads the applied index.
func (s *State) readApplied(opts *pebble.IterOptions) (uint64, error) {
	opts.LowerBound = appendAppliedKey(nil, s.group)
	opts.UpperBound = append(bytes.Clone(opts.LowerBound), 0)
	it, err := s.db.NewIter(opts)
	if err != nil {
		return 0, s.readError(err)
	}
	applied := uint64(0)
	if it.First() {
		if v := it.Value(); len(v) == 8 {
			applied = binary.BigEndian.Uint64(v)
		} else {
			err = damaged(LostState, fmt.Errorf("%w: the applied index in %s has %d bytes", ErrCorrupt, s.path, len(v)))
		}
	}
	if e := errors.Join(it.Error(), it.Close()); e != nil {
		return 0, s.readError(e)
	}
	return applied, err
}

// readError says what a failed read means.
func (s *State) readError(err error) error {
	return damaged(LostState, fmt.Errorf("%w: reading the state in %s: %w; the node must not serve from it", ErrCorrupt, s.path, err))
}

// Flush writes the buffer and the memtable out and returns when they are on disk: DurableIndex has then reached the
// AppliedIndex of the call.
//
// ErrFull: there is no room for it now; it is done when there is, without another call.
func (s *State) Flush() error {
	if full, _ := s.room.full(); full {
		return s.fullError()
	}
	s.mu.Lock()
	err := s.spillAll()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	done, err := s.db.AsyncFlush()
	if err != nil {
		return fmt.Errorf("%w: flushing the state in %s: %w; the node has to stop", ErrDisk, s.path, err)
	}
	for {
		full, changed := s.room.full()
		if full {
			return s.fullError()
		}
		select {
		case <-done:
			return nil
		case <-changed:
		}
	}
}

func (s *State) fullError() error {
	return fmt.Errorf("%w: flushing the state in %s", ErrFull, s.path)
}

// Compact merges the tables: for a state that doesn't do so by itself (StateOptions.SpillInApply).
func (s *State) Compact() error {
	if err := s.db.Compact(context.Background(), []byte{}, bytes.Repeat([]byte{0xFF}, 16), false); err != nil {
		return fmt.Errorf("%w: compacting the state in %s: %w; the node has to stop", ErrDisk, s.path, err)
	}
	return nil
}

// Close closes the state without flushing: what is not flushed comes again from the log. Call Flush first for a quick
// start. While a write waits for room nothing can be closed: then all stays open, for the end of the process, and for no other
// Open in it.
func (s *State) Close() error {
	closed := make(chan error, 1)
	go func() {
		s.mu.Lock()
		for s.spilling != nil {
			s.spilled.Wait()
		}
		s.closed = true
		s.mu.Unlock()
		closed <- errors.Join(s.scratch.Close(), s.db.Close())
	}()
	for {
		full, changed := s.room.full()
		if full {
			return nil
		}
		select {
		case err := <-closed:
			if err != nil {
				return fmt.Errorf("closing the state in %s: %w", s.path, err)
			}
			return nil
		case <-changed:
		}
	}
}

// The store's own keys: 0xFFFF, a letter, the group. docs/format/pebble.md.
const appliedKeyBytes = 5

func appendAppliedKey(dst []byte, group uint16) []byte {
	return append(dst, 0xFF, 0xFF, 'a', byte(group>>8), byte(group))
}
