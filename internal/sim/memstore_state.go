package sim

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"

	"github.com/oncemq/oncemq/internal/mutant"
	"github.com/oncemq/oncemq/internal/store"
)

// stateImage is what a disk has of a state: what was flushed, and the changes since, any first ones of which a flush that
// was under way may have taken along.
type stateImage struct {
	values  map[string][]byte
	applied uint64
	changes []stateChange
	bytes   int // of changes
}

// stateChange is a put (value), a delete (neither), a range that was deleted (end), or the applied index that the changes
// before it lead to (applied).
type stateChange struct {
	key, end string
	value    []byte
	applied  uint64
}

// do makes a change.
func (c *stateChange) do(values map[string][]byte) {
	switch {
	case c.applied > 0:
	case c.end != "":
		maps.DeleteFunc(values, func(k string, _ []byte) bool { return k >= c.key && k < c.end })
	case c.value == nil:
		delete(values, c.key)
	default:
		values[c.key] = c.value
	}
}

// flush takes the first n changes, the last of which is an applied index.
func (m *stateImage) flush(n int) {
	for i := range m.changes[:n] {
		c := &m.changes[i]
		c.do(m.values)
		m.applied = max(m.applied, c.applied)
	}
	m.changes, m.bytes = slices.Delete(m.changes, 0, n), 0
}

// crash leaves what was flushed, or that with some of the changes, up to one applied index.
func (m *stateImage) crash(rng *rand.Rand) {
	applied := m.applied
	if n := len(m.changes); n > 0 && rng.IntN(2) == 0 {
		applied = m.changes[n-1].applied
		n = 1 + rng.IntN(n)
		for m.changes[n-1].applied == 0 {
			n++ // of one entry all or nothing
		}
		m.flush(n)
	}
	if mutant.On(mutant.IndexApart) {
		m.applied = applied
	}
	m.changes, m.bytes = nil, 0
}

// MemState is the twin of store.State on a Disk; see there for what each method does. Not safe for concurrent use.
type MemState struct {
	d       *Disk
	life    int
	values  map[string][]byte
	applied uint64
	failed  error
}

// OpenState opens the state on the disk: what was flushed. Open it once in a life.
func (d *Disk) OpenState() *MemState {
	d.state.changes, d.state.bytes = nil, 0
	return &MemState{d: d, life: d.life, values: maps.Clone(d.state.values), applied: d.state.applied}
}

// Apply implements replica.State.
func (s *MemState) Apply(b *store.Batch, applied uint64) error {
	if applied <= s.applied {
		panic(fmt.Sprintf("sim: entry %d applied after entry %d", applied, s.applied))
	}
	if s.life != s.d.life {
		s.failed = diskError(statePath, errDead)
	}
	if s.failed != nil {
		return s.failed
	}
	if b != nil {
		b.Replay(s)
		b.Reset()
	}
	s.applied = applied
	m := &s.d.state
	m.changes = append(m.changes, stateChange{applied: applied})
	if m.bytes >= s.d.opts.FlushBytes {
		if err := s.Flush(); !errors.Is(err, store.ErrFull) {
			return err
		}
	}
	return nil
}

// change makes a change and remembers it for the next flush.
func (s *MemState) change(c stateChange) {
	c.do(s.values)
	m := &s.d.state
	m.changes = append(m.changes, c)
	m.bytes += len(c.key) + len(c.value) + entryBytes
}

// Put implements store.Changes.
func (s *MemState) Put(key, value []byte) {
	s.change(stateChange{key: string(key), value: append([]byte{}, value...)})
}

// Insert implements store.Changes.
func (s *MemState) Insert(key, value []byte) { s.Put(key, value) }

// Delete implements store.Changes.
func (s *MemState) Delete(key []byte) { s.change(stateChange{key: string(key)}) }

// DeleteRange implements store.Changes.
func (s *MemState) DeleteRange(start, end []byte) {
	if bytes.Compare(start, end) < 0 {
		s.change(stateChange{key: string(start), end: string(end)})
	}
}

// Get implements replica.State.
func (s *MemState) Get(key, dst []byte) (value []byte, ok bool, err error) {
	v, ok := s.values[string(key)]
	return append(dst, v...), ok, nil
}

// IterateRange implements replica.State.
func (s *MemState) IterateRange(start, end []byte, fn func(key, value []byte) bool) error {
	var keys []string
	for k := range s.values {
		if k >= string(start) && (end == nil || k < string(end)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if !fn([]byte(k), s.values[k]) {
			break
		}
	}
	return nil
}

// AppliedIndex implements replica.State.
func (s *MemState) AppliedIndex() uint64 { return s.applied }

// DurableIndex implements replica.State.
func (s *MemState) DurableIndex() (uint64, error) { return s.d.state.applied, s.failed }

// Flush implements replica.State.
func (s *MemState) Flush() error {
	if s.life != s.d.life {
		s.failed = diskError(statePath, errDead)
	}
	if s.failed == nil && s.d.failing {
		s.failed = diskError(statePath, s.d.writeError())
	}
	if s.failed != nil {
		return s.failed
	}
	if s.d.full {
		return diskError(statePath, syscall.ENOSPC) // there is time until there is room
	}
	s.d.state.flush(len(s.d.state.changes))
	return nil
}

// Path implements replica.State.
func (s *MemState) Path() string { return statePath }

// Close implements replica.State.
func (s *MemState) Close() error { return nil }
