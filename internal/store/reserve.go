package store

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// reserveName is the file that holds room back.
const reserveName = "RESERVE"

// Reserve is a file that takes room on the disk while there is enough, so that there is some left when there isn't: what frees
// room (settlements, purges, deletions) is written then, and so is what Pebble merges in order to delete [8.5]. One goroutine
// calls its methods.
type Reserve struct {
	dir   *Dir
	bytes int64
	held  bool
}

// Reserve is the directory's reserve of so many bytes. It isn't held yet; what a former process held counts as held.
func (d *Dir) Reserve(bytes int64) *Reserve {
	r := &Reserve{dir: d, bytes: bytes}
	_, err := d.fs.Stat(d.Path(reserveName))
	r.held = err == nil
	return r
}

// Bytes is its size, Held whether it has it now.
func (r *Reserve) Bytes() int64 { return r.bytes }

// Held reports that the file is there.
func (r *Reserve) Held() bool { return r.held }

// Hold makes the file. Where there is no room for all of it, or the file system can't set room aside, none is held, and the
// error says why.
func (r *Reserve) Hold() error {
	path := r.dir.Path(reserveName)
	f, err := r.dir.fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err == nil {
		err = f.Preallocate(0, r.bytes)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("setting %d bytes aside in %s: %w", r.bytes, path, err), r.Release())
	}
	r.held = true
	return nil
}

// Release removes the file: what it took is free.
func (r *Reserve) Release() error {
	path := r.dir.Path(reserveName)
	if err := r.dir.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	r.held = false
	return nil
}
