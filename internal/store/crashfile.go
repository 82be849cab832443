package store

import (
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Link implements FS.
func (d *CrashDisk) Link(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.find("link", from)
	if err != nil {
		return err
	}
	if d.names[path.Clean(to)] != nil {
		return &fs.PathError{Op: "link", Path: to, Err: fs.ErrExist}
	}
	if err := d.power(); err != nil {
		return err
	}
	d.change("", path.Clean(to), f)
	return nil
}

// RemoveAll implements FS: one name after the other, those below a directory first.
func (d *CrashDisk) RemoveAll(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = path.Clean(name)
	all := sortedNames(d.names)
	for i := len(all) - 1; i >= 0; i-- {
		if all[i] == name || strings.HasPrefix(all[i], name+"/") {
			if err := d.power(); err != nil {
				return err
			}
			d.change(all[i], "", nil)
		}
	}
	return nil
}

// ReuseForWrite implements FS.
func (d *CrashDisk) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Rename(from, to); err != nil {
		return nil, err
	}
	return d.OpenReadWrite(to, c)
}

// GetDiskUsage implements FS: nothing is known.
func (d *CrashDisk) GetDiskUsage(string) (vfs.DiskUsage, error) { return vfs.DiskUsage{}, nil }

// Unwrap implements FS.
func (d *CrashDisk) Unwrap() vfs.FS { return nil }

// crashFile is an open file or directory.
type crashFile struct {
	d    *CrashDisk
	name string
	f    *inode
	pos  int
}

func (f *crashFile) Close() error { return nil }

func (f *crashFile) Read(b []byte) (int, error) {
	n, err := f.ReadAt(b, int64(f.pos))
	f.pos += n
	if n > 0 {
		err = nil
	}
	return n, err
}

func (f *crashFile) ReadAt(b []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if at >= int64(len(f.f.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.f.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *crashFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, int64(f.pos))
	f.pos += n
	return n, err
}

func (f *crashFile) WriteAt(b []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.power(); err != nil {
		return 0, err
	}
	f.f.write(b, int(at))
	if len(b) > 0 {
		f.f.dirty = append(f.f.dirty, [2]int{int(at), int(at) + len(b)})
	}
	return len(b), nil
}

func (f *crashFile) Preallocate(int64, int64) error { return nil }

func (f *crashFile) Prefetch(int64, int64) error { return nil }

func (f *crashFile) Fd() uintptr { return vfs.InvalidFd }

// SyncTo promises nothing, and does nothing.
func (f *crashFile) SyncTo(int64) (fullSync bool, err error) { return false, nil }

func (f *crashFile) Stat() (vfs.FileInfo, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return crashInfo{f.name, len(f.f.data), f.f.dir}, nil
}

func (f *crashFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.power(); err != nil {
		return err
	}
	if f.f.dir {
		f.d.syncDir(f.name)
		return nil
	}
	f.f.sync()
	return nil
}

func (f *crashFile) SyncData() error { return f.Sync() }

// crashInfo describes a file.
type crashInfo struct {
	name  string
	bytes int
	dir   bool
}

func (i crashInfo) Name() string           { return path.Base(i.name) }
func (i crashInfo) Size() int64            { return int64(i.bytes) }
func (i crashInfo) Mode() fs.FileMode      { return 0o600 }
func (i crashInfo) ModTime() time.Time     { return time.Time{} }
func (i crashInfo) IsDir() bool            { return i.dir }
func (i crashInfo) Sys() any               { return nil }
func (i crashInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
