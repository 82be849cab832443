//go:build unix

package store

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lockRead takes a read lock on a file, which excludes the write lock of a node.
func lockRead(dir, path string) (io.Closer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, lockError(dir, err)
	}
	spec := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &spec); err != nil {
		f.Close()
		return nil, lockError(dir, err)
	}
	return f, nil
}
