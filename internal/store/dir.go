package store

// Options says which directory is opened, by whom.
type Options struct {
	// Dir is the data directory; it is made where it does not exist.
	Dir string
	// FS is the file system, the operating system's where nil.
	FS FS
	// Node is the node's raft id; a directory of another node is refused.
	Node uint64
	// Cluster is the cluster id that the caller expects, zero where it does not know any.
	Cluster [16]byte
	// SafetyOff opens or makes a directory marked "safety off": nothing is synced. A directory with the other mark is
	// refused either way.
	SafetyOff bool
}

// Stamp says whose a directory is.
type Stamp struct {
	// Cluster is the id of the cluster, zero until SetCluster.
	Cluster [16]byte
	// Node is the node's raft id.
	Node uint64
	// History counts restores and forced recoveries (C1); 1 in a new directory... see SetCluster.
	History uint16
	// SafetyOff is the mark of a directory in which nothing is synced.
	SafetyOff bool
}

// Dir is an opened data directory, locked against other processes. Its methods may be called by any goroutine.
type Dir struct{}

// Open locks the directory, makes it and its stamp where they do not exist, and checks the stamp. Errors: ErrLocked,
// ErrForeign, ErrVersion, ErrSafety, ErrCorrupt (a log without a stamp, a stamp that can't be read), ErrDisk.
func Open(opts Options) (*Dir, error) { panic("soon") }

// Empty reports that the directory does not exist or holds nothing of a node yet (no stamp, no log, no state). fs may be nil.
func Empty(fs FS, dir string) (bool, error) { panic("soon") }

// Stamp is the directory's stamp.
func (d *Dir) Stamp() Stamp { panic("soon") }

// SetCluster writes the cluster id and history into the stamp, atomically and synced. An id once set is never changed
// (ErrForeign).
func (d *Dir) SetCluster(cluster [16]byte, history uint16) error { panic("soon") }

// Path is the path of a file or directory of the given name in the data directory, for a caller that keeps more there.
func (d *Dir) Path(name string) string { panic("soon") }

// Close releases the lock. Close Log and State first.
func (d *Dir) Close() error { panic("soon") }
