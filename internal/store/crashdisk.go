package store

import (
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// CrashDisk is a file system in memory that knows what is synced, for simulators: what a loss of power leaves of the rest
// hangs on the calls and a source of chance alone, and may be anything that a disk with sectors of 512 bytes and a file
// system without an order of its own could leave. Safe for concurrent use, but for what it gives back and what is called in the middle of it.
type CrashDisk struct {
	FS      // of paths only
	mu      sync.Mutex
	names   map[string]*inode
	durable map[string]*inode // of synced directories
	moves   []move            // names that changed since, oldest first
	locked  map[string]bool
	gone    func() bool
	ordered func(dir string) bool // nil: none
}

// inode is a file or a directory.
type inode struct {
	dir    bool
	data   []byte
	synced []byte
	dirty  [][2]int // what was written since the last sync, from and to
}

// move is a change of names in one directory.
type move struct {
	dir, gone, name string // gone or name may be empty
	node            *inode
}

// Left says what a crash left of what was not synced.
type Left struct {
	// Lost, Torn, Reordered, Zeros: bytes are gone; of one write a part is there; a later part without an earlier one; the file has
	// its new length, with zeros in it.
	Lost, Torn, Reordered, Zeros bool
	// Names: a new name, or a change of one, is gone.
	Names bool
}

const sectorBytes = 512

// NewCrashDisk returns an empty disk.
func NewCrashDisk() *CrashDisk {
	root := map[string]*inode{"/": {dir: true}}
	return &CrashDisk{FS: vfs.NewMem(), names: root, durable: maps.Clone(root), locked: map[string]bool{}}
}

// InOrder says of which directories the changes of names reach the disk in their order, as they do with a journal: without it any
// of them may be there without an earlier one.
func (d *CrashDisk) InOrder(ordered func(dir string) bool) { d.ordered = ordered }

// Crash returns the disk after a loss of power now; d itself is the past. A nil rng leaves what is synced and nothing else.
func (d *CrashDisk) Crash(rng *rand.Rand) (after *CrashDisk, left Left) {
	return d.crash(rng, draw(rng, 3))
}

// CrashKeeping is Crash of which is known how much of what isn't synced is kept: nothing (0), everything (100), or any of it, as rng draws.
func (d *CrashDisk) CrashKeeping(percent int, rng *rand.Rand) *CrashDisk {
	how := 2
	switch percent {
	case 0:
		rng, how = nil, 0
	case 100:
		rng, how = nil, 1
	}
	after, _ := d.crash(rng, how)
	return after
}

// crash keeps of the changes of names none (0), all (1), or any (2); a nil rng all or nothing of data as well.
func (d *CrashDisk) crash(rng *rand.Rand, how int) (after *CrashDisk, left Left) {
	d.mu.Lock()
	defer d.mu.Unlock()
	after = NewCrashDisk()
	after.ordered = d.ordered
	names := maps.Clone(d.durable)
	ended := map[string]bool{} // ordered directories of which the rest is lost
	for _, m := range d.moves {
		keep := how == 1 || how == 2 && rng.IntN(2) == 0
		if d.ordered != nil && d.ordered(m.dir) {
			keep = how == 1 || how == 2 && rng.IntN(8) > 0 && !ended[m.dir]
			ended[m.dir] = !keep
		}
		if keep {
			m.do(names)
		} else {
			left.Names = true
		}
	}
	done := map[*inode]*inode{}               // a file may have several names
	for _, name := range sortedNames(names) { // parents first
		if _, ok := after.names[path.Dir(name)]; !ok || name == "/" {
			continue
		}
		f := names[name]
		switch {
		case done[f] != nil:
		case rng == nil && how == 1:
			done[f] = f.copy()
		default:
			done[f] = f.crash(rng, &left)
		}
		after.names[name] = done[f]
	}
	after.durable = maps.Clone(after.names)
	return after, left
}

func draw(rng *rand.Rand, n int) int {
	if rng == nil {
		return 0
	}
	return rng.IntN(n)
}

func sortedNames(names map[string]*inode) []string { return slices.Sorted(maps.Keys(names)) }

// copy leaves everything.
func (f *inode) copy() *inode {
	return &inode{dir: f.dir, data: slices.Clone(f.data), synced: slices.Clone(f.data)}
}

// crash leaves of the unsynced sectors none, all, the first ones, any, or zeros in place of the last ones.
func (f *inode) crash(rng *rand.Rand, left *Left) *inode {
	after := &inode{dir: f.dir, data: slices.Clone(f.synced)}
	how := 0
	if len(f.dirty) > 0 {
		how = draw(rng, 5)
	}
	total, at := 0, 0
	for _, s := range f.dirty {
		total += (s[1] - s[0] + sectorBytes - 1) / sectorBytes
	}
	end := 0
	if how >= 2 {
		end = rng.IntN(total + 1)
	}
	lost := false // so far
	for _, s := range f.dirty {
		kept, dropped := false, false
		for from := s[0]; from < s[1]; from += sectorBytes {
			to := min(from+sectorBytes, s[1])
			if how == 1 || how >= 2 && how != 3 && at < end || how == 3 && rng.IntN(2) == 0 {
				after.write(f.data[from:to], from)
				kept = true
				left.Reordered = left.Reordered || lost
			} else {
				lost, dropped = true, true
			}
			at++
		}
		left.Torn = left.Torn || kept && dropped
	}
	left.Lost = left.Lost || lost
	if how == 4 && len(after.data) < len(f.data) {
		after.data = append(after.data, make([]byte, len(f.data)-len(after.data))...)
		left.Zeros = true
	}
	after.synced, after.dirty = slices.Clone(after.data), nil
	return after
}

// Unplug has gone asked before every write, sync and change of a name, directories included; once it says true nothing is done
// any more, with EIO, until the Crash.
func (d *CrashDisk) Unplug(gone func() bool) { d.gone = gone }

// power is EIO where it is gone.
func (d *CrashDisk) power() error {
	if d.gone != nil && d.gone() {
		return syscall.EIO
	}
	return nil
}

// Flip changes one bit of a file whose name fits, drawn among all of their bytes that aren't zero: what a disk has when it
// says nothing and is wrong. It says which; "" where there is none.
func (d *CrashDisk) Flip(rng *rand.Rand, fits func(name string) bool) (name string, offset int) {
	var files []string
	for _, name := range sortedNames(d.names) {
		if f := d.names[name]; !f.dir && len(f.data) > 0 && fits(name) {
			files = append(files, name)
		}
	}
	if len(files) == 0 {
		return "", 0
	}
	name = files[rng.IntN(len(files))]
	f := d.names[name]
	for range 1000 {
		if offset = rng.IntN(len(f.data)); f.data[offset] != 0 {
			bit := byte(1) << rng.IntN(8)
			f.data[offset] ^= bit
			if offset < len(f.synced) {
				f.synced[offset] ^= bit
			}
			return name, offset
		}
	}
	return "", 0
}

// write writes at an offset, without a note of it for a crash.
func (f *inode) write(b []byte, at int) {
	if grow := at + len(b) - len(f.data); grow > 0 {
		f.data = append(f.data, make([]byte, grow)...)
	}
	copy(f.data[at:], b)
}

func (f *inode) sync() {
	for _, s := range f.dirty {
		if grow := s[1] - len(f.synced); grow > 0 {
			f.synced = append(f.synced, make([]byte, grow)...)
		}
		copy(f.synced[s[0]:s[1]], f.data[s[0]:s[1]])
	}
	f.dirty = f.dirty[:0]
}

// forget is what an operating system does after a failed sync: what was to be written counts as clean, and a further sync
// passes over it. Readers go on seeing it.
func (f *inode) forget() { f.dirty = f.dirty[:0] }

func (m *move) do(names map[string]*inode) {
	delete(names, m.gone)
	if m.name != "" {
		names[m.name] = m.node
	}
}

// change changes names, durably once the directory is synced.
func (d *CrashDisk) change(gone, name string, node *inode) {
	m := move{dir: path.Dir(gone + name), gone: gone, name: name, node: node}
	if gone != "" {
		m.dir = path.Dir(gone)
	}
	m.do(d.names)
	d.moves = append(d.moves, m)
}

// syncDir makes the names in a directory durable.
func (d *CrashDisk) syncDir(dir string) {
	rest := d.moves[:0]
	for _, m := range d.moves {
		if m.dir == dir {
			m.do(d.durable)
		} else {
			rest = append(rest, m)
		}
	}
	d.moves = rest
}

func (d *CrashDisk) find(op, name string) (*inode, error) {
	if f := d.names[path.Clean(name)]; f != nil {
		return f, nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// Create implements FS.
func (d *CrashDisk) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.create(name)
}

func (d *CrashDisk) create(name string) (vfs.File, error) {
	if _, err := d.find("create", path.Dir(name)); err != nil {
		return nil, err
	}
	if err := d.power(); err != nil {
		return nil, err
	}
	f := &inode{}
	d.change("", path.Clean(name), f)
	return &crashFile{d: d, name: path.Clean(name), f: f}, nil
}

// open is Open with mu held.
func (d *CrashDisk) open(name string) (vfs.File, error) {
	f, err := d.find("open", name)
	if err != nil {
		return nil, err
	}
	return &crashFile{d: d, name: path.Clean(name), f: f}, nil
}

// Open implements FS.
func (d *CrashDisk) Open(name string, _ ...vfs.OpenOption) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open(name)
}

// OpenReadWrite implements FS.
func (d *CrashDisk) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.openOrCreate(name)
}

func (d *CrashDisk) openOrCreate(name string) (vfs.File, error) {
	if _, err := d.find("open", name); err != nil {
		return d.create(name)
	}
	return d.open(name)
}

// OpenDir implements FS.
func (d *CrashDisk) OpenDir(name string) (vfs.File, error) { return d.Open(name) }

// Remove implements FS.
func (d *CrashDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.find("remove", name); err != nil {
		return err
	}
	if err := d.power(); err != nil {
		return err
	}
	d.change(path.Clean(name), "", nil)
	return nil
}

// Rename implements FS. Both names are in one directory, and a crash leaves the one or the other.
func (d *CrashDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.find("rename", from)
	if err != nil {
		return err
	}
	if err := d.power(); err != nil {
		return err
	}
	d.change(path.Clean(from), path.Clean(to), f)
	return nil
}

// MkdirAll implements FS.
func (d *CrashDisk) MkdirAll(name string, _ fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mkdirAll(name)
}

func (d *CrashDisk) mkdirAll(name string) error {
	name = path.Clean(name)
	if d.names[name] != nil {
		return nil
	}
	if err := d.mkdirAll(path.Dir(name)); err != nil {
		return err
	}
	if err := d.power(); err != nil {
		return err
	}
	d.change("", name, &inode{dir: true})
	return nil
}

// Lock implements FS.
func (d *CrashDisk) Lock(name string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = path.Clean(name)
	if d.locked[name] {
		return nil, syscall.EAGAIN
	}
	if _, err := d.openOrCreate(name); err != nil {
		return nil, err
	}
	d.locked[name] = true
	return unlock(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.locked, name)
	}), nil
}

type unlock func()

func (u unlock) Close() error { u(); return nil }

// List implements FS.
func (d *CrashDisk) List(dir string) (names []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir = path.Clean(dir)
	for _, name := range sortedNames(d.names) {
		if path.Dir(name) == dir && name != "/" {
			names = append(names, strings.TrimPrefix(name[len(dir):], "/"))
		}
	}
	return names, nil
}

// Stat implements FS.
func (d *CrashDisk) Stat(name string) (vfs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.find("stat", name)
	if err != nil {
		return nil, err
	}
	return crashInfo{name, len(f.data), f.dir}, nil
}
