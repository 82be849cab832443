package store

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// dropCached has the system forget what it keeps of a part of a file in memory, but for what isn't written yet: a reader that looks for
// damage wants to see the disk.
func dropCached(f vfs.File, offset, length int64) {
	if fd := f.Fd(); fd != vfs.InvalidFd {
		_ = unix.Fadvise(int(fd), offset, length, unix.FADV_DONTNEED)
	}
}
