package store

import (
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Fault is what becomes of one write or sync of a file. The zero value: it is done.
type Fault struct {
	// Err is what the call returns. A sync that fails leaves what it was for neither on the disk nor, in the eyes of the next sync, to
	// be written (CrashDisk only).
	Err error
	// Bytes is how much of a write reaches the file before Err.
	Bytes int
	// Lie leaves a sync out.
	Lie bool
}

// FaultFS is fs with a disk that fails and lies, for simulators: decide is asked before every write (its bytes) and every
// sync (0 bytes) of a file, but for directories. Its files are those of fs.
func FaultFS(fs FS, decide func(name string, bytes int) Fault) FS { return &failingFS{fs, decide} }

type failingFS struct {
	FS
	decide func(name string, bytes int) Fault
}

type failingFile struct {
	vfs.File
	fs   *failingFS
	name string
}

func (fs *failingFS) file(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &failingFile{f, fs, name}, nil
}

func (fs *failingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	return fs.file(name, f, err)
}

func (fs *failingFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, c, o...)
	return fs.file(name, f, err)
}

func (fs *failingFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(old, name, c)
	return fs.file(name, f, err)
}

func (f *failingFile) Write(b []byte) (int, error) {
	return f.write(b, f.File.Write)
}

func (f *failingFile) WriteAt(b []byte, at int64) (int, error) {
	return f.write(b, func(b []byte) (int, error) { return f.File.WriteAt(b, at) })
}

func (f *failingFile) write(b []byte, write func([]byte) (int, error)) (int, error) {
	fault := f.fs.decide(f.name, len(b))
	if fault.Err == nil {
		return write(b)
	}
	n, err := write(b[:min(fault.Bytes, len(b))])
	if err == nil {
		err = fault.Err
	}
	return n, err
}

func (f *failingFile) Sync() error { return f.sync(f.File.Sync) }

func (f *failingFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *failingFile) sync(sync func() error) error {
	switch fault := f.fs.decide(f.name, 0); {
	case fault.Err != nil:
		if cf, ok := f.File.(*crashFile); ok {
			cf.d.mu.Lock()
			cf.f.forget()
			cf.d.mu.Unlock()
		}
		return fault.Err
	case fault.Lie:
		return nil
	default:
		return sync()
	}
}

// FlipBit changes a bit of a file of an FS of NewMemFS, durably, and says at which offset.
func FlipBit(fs FS, name string, rng *rand.Rand) (offset int64, err error) {
	f, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	offset = rng.Int64N(info.Size())
	var b [1]byte
	if _, err = f.ReadAt(b[:], offset); err != nil {
		return offset, err
	}
	b[0] ^= 1 << rng.IntN(8)
	if _, err = f.WriteAt(b[:], offset); err != nil {
		return offset, err
	}
	return offset, f.Sync()
}
