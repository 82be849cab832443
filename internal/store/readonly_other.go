//go:build !unix

package store

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockRead takes the lock of a node: there is no other here.
func lockRead(dir, path string) (io.Closer, error) {
	lock, err := vfs.Default.Lock(path)
	if err != nil {
		return nil, lockError(dir, err)
	}
	return lock, nil
}
