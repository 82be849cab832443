package store

// StateOptions tunes a State. The zero value is usable.
type StateOptions struct {
	// Group is the raft group whose applied index is kept.
	Group uint16
	// CacheBytes is the size of the block cache, 8 MiB where 0.
	CacheBytes int64
	// MemTableBytes is the size at which a memtable is flushed, 32 MiB where 0.
	MemTableBytes uint64
	// Logf takes Pebble's information and error lines; nil drops them.
	Logf func(format string, args ...any)
	// Fatal is called, from a goroutine of Pebble's, when a flush or compaction failed; it has to end the process.
	// Nil panics.
	Fatal func(error)
}

// State is the replicated state on disk: keys and values in Pebble, without its write-ahead log. One goroutine calls
// Apply; everything else may be called by any goroutine.
//
// A key's first two bytes are its group's id, big-endian; 0xFFFF is the store's own. What follows is the business of
// package state.
type State struct{}

// OpenState opens or creates the state of the directory. Errors: ErrCorrupt, ErrVersion, ErrDisk.
func (d *Dir) OpenState(opts StateOptions) (*State, error) { panic("soon") }

// Batch collects changes; reuse it after Apply, which empties it. Not safe for concurrent use.
type Batch struct{}

// NewBatch returns an empty batch. Close it when it is not used any more.
func (s *State) NewBatch() *Batch { panic("soon") }

// Put sets key to value. Both are copied.
func (b *Batch) Put(key, value []byte) { panic("soon") }

// Delete removes key, if it is there. The key is copied.
func (b *Batch) Delete(key []byte) { panic("soon") }

// DeleteRange removes all keys start <= key < end. Both are copied.
func (b *Batch) DeleteRange(start, end []byte) { panic("soon") }

// Len is the size of the batch in bytes, 0 where it is empty.
func (b *Batch) Len() int { panic("soon") }

// Reset empties the batch.
func (b *Batch) Reset() { panic("soon") }

// Close frees the batch.
func (b *Batch) Close() { panic("soon") }

// Apply writes the batch and the applied index as one, without a sync, and empties the batch for reuse. applied must be
// higher than before (a batch may hold the changes of several entries). nil b moves the applied index alone.
func (s *State) Apply(b *Batch, applied uint64) error { panic("soon") }

// Get appends the value of key to dst. ok is false where there is no such key.
func (s *State) Get(key, dst []byte) (value []byte, ok bool, err error) { panic("soon") }

// Iterate calls fn for every key with the prefix, in order, until fn returns false. key and value are borrowed for the
// call. It sees the state as of its beginning.
func (s *State) Iterate(prefix []byte, fn func(key, value []byte) bool) error { panic("soon") }

// IterateRange is Iterate for start <= key < end.
func (s *State) IterateRange(start, end []byte, fn func(key, value []byte) bool) error {
	panic("soon")
}

// AppliedIndex is the index of the last Apply, from memory; after OpenState, the index the log is to be replayed from.
func (s *State) AppliedIndex() uint64 { panic("soon") }

// DurableIndex is the applied index read back from what is flushed and synced [6.2]; 0 where nothing is.
func (s *State) DurableIndex() (uint64, error) { panic("soon") }

// Flush writes the memtable out and returns when it is on disk: DurableIndex has then reached the AppliedIndex of the call.
func (s *State) Flush() error { panic("soon") }

// Close closes the state without flushing: what is not flushed comes again from the log. Call Flush first for a quick
// start.
func (s *State) Close() error { panic("soon") }

// Start is what raft needs to know when a node starts.
type Start struct {
	// State is the hard state; its Commit is raised to Applied where it was lower.
	State HardState
	// First and Last are the log's; Applied is the state's. Entries Applied+1 … State.Commit come again.
	First, Last, Applied uint64
}

// Begin checks log and state against each other and returns what a start needs. A log that does not reach the state's
// applied index, or begins above the one after it, is ErrCorrupt.
func Begin(l *Log, s *State) (Start, error) { panic("soon") }
