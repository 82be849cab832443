package store

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
}

// LogOptions tunes a Log. The zero value is usable.
type LogOptions struct {
	// Group is the raft group that the log holds.
	Group uint16
	// SegmentBytes is the size of a segment file, 64 MiB where 0; at least 64 KiB, at most 1 GiB.
	SegmentBytes int64
	// TailBytes is how much of the newest entries is kept in memory, 8 MiB where 0.
	TailBytes int64
	// SpareSegments is how many recycled segments are kept for reuse, 4 where 0; more are deleted.
	SpareSegments int
	// NoSync leaves out every sync: for a directory marked "safety off", where Open sets it, and for tests.
	NoSync bool
}

// Log is the segmented log of one raft group on disk. One goroutine calls Append, Cut, Prepare and Close; the reading
// methods may be called by any goroutine at any time.
type Log struct{}

// OpenLog opens or creates the log of the directory and reads it through. Damage is ErrCorrupt; a torn or missing tail
// that was never acknowledged is dropped.
func (d *Dir) OpenLog(opts LogOptions) (*Log, error) { panic("soon") }

// Append writes entries and hard state in one write and one sync and returns when both are done: nil means "on disk".
// A hard state that differs in Commit alone, without entries, is remembered and written with the next append, without a
// write of its own (raft needs no more). Entry data is kept, not copied. Any error but a programmer's is ErrDisk.
func (l *Log) Append(a Append) error { panic("soon") }

// Prepare does one small step (at most about 2 ms) of work ahead: it writes zeros before the place where appends will
// come, so that they meet allocated blocks, and readies the next segment. It reports whether a further step would help.
// The append goroutine calls it when it has nothing to append: `for len(queue) == 0 && more { more, err = l.Prepare() }`.
// Leaving it out costs speed only.
func (l *Log) Prepare() (more bool, err error) { panic("soon") }

// Cut recycles the segments whose entries all lie below index; index itself stays readable. Pass at most
// State.DurableIndex()+1, and at most what every peer has. FirstIndex tells what is left; the term of FirstIndex-1 stays
// known.
func (l *Log) Cut(index uint64) error { panic("soon") }

// FirstIndex is the lowest index that can be read; LastIndex+1 where the log is empty.
func (l *Log) FirstIndex() uint64 { panic("soon") }

// LastIndex is the highest index appended, synced or just being synced; 0 where nothing ever was.
func (l *Log) LastIndex() uint64 { panic("soon") }

// Term is the term of the entry at index, for FirstIndex-1 <= index <= LastIndex; it is answered from memory. Otherwise
// ErrCut or ErrUnavailable. Term(0) is 0.
func (l *Log) Term(index uint64) (uint64, error) { panic("soon") }

// Entries appends the entries lo <= index < hi to dst and returns it: at most maxBytes of data in all (0: no limit), but
// at least one entry. Recent ones come from memory and share their Data with the log, older ones are read from disk
// into fresh memory and checked. Errors: ErrCut, ErrUnavailable, ErrCorrupt, ErrDisk.
func (l *Log) Entries(dst []Entry, lo, hi, maxBytes uint64) ([]Entry, error) { panic("soon") }

// HardState is the newest hard state appended.
func (l *Log) HardState() HardState { panic("soon") }

// Empty reports that nothing was ever appended: no entry, no hard state.
func (l *Log) Empty() bool { panic("soon") }

// SizeBytes is what the log's live segments hold, without spares: what Cut could free, and the 256 MiB rule is about.
func (l *Log) SizeBytes() int64 { panic("soon") }

// Close syncs and closes the files. Reads fail afterwards.
func (l *Log) Close() error { panic("soon") }
