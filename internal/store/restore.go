package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// restoreName is the file that says that a directory is being made from a backup: until the stamp is there, which is the last
// that is written, there is nothing in it that a node could begin with.
const restoreName = "RESTORE"

// restoreText is what it holds, for people.
const restoreText = "A backup is being restored into this directory. If nothing does so any more, restore it again: it begins anew.\n"

// RestoreOptions says which directory a backup becomes.
type RestoreOptions struct {
	// Dir is the directory. It must be empty, or hold what an earlier restore that was broken off has left.
	Dir string
	// FS is the file system, the operating system's where nil.
	FS FS
	// Node is the id of the node that the directory will be of, Voters are the ids of all nodes of the cluster that is to be,
	// ascending.
	Node   uint64
	Voters []uint64
	// Group is the raft group.
	Group uint16
}

// Restore is a data directory that is being made from a backup: the state of the backup, a log that begins behind it, and a stamp of
// the next history (C1) that belongs to no cluster yet; the nodes find that out among themselves, as for a new cluster. One goroutine uses it.
type Restore struct {
	opts     RestoreOptions
	manifest Manifest
	dir      *Dir
	state    string

	at    int // the file at hand
	file  vfs.File
	bytes int64
	begun int64 // how much of it is being written out
	hash  *xxhash.Digest
}

// BeginRestore locks the directory, makes it where it doesn't exist, and removes what an earlier restore has left. The sums of
// the manifest's files aren't used: Done brings each. Errors: ErrLocked, ErrNotEmpty, and of writing.
func BeginRestore(opts RestoreOptions, m Manifest) (r *Restore, err error) {
	d := &Dir{fs: opts.FS, path: opts.Dir, draw: random64}
	if d.fs == nil {
		d.fs = vfs.Default
	}
	if m.History == 1<<16-1 {
		return nil, errors.New("oncemq: the backup is of the last of 65,536 histories; there is none behind it")
	}
	if err := makeDirs(d.fs, d.path); err != nil {
		return nil, fmt.Errorf("making the data directory %s: %w", d.path, err)
	}
	if d.lock, err = d.fs.Lock(d.Path(lockName)); err != nil {
		return nil, lockError(d.path, err)
	}
	defer func() {
		if err != nil {
			d.lock.Close()
		}
	}()
	r = &Restore{opts: opts, manifest: m, dir: d, state: d.Path(stateName)}
	r.manifest.Files = slices.Clone(m.Files)
	if err := r.clear(); err != nil {
		return nil, err
	}
	if _, free := d.DiskBytes(); free > 0 && uint64(m.Bytes())+restoreSlack > free {
		return nil, fmt.Errorf("the backup's state has %d bytes, and %d are free in %s: %w; free some, or restore to another disk",
			m.Bytes(), free, d.path, errNoSpace)
	}
	d.key = d.draw()
	d.stamp = Stamp{Node: opts.Node, History: m.History + 1, hasLog: true} // written by Finish
	if err := replaceFile(d.fs, d.path, restoreName, []byte(restoreText)); err != nil {
		return nil, err
	}
	return r, makeDirs(d.fs, r.state)
}

// restoreSlack is what a restore needs beside the files: the first segment of the log.
const restoreSlack = 128 << 20

// clear refuses a directory that holds anything, and empties one in which a restore was broken off.
func (r *Restore) clear() error {
	d := r.dir
	names, err := d.fs.List(d.path)
	if err != nil {
		return fmt.Errorf("listing %s: %w", d.path, err)
	}
	if slices.Contains(names, restoreName) && !slices.Contains(names, stampName) {
		for _, name := range []string{logName, stateName, votersName} {
			if err := d.fs.RemoveAll(d.Path(name)); err != nil {
				return fmt.Errorf("removing what an earlier restore left: %w", err)
			}
		}
		return nil
	}
	for _, name := range names {
		if name != lockName && name != restoreName+".tmp" && name != "lost+found" {
			return fmt.Errorf("%w: %s holds %s; name another directory, or empty this one if what is in it isn't needed", ErrNotEmpty, d.path, name)
		}
	}
	return nil
}

// Write takes the next bytes of the file at hand, the first of the manifest at first; they are borrowed for the call, and may
// be changed. More than the manifest says is ErrFetched.
func (r *Restore) Write(b []byte) error {
	if r.at >= len(r.manifest.Files) {
		return fmt.Errorf("%w: %d bytes behind its last file", ErrFetched, len(b))
	}
	want := &r.manifest.Files[r.at]
	if r.bytes+int64(len(b)) > want.Bytes {
		return fmt.Errorf("%w: file %s is to have %d bytes, %d came at %d", ErrFetched, want.Name, want.Bytes, len(b), r.bytes)
	}
	if err := r.create(); err != nil {
		return err
	}
	_, _ = r.hash.Write(b) // before it is written: a vfs.File may change it
	if _, err := r.file.WriteAt(b, r.bytes); err != nil {
		return fmt.Errorf("writing %s: %w", r.name(), err)
	}
	r.bytes += int64(len(b))
	if r.bytes-r.begun >= syncStep {
		r.begun = r.bytes
		if _, err := r.file.SyncTo(r.bytes); err != nil {
			return fmt.Errorf("writing %s: %w", r.name(), err)
		}
	}
	return nil
}

// create makes the file at hand, once.
func (r *Restore) create() (err error) {
	if r.file == nil {
		r.hash, r.bytes, r.begun = xxhash.New(), 0, 0
		if r.file, err = r.dir.fs.Create(r.name(), vfs.WriteCategoryUnspecified); err != nil {
			return fmt.Errorf("making %s: %w", r.name(), err)
		}
	}
	return nil
}

// name is the path of the file at hand.
func (r *Restore) name() string {
	return r.dir.fs.PathJoin(r.state, r.manifest.Files[r.at].Name)
}

// Done ends the file at hand, whose checksum is to be sum. ErrFetched: it is another, or bytes are missing.
func (r *Restore) Done(sum uint64) error {
	if r.at >= len(r.manifest.Files) {
		return fmt.Errorf("%w: the end of a file behind its last", ErrFetched)
	}
	if err := r.create(); err != nil { // an empty file
		return err
	}
	want := &r.manifest.Files[r.at]
	if r.bytes != want.Bytes || r.hash.Sum64() != sum {
		return fmt.Errorf("%w: file %s has %d bytes with checksum %016x; it is to have %d with %016x",
			ErrFetched, want.Name, r.bytes, r.hash.Sum64(), want.Bytes, sum)
	}
	want.Sum = sum
	err := errors.Join(r.file.Sync(), r.file.Close())
	r.file = nil
	if err != nil {
		return fmt.Errorf("syncing %s: %w", r.name(), err)
	}
	r.at, r.bytes = r.at+1, 0
	return nil
}

// Finish verifies the whole as [Fetch.Finish] does, with check, and makes the directory that of a node: log, list of nodes, and at
// last the stamp. What it finds wrong is ErrFetched.
func (r *Restore) Finish(check func(m *Manifest, in *State) error) error {
	d, m := r.dir, &r.manifest
	if r.at < len(m.Files) {
		return fmt.Errorf("%w: file %s is missing", ErrFetched, m.Files[r.at].Name)
	}
	if err := verifyState(d.fs, r.state, r.opts.Group, m, check); err != nil {
		return err
	}
	if err := syncDir(d.fs, r.state); err != nil {
		return err
	}
	// The next leader's term is a higher one; nobody has voted in this one, in this history.
	state := HardState{Term: m.Term, Commit: m.Index}
	opts := LogOptions{Group: r.opts.Group}
	if err := opts.setDefaults(); err != nil {
		return err
	}
	l := &Log{dir: d, fs: d.fs, dirPath: d.Path(logName), opts: opts}
	l.index = index{terms: []termRun{{m.Index, m.Term}}}
	err := makeDirs(d.fs, l.dirPath)
	if err == nil {
		err = l.Append(Append{Group: opts.Group, State: state})
	}
	if err = errors.Join(err, l.Close()); err != nil {
		return fmt.Errorf("beginning the log in %s: %w", l.dirPath, err)
	}
	if err := d.SetVoters(r.opts.Voters); err != nil {
		return err
	}
	if err := writeStamp(d.fs, d.path, d.stamp, d.key); err != nil { // this decides
		return err
	}
	return d.endRestore()
}

// Close ends the restore and gives the directory free. Without a Finish before, what is there is of no use but to the next restore.
func (r *Restore) Close() error {
	var err error
	if r.file != nil {
		err = r.file.Close()
	}
	return errors.Join(err, r.dir.lock.Close())
}

// endRestore removes the mark of a restore.
func (d *Dir) endRestore() error {
	if err := d.fs.Remove(d.Path(restoreName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", d.Path(restoreName), err)
	}
	return syncDir(d.fs, d.path)
}

// restoring reports that a directory has the mark of a restore; without a stamp beside it, it is ErrUnfinished.
func restoring(files FS, dir string) (bool, error) {
	mark, stamp := files.PathJoin(dir, restoreName), files.PathJoin(dir, stampName)
	if _, err := files.Stat(mark); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("looking for %s: %w", mark, err)
	}
	if _, err := files.Stat(stamp); errors.Is(err, fs.ErrNotExist) {
		return true, fmt.Errorf("%w: %s; restore the backup again, or empty the directory", ErrUnfinished, dir)
	} else if err != nil {
		return true, fmt.Errorf("looking for %s: %w", stamp, err)
	}
	return true, nil
}

// VerifyTable reads every block of a table file of the operating system's file system, and so its checksum.
func VerifyTable(path string) error {
	if err := verifyTable(vfs.Default, path, StateOptions{}.pebble(vfs.Default, path).MakeReaderOptions(), nil); err != nil {
		return fmt.Errorf("%w: a table: %w", ErrFetched, err)
	}
	return nil
}

// FreeBytes is what is free on the disk of an existing directory for this process; false where the system doesn't say.
func FreeBytes(dir string) (uint64, bool) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	return usage.AvailBytes, err == nil
}
