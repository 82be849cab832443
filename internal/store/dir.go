package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Names in a data directory.
const (
	lockName  = "LOCK"
	stampName = "STAMP"
	logName   = "log"
	stateName = "state"
)

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
	// CheckLevel refuses a state's feature level, and says by which version it was raised; it is asked before anything is
	// written. Nil: every level is taken.
	CheckLevel func(level uint32, version string) error
	// SafetyOff opens or makes a directory marked "safety off": nothing is synced. A directory with the other mark is
	// refused either way.
	SafetyOff bool
	// Recover has a stamp that is gone or damaged made anew from what the log says of itself; the directory is marked with
	// LostPromise then.
	Recover bool
	// Random draws the directory's key and the nonces of segments, crypto/rand where nil. For simulators.
	Random func() uint64
}

// Dir is an opened data directory, locked against other processes. Its methods may be called by any goroutine.
type Dir struct {
	fs   FS
	path string
	lock io.Closer
	draw func() uint64 // Options.Random

	marking sync.Mutex // one SetLost at a time

	mu    sync.Mutex
	stamp Stamp  // guarded by mu
	key   uint64 // salts the log's checksums; never changes
	level uint32 // of the LEVEL file, if levelRead; guarded by mu

	levelRead bool
}

// Open locks the directory, makes it and its stamp where they do not exist, and checks the stamp. Errors: ErrLocked,
// ErrForeign, ErrVersion, ErrSafety, ErrCorrupt (a log without a stamp, a stamp that can't be read), ErrDisk.
func Open(opts Options) (*Dir, error) {
	d := &Dir{fs: opts.FS, path: opts.Dir, draw: opts.Random}
	if d.draw == nil {
		d.draw = random64
	}
	if d.fs == nil {
		d.fs = vfs.Default
	}
	if err := makeDirs(d.fs, d.path); err != nil {
		return nil, fmt.Errorf("making the data directory %s: %w", d.path, err)
	}
	lock, err := d.fs.Lock(d.Path(lockName))
	if err != nil {
		return nil, lockError(d.path, err)
	}
	d.lock = lock
	if err := d.load(opts); err != nil {
		lock.Close()
		return nil, err
	}
	return d, nil
}

// lockError tells a lock that someone holds from a directory that can't be written to.
func lockError(path string, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != syscall.EAGAIN {
		return fmt.Errorf("locking %s/%s: %w; the directory must be writable for the user that runs the node", path, lockName, err)
	}
	return fmt.Errorf("%w: %s (%w); stop the other process, or give this node a directory of its own", ErrLocked, path, err)
}

// load reads and checks the stamp, or writes the first one into an empty directory.
func (d *Dir) load(opts Options) error {
	empty, err := Empty(d.fs, d.path)
	if err != nil {
		return fmt.Errorf("looking into the data directory %s: %w", d.path, err)
	}
	if !empty {
		if marked, err := restoring(d.fs, d.path); err != nil {
			return err
		} else if marked { // its last step is missing
			if err := d.endRestore(); err != nil {
				return err
			}
		}
		stamp, key, err := readStamp(d.fs, d.Path(stampName))
		if opts.Recover && errors.Is(err, ErrCorrupt) {
			stamp, key, err = d.rebirth(opts, err)
		}
		if err != nil {
			return err
		}
		d.stamp, d.key = stamp, key
		if err := stamp.check(d.path, opts); err != nil {
			return err
		}
		return d.checkLevel(opts.CheckLevel)
	}
	d.key = d.draw()
	d.stamp = Stamp{Cluster: opts.Cluster, Node: opts.Node, SafetyOff: opts.SafetyOff}
	return writeStamp(d.fs, d.path, d.stamp, d.key)
}

// Empty reports that the directory does not exist or holds nothing of a node yet (no stamp, no log, no state). A nil file
// system is the operating system's. ErrUnfinished: a backup was being restored into it.
func Empty(files FS, dir string) (bool, error) {
	if files == nil {
		files = vfs.Default
	}
	names, err := files.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if _, err := restoring(files, dir); err != nil {
		return false, err
	}
	for _, name := range names {
		_, generation := parseGenerationName(name)
		if generation || slices.Contains([]string{stampName, badStampName, logName, stateName}, name) {
			return false, nil
		}
	}
	return err == nil, err
}

// Stamp is the directory's stamp.
func (d *Dir) Stamp() Stamp {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stamp
}

// SetCluster writes the cluster id and history into the stamp, atomically and synced. An id once set is never changed
// (ErrForeign), and history never goes back.
func (d *Dir) SetCluster(cluster [16]byte, history uint16) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	stamp := d.stamp
	if stamp.Cluster != [16]byte{} && stamp.Cluster != cluster {
		return fmt.Errorf("%w: %s belongs to cluster %x and is to join %x; use an empty directory for another cluster",
			ErrForeign, d.path, stamp.Cluster, cluster)
	}
	if history < stamp.History {
		return fmt.Errorf("%w: %s has history %d, the cluster says %d; it was restored from something older: join with an empty directory",
			ErrForeign, d.path, stamp.History, history)
	}
	stamp.Cluster, stamp.History = cluster, history
	return d.restamp(stamp)
}

// setHasLog notes that the directory's log was begun.
func (d *Dir) setHasLog() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	stamp := d.stamp
	stamp.hasLog = true
	return d.restamp(stamp)
}

// restamp replaces the stamp. d.mu is held.
func (d *Dir) restamp(stamp Stamp) error {
	if stamp == d.stamp {
		return nil
	}
	if err := writeStamp(d.fs, d.path, stamp, d.key); err != nil {
		return err
	}
	d.stamp = stamp
	return nil
}

// Path is the path of a file or directory of the given name in the data directory, for a caller that keeps more there.
func (d *Dir) Path(name string) string { return d.fs.PathJoin(d.path, name) }

// Close releases the lock. Close Log and State first.
func (d *Dir) Close() error { return d.lock.Close() }
