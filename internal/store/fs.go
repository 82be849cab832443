package store

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is a file system: the operating system's, or one in memory for tests and the simulator.
type FS = vfs.FS

// NewMemFS returns an empty file system in memory that can crash (CrashFS).
func NewMemFS() FS { return vfs.NewCrashableMem() }

// CrashFS returns what a file system of NewMemFS would hold after a loss of power now: everything synced, and of what is
// not synced about percent of 100 (directory entries, 4 KiB blocks), chosen by seed and the order of maps: only 0 and 100 give
// the same every time. fs itself stays as it is. It panics on any other file system.
func CrashFS(fs FS, seed uint64, percent int) FS {
	mem, ok := fs.(*vfs.MemFS)
	if !ok {
		panic(fmt.Sprintf("oncemq: CrashFS of a %T", fs))
	}
	return mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, uint64(percent)))})
}

// syncDir makes the names in a directory durable.
func syncDir(fs FS, path string) error {
	dir, err := fs.OpenDir(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if e := dir.Close(); err == nil {
		err = e
	}
	return err
}

// makeDirs makes a directory, and those above it, durably: without the name of a directory far above, all that is synced in
// it is lost with the power.
func makeDirs(fs FS, path string) error {
	above := []string{fs.PathDir(path)} // to be synced; the one above path always, a process may have died before it did
	for above[len(above)-1] != fs.PathDir(above[len(above)-1]) {
		if _, err := fs.Stat(above[len(above)-1]); err == nil {
			break
		}
		above = append(above, fs.PathDir(above[len(above)-1]))
	}
	if err := fs.MkdirAll(path, 0o700); err != nil {
		return err
	}
	for _, dir := range above {
		if err := syncDir(fs, dir); err != nil {
			return fmt.Errorf("syncing %s: %w", dir, err)
		}
	}
	return nil
}

// replaceFile replaces a file or makes it, so that after a crash it holds the old bytes or the new ones: a temporary file,
// synced, renamed, and the directory synced. An error is ErrDisk.
func replaceFile(fs FS, dir, name string, b []byte) error {
	path := fs.PathJoin(dir, name)
	f, err := fs.Create(path+".tmp", vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(b)
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = fs.Rename(path+".tmp", path)
	}
	if err == nil {
		err = syncDir(fs, dir)
	}
	if err != nil {
		return fmt.Errorf("%w: writing %s: %w", ErrDisk, path, err)
	}
	return nil
}

// readFull reads len(b) bytes at offset; what lies behind the end of the file reads as zeros. It returns how much the
// file held.
func readFull(f vfs.File, b []byte, offset int64) (int, error) {
	n, err := f.ReadAt(b, offset)
	if n < len(b) {
		clear(b[n:])
		if isEOF(err) {
			err = nil
		}
	} else {
		err = nil
	}
	return n, err
}
