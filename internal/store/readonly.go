package store

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// readOnly is a file system in which nothing can be changed: what looks into a directory can't harm it, whatever the libraries
// below do. A lock is granted without one.
type readOnly struct{ FS }

var errReadOnly = error(syscall.EROFS)

// Create implements FS.
func (readOnly) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errReadOnly }

// Link implements FS.
func (readOnly) Link(_, _ string) error { return errReadOnly }

// OpenReadWrite implements FS.
func (readOnly) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnly
}

// Remove implements FS.
func (readOnly) Remove(string) error { return errReadOnly }

// RemoveAll implements FS.
func (readOnly) RemoveAll(string) error { return errReadOnly }

// Rename implements FS.
func (readOnly) Rename(_, _ string) error { return errReadOnly }

// ReuseForWrite implements FS.
func (readOnly) ReuseForWrite(_, _ string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnly
}

// MkdirAll implements FS.
func (fs readOnly) MkdirAll(path string, _ os.FileMode) error {
	if _, err := fs.Stat(path); err != nil {
		return errReadOnly
	}
	return nil
}

// Lock implements FS.
func (readOnly) Lock(string) (io.Closer, error) { return unlock(func() {}), nil }

// lockShared locks a directory against a node, and not against others that only look; the directory must not be open in
// this process. It changes nothing. A directory that has no lock file was never opened.
func lockShared(fs FS, dir string) (io.Closer, error) {
	path := fs.PathJoin(dir, lockName)
	if _, err := fs.Stat(path); errors.Is(err, os.ErrNotExist) {
		return unlock(func() {}), nil
	}
	if fs != vfs.Default {
		lock, err := fs.Lock(path)
		if err != nil {
			return nil, lockError(dir, err)
		}
		return lock, nil
	}
	return lockRead(dir, path)
}
