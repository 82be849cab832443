package store

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Names in the directory of a fetch.
const (
	fetchName    = "fetch"
	manifestName = "MANIFEST" // of a checkpoint of which files are still missing
	completeName = "COMPLETE" // the same, once all are there and verified: renamed
)

// syncStep is after how many bytes of a file their writing out is begun, so that the last sync isn't a long one.
const syncStep = 4 << 20

// Fetch is a checkpoint of another node that is being fetched into the directory, file by file. What is there stays over a
// break and over a restart, and is gone on with. One goroutine uses it. Errors of writing don't harm the node: a full disk is
// one.
type Fetch struct {
	// Manifest is the other node's; never changed.
	Manifest Manifest

	dir   *Dir
	path  string
	state string // the directory of the files
	at    int    // the file that is fetched now
	again bool   // it was whole once, and wrong

	file   vfs.File // nil between files
	offset int64    // its length as yet
	begun  int64    // how much of it is being written out
	hash   *xxhash.Digest
}

// BeginFetch begins to fetch the checkpoint of an encoded manifest, or goes on where an earlier fetch of the same one ended.
// What is there of another one is removed. Errors: those of DecodeManifest, ErrForeign, and of writing.
func (d *Dir) BeginFetch(manifest []byte) (*Fetch, error) {
	m, err := DecodeManifest(manifest)
	if err != nil {
		return nil, err
	}
	if stamp := d.Stamp(); m.Cluster != stamp.Cluster || m.History != stamp.History {
		return nil, fmt.Errorf("%w: a checkpoint of cluster %x, history %d is offered to a node of cluster %x, history %d",
			ErrForeign, m.Cluster, m.History, stamp.Cluster, stamp.History)
	}
	f := &Fetch{Manifest: m, dir: d, path: d.Path(fetchName)}
	f.state = d.fs.PathJoin(f.path, stateName)
	if old, err := readFile(d.fs, d.fs.PathJoin(f.path, manifestName), MaxManifestBytes); err == nil && bytes.Equal(old, manifest) {
		return f, nil
	}
	if err := d.DropFetch(); err != nil {
		return nil, err
	}
	if _, free := d.DiskBytes(); free > 0 && uint64(m.Bytes()) > free {
		return nil, fmt.Errorf("a checkpoint of %d bytes, and %d are free in %s: %w; free some, the node asks again", m.Bytes(), free, d.path, errNoSpace)
	}
	if err := makeDirs(d.fs, f.state); err != nil {
		return nil, fmt.Errorf("making %s: %w", f.state, err)
	}
	return f, replaceFile(d.fs, f.path, manifestName, bytes.Clone(manifest)) // a vfs.File may change what it writes
}

// DropFetch removes what was fetched, if anything was.
func (d *Dir) DropFetch() error {
	if err := d.fs.RemoveAll(d.Path(fetchName)); err != nil {
		return fmt.Errorf("removing %s: %w", d.Path(fetchName), err)
	}
	return nil
}

// Next is the file that is to be fetched next (1: the manifest's first), and from which byte on; 0: all are there. What is
// fetched goes to Write, then to Done.
func (f *Fetch) Next() (file uint64, offset int64, err error) {
	f.closeFile()
	for ; f.at < len(f.Manifest.Files); f.at++ {
		whole, err := f.resume(&f.Manifest.Files[f.at])
		if err != nil {
			return 0, 0, fmt.Errorf("fetching %s: %w", f.name(), err)
		}
		if !whole {
			return uint64(f.at) + 1, f.offset, nil
		}
		f.again = false
	}
	return 0, 0, nil
}

// name is the path of the file at hand.
func (f *Fetch) name() string { return f.dir.fs.PathJoin(f.state, f.Manifest.Files[f.at].Name) }

// resume opens the file at hand and looks at what is there of it; whole: all, and it is right.
func (f *Fetch) resume(want *CheckpointFile) (whole bool, err error) {
	if f.file, err = f.dir.fs.OpenReadWrite(f.name(), vfs.WriteCategoryUnspecified); err != nil {
		return false, err
	}
	f.hash = xxhash.New()
	if f.offset, err = io.CopyBuffer(f.hash, onlyReader{f.file}, make([]byte, windowBytes)); err != nil {
		return false, err
	}
	f.begun = f.offset
	if f.offset < want.Bytes {
		return false, nil
	}
	if f.offset == want.Bytes && f.hash.Sum64() == want.Sum {
		err = f.file.Sync()
		f.closeFile()
		return true, err
	}
	// Behind a loss of power a file may have its length and not its bytes.
	f.closeFile()
	if err := f.dir.fs.Remove(f.name()); err != nil {
		return false, err
	}
	return f.resume(want)
}

// Write takes the next bytes of the file that Next named; they are borrowed for the call, and may be changed. More than the manifest says is
// ErrFetched.
func (f *Fetch) Write(b []byte) error {
	want := f.Manifest.Files[f.at]
	if f.offset+int64(len(b)) > want.Bytes {
		return fmt.Errorf("%w: file %s is to have %d bytes, %d came at %d", ErrFetched, want.Name, want.Bytes, len(b), f.offset)
	}
	_, _ = f.hash.Write(b) // before it is written: a vfs.File may change it
	if _, err := f.file.WriteAt(b, f.offset); err != nil {
		return fmt.Errorf("writing %s: %w", f.name(), err) // and Next reads again what is there
	}
	f.offset += int64(len(b))
	if f.offset-f.begun >= syncStep {
		f.begun = f.offset
		if _, err := f.file.SyncTo(f.offset); err != nil {
			return fmt.Errorf("writing %s: %w", f.name(), err)
		}
	}
	return nil
}

// Done says that the sender has sent all of the file that Next named. It is ErrFetched if that is not all, or wrong for the
// second time; once, the file is fetched anew.
func (f *Fetch) Done() error {
	want := f.Manifest.Files[f.at]
	if f.offset != want.Bytes {
		return fmt.Errorf("%w: file %s is to have %d bytes, %d came", ErrFetched, want.Name, want.Bytes, f.offset)
	}
	right := f.hash.Sum64() == want.Sum
	err := f.file.Sync()
	f.closeFile()
	if err != nil {
		return fmt.Errorf("syncing %s: %w", f.name(), err)
	}
	if right {
		f.at, f.again = f.at+1, false
		return nil
	}
	if err := f.dir.fs.Remove(f.name()); err != nil {
		return err
	}
	if f.again {
		return fmt.Errorf("%w: file %s has another checksum than its manifest says, twice", ErrFetched, want.Name)
	}
	f.again = true
	return nil
}

// Finish verifies the whole: every block of every table, the applied index, and what check finds in the state, which is open
// for reading during the call. Then the next Dir.Install installs it. An ErrFetched means that it is no use: drop it.
func (f *Fetch) Finish(group uint16, check func(m *Manifest, in *State) error) error {
	if f.at < len(f.Manifest.Files) {
		return fmt.Errorf("%w: file %s is missing", ErrFetched, f.Manifest.Files[f.at].Name)
	}
	if err := syncDir(f.dir.fs, f.state); err != nil {
		return err
	}
	if err := verifyState(f.dir.fs, f.state, group, &f.Manifest, check); err != nil {
		return err
	}
	if err := f.dir.fs.Rename(f.dir.fs.PathJoin(f.path, manifestName), f.dir.fs.PathJoin(f.path, completeName)); err != nil {
		return err
	}
	return syncDir(f.dir.fs, f.path)
}

// Close ends the fetch; what is there stays.
func (f *Fetch) Close() { f.closeFile() }

func (f *Fetch) closeFile() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// readFile reads a whole file of at most limit bytes.
func readFile(files FS, path string, limit int64) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes: %w", path, limit, fs.ErrInvalid)
	}
	return b, err
}
