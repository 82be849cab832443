package store

import (
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Joined is what the directory of a node begins with that has joined a cluster.
type Joined struct {
	// Node is its raft id.
	Node uint64
	// Cluster and History are the cluster's.
	Cluster [16]byte
	History uint16
	// Voters are those that the cluster was founded with, ascending.
	Voters []uint64
	// Members are the addresses of the nodes of now, this one included.
	Members map[uint64]string
}

// Whose reads the stamp of a directory without locking it; false where it belongs to nobody. A nil file system is the operating
// system's. Errors: ErrCorrupt, ErrVersion.
func Whose(files FS, dir string) (Stamp, bool, error) {
	if files == nil {
		files = vfs.Default
	}
	empty, err := Empty(files, dir)
	if err != nil || empty {
		return Stamp{}, false, err
	}
	stamp, _, err := readStamp(files, files.PathJoin(dir, stampName))
	return stamp, err == nil, err
}

// Preparation is a directory that is being made for a node that joins: locked, with or without a stamp. One goroutine uses it.
type Preparation struct {
	dir  *Dir
	lock io.Closer
}

// Prepare locks a directory, and makes it where it does not exist. A nil file system is the operating system's. Errors: ErrLocked,
// and of the disk.
func Prepare(files FS, dir string) (*Preparation, error) {
	p := &Preparation{dir: &Dir{fs: files, path: dir, draw: random64}}
	if files == nil {
		p.dir.fs = vfs.Default
	}
	if err := makeDirs(p.dir.fs, dir); err != nil {
		return nil, fmt.Errorf("making the data directory %s: %w", dir, err)
	}
	lock, err := p.dir.fs.Lock(p.dir.Path(lockName))
	if err != nil {
		return nil, lockError(dir, err)
	}
	p.lock = lock
	return p, nil
}

// Finish makes it the directory of a node that has joined: Open finds it with the cluster's stamp and an empty log. The stamp is
// written last, and makes it whole: after a crash before it, Finish is called again. Errors: ErrForeign where the directory is somebody's
// (of this very node: nil), and of the disk.
func (p *Preparation) Finish(j Joined) error {
	d := p.dir
	if old, ok, err := Whose(d.fs, d.path); err != nil || ok {
		if err == nil && (old.Node != j.Node || old.Cluster != j.Cluster || old.History != j.History) {
			err = fmt.Errorf("%w: %s belongs to node %d of cluster %x; a node joins with an empty directory", ErrForeign, d.path, old.Node, old.Cluster)
		}
		return err
	}
	if err := d.SetVoters(j.Voters); err != nil {
		return err
	}
	if err := d.SetMembers(j.Members); err != nil {
		return err
	}
	return writeStamp(d.fs, d.path, Stamp{Node: j.Node, Cluster: j.Cluster, History: j.History}, d.draw())
}

// Close releases the lock.
func (p *Preparation) Close() error { return p.lock.Close() }
