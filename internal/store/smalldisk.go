package store

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// smallDiskBytes is the size of a SmallDisk.
const smallDiskBytes = 1000 << 20

// SmallDisk is FS as a disk of 1,000 MiB of which so much is free as one says, for tests. All but the reserve costs nothing on it. Safe
// for concurrent use where FS is.
type SmallDisk struct {
	FS
	// Free is how many bytes are free without a reserve; at least what Held says.
	Free atomic.Uint64
	held atomic.Int64
}

// Held is how many bytes the reserve takes now.
func (d *SmallDisk) Held() int64 { return d.held.Load() }

// GetDiskUsage implements FS.
func (d *SmallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{TotalBytes: smallDiskBytes, AvailBytes: d.Free.Load() - uint64(d.held.Load())}, nil
}

// OpenReadWrite implements FS.
func (d *SmallDisk) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, c, o...)
	if err != nil || d.PathBase(name) != reserveName {
		return f, err
	}
	return smallReserve{f, d}, nil
}

// Remove implements FS.
func (d *SmallDisk) Remove(name string) error {
	if d.PathBase(name) == reserveName {
		d.held.Store(0)
	}
	return d.FS.Remove(name)
}

// smallReserve is the reserve's file, whose size is noted and not taken.
type smallReserve struct {
	vfs.File
	d *SmallDisk
}

func (f smallReserve) Preallocate(_, size int64) error { f.d.held.Store(size); return nil }
