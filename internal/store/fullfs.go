package store

import (
	"errors"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// isFull says that an error is about room alone: the disk's, or what a quota leaves. What was written before is as it was, and
// with room the same write can be done. (EFBIG isn't one: no room helps there.)
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// waitFS is what Pebble writes through. Pebble can't be told that there is no room now: a flush that fails is tried again at
// once, again and again, and a manifest that can't be written ends the process. So a write within dir that finds no room waits
// until there is some, and Pebble only finds it slow.
type waitFS struct {
	FS
	dir  string // with a separator behind it: checkpoints, which lie elsewhere, may fail
	wait func(err error) (again bool)

	mu        sync.Mutex
	waiting   int           // writes that wait now; guarded by mu
	changed   chan struct{} // closed, and made anew, when waiting has changed; guarded by mu
	on        bool          // writes wait; guarded by mu
	abandoned bool          // wait has said no; guarded by mu
	giveUp    func()        // called then
}

// start makes writes wait from now on: opening a state fails on a full disk.
func (w *waitFS) start(giveUp func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on, w.giveUp = true, giveUp
}

// full reports that a write waits, or was given up, and gives a channel that is closed when that may have changed. A nil w waits never.
func (w *waitFS) full() (bool, <-chan struct{}) {
	if w == nil {
		return false, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting > 0, w.changed
}

func (w *waitFS) count(by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting += by
	close(w.changed)
	w.changed = make(chan struct{})
}

// again waits where err is about room, and reports that the write to name is to be tried again. When nobody wants to wait any
// longer the process is about to end, and the write never returns: any answer would have Pebble act on it.
func (w *waitFS) again(name string, err error) bool {
	w.mu.Lock()
	on := w.on
	w.mu.Unlock()
	if err == nil || !on || !isFull(err) || !strings.HasPrefix(name, w.dir) {
		return false
	}
	w.count(1)
	if w.wait(err) {
		w.count(-1)
		return true
	}
	w.mu.Lock()
	giveUp := w.giveUp
	w.abandoned = true
	w.mu.Unlock()
	giveUp()
	select {}
}

// Create implements vfs.FS.
func (w *waitFS) Create(name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	for try := true; try; try = w.again(name, err) {
		f, err = w.FS.Create(name, c)
	}
	return w.file(name, f, err)
}

// OpenReadWrite implements vfs.FS.
func (w *waitFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (f vfs.File, err error) {
	for try := true; try; try = w.again(name, err) {
		f, err = w.FS.OpenReadWrite(name, c, o...)
	}
	return w.file(name, f, err)
}

// ReuseForWrite implements vfs.FS.
func (w *waitFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	for try := true; try; try = w.again(name, err) {
		f, err = w.FS.ReuseForWrite(old, name, c)
	}
	return w.file(name, f, err)
}

// Rename implements vfs.FS.
func (w *waitFS) Rename(old, name string) (err error) {
	for try := true; try; try = w.again(name, err) {
		err = w.FS.Rename(old, name)
	}
	return err
}

// Link implements vfs.FS.
func (w *waitFS) Link(old, name string) (err error) {
	for try := true; try; try = w.again(name, err) {
		err = w.FS.Link(old, name)
	}
	return err
}

func (w *waitFS) file(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &waitFile{f, w, name}, nil
}

// waitFile is a file of a waitFS. A sync that fails isn't tried again, for want of room or for anything else (C14).
type waitFile struct {
	vfs.File
	fs   *waitFS
	name string
}

// Write implements vfs.File.
func (f *waitFile) Write(b []byte) (n int, err error) {
	for try := true; try; try = f.fs.again(f.name, err) {
		var m int
		m, err = f.File.Write(b[n:])
		n += m
	}
	return n, err
}

// WriteAt implements vfs.File.
func (f *waitFile) WriteAt(b []byte, at int64) (n int, err error) {
	for try := true; try; try = f.fs.again(f.name, err) {
		var m int
		m, err = f.File.WriteAt(b[n:], at+int64(n))
		n += m
	}
	return n, err
}
