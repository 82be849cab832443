package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// unpaced is the Pace of who doesn't wait.
func unpaced(int) error { return nil }

// scrubbedLog is a log of several segments.
func scrubbedLog(t *testing.T, files FS) *Log {
	t.Helper()
	d, l, err := openBare(files, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); d.Close() })
	for i := uint64(1); i <= 40; i += 4 {
		mustAppend(t, l, Append{State: HardState{Term: 1}, Entries: run(i, i+3, 1, 2000)})
	}
	if len(l.live) < 4 {
		t.Fatalf("%d segments", len(l.live))
	}
	return l
}

// TestScrubLog: a bit that is another, in whatever segment, is found while the log is in use (C14; fault 56).
func TestScrubLog(t *testing.T) {
	mem := vfs.NewCrashableMem()
	l := scrubbedLog(t, mem)
	read := 0
	if err := l.Scrub(func(n int) error { read += n; return nil }); err != nil || read == 0 {
		t.Fatalf("a sound log: %v, %d bytes", err, read)
	}
	for _, seg := range l.live {
		for _, at := range []int64{20, blockBytes + 9, blockBytes + batchHeaderBytes + 50, seg.end - blockBytes} {
			path := l.path(seg.seq)
			flipByte(t, mem, path, at)
			if err := l.Scrub(unpaced); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
				t.Errorf("a bit at %d of %s: %v", at, path, err)
			}
			flipByte(t, mem, path, at)
		}
	}
	if err := l.Scrub(unpaced); err != nil {
		t.Errorf("all as it was: %v", err)
	}
	over := errors.New("over")
	if err := l.Scrub(func(int) error { return over }); !errors.Is(err, over) {
		t.Errorf("who paces ends it: %v", err)
	}
}

// TestScrubBesideWork: segments that are cut and written over while they are read are no damage.
func TestScrubBesideWork(t *testing.T) {
	files := &hookFS{FS: vfs.NewCrashableMem()}
	l := scrubbedLog(t, files)
	next := l.LastIndex() + 1
	work := func() {
		for range 5 {
			mustAppend(t, l, Append{Entries: run(next, next+3, 1, 2000)})
			next += 4
		}
		if err := l.Cut(next - 2); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Scrub(func(int) error { work(); return nil }); err != nil {
		t.Errorf("cut between two reads: %v", err)
	}
	files.read = func() { files.read = nil; work(); work() } // the file that is being read holds other batches then
	if err := l.Scrub(unpaced); err != nil {
		t.Errorf("cut and written over before a read: %v", err)
	}
	if files.read != nil {
		t.Error("nothing was read")
	}
}

// hookFS calls read before a file that is open for writing is read.
type hookFS struct {
	FS
	read func()
}

func (h *hookFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := h.FS.OpenReadWrite(name, c, o...)
	return &hookFile{f, h}, err
}

type hookFile struct {
	vfs.File
	fs *hookFS
}

func (f *hookFile) ReadAt(b []byte, at int64) (int, error) {
	if f.fs.read != nil {
		f.fs.read()
	}
	return f.File.ReadAt(b, at)
}

// TestScrubState: a bit that is another, in whatever table or the list of them, is found; a table that goes meanwhile is no damage.
func TestScrubState(t *testing.T) {
	mem := vfs.NewCrashableMem()
	d, err := Open(Options{Dir: "/data", FS: mem, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.OpenState(smallState)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); d.Close() })
	fill(t, s, map[string]string{}, "x", 1, 100)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	tables, err := usedTables(s.db)
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	if err := s.Scrub(unpaced); err != nil {
		t.Fatalf("a sound state: %v", err)
	}
	found := func(what, path string, at int64) {
		t.Helper()
		flipByte(t, mem, path, at)
		if err := s.Scrub(unpaced); LossOf(err) != LostState || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		flipByte(t, mem, path, at)
	}
	for _, name := range tables {
		path := mem.PathJoin(s.Path(), name)
		info, err := mem.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int64{3, info.Size() / 2, info.Size() - 3} {
			found("a table", path, at)
		}
	}
	names, err := mem.List(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST-") {
			found("a list of tables", mem.PathJoin(s.Path(), name), 30)
		}
	}
	if err := s.Scrub(func(int) error { return s.Compact() }); err != nil {
		t.Errorf("compacted meanwhile: %v", err)
	}
}
