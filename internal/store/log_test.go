package store

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestRecycle: a log that is cut regularly lives in the same few files.
func TestRecycle(t *testing.T) {
	mem := vfs.NewCrashableMem()
	fs := &opFS{FS: mem}
	d, l, err := openDirLog(fs, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer l.Close()
	for i := uint64(1); i <= 400; i++ {
		if i == 100 {
			fs.after = func(op string) {
				if op[:4] == "open" {
					t.Errorf("%s at entry %d, though there are files to recycle", op, i)
				}
			}
		}
		mustAppend(t, l, Append{State: HardState{Term: 1}, Entries: run(i, i, 1, 3000)})
		if err := l.Cut(i - min(i, 12)); err != nil {
			t.Fatal(err)
		}
	}
	names, err := mem.List("/data/log")
	if err != nil || len(names) > 6 || l.lastSeq < 30 {
		t.Errorf("%d files for segment %d: %v, %v", len(names), l.lastSeq, names, err)
	}
}

// TestPrepare: Prepare stops when there is enough, and appends into what it prepared make no file grow.
func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(Options{Dir: dir, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l, err := d.OpenLog(LogOptions{SegmentBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	prepare := func() {
		for n, more := 0, true; more; n++ {
			if more, err = l.Prepare(); err != nil || n > 100 {
				t.Fatalf("step %d: %v", n, err)
			}
		}
	}
	size := func() (n int64) {
		files, err := os.ReadDir(dir + "/log")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			n += info.Size()
		}
		return n
	}
	mustAppend(t, l, Append{State: HardState{Term: 1}, Entries: run(1, 1, 1, 300<<10)})
	mustAppend(t, l, Append{Entries: run(2, 2, 1, 300<<10)})
	prepare()
	before := size()
	mustAppend(t, l, Append{Entries: run(3, 3, 1, 300<<10)})
	mustAppend(t, l, Append{Entries: run(4, 4, 1, 300<<10)}) // the next segment
	if l.lastSeq != 2 || size() != before {
		t.Errorf("segment %d; %d bytes grew to %d", l.lastSeq, before, size())
	}
	want(t, l, append(run(1, 3, 1, 300<<10), run(4, 4, 1, 300<<10)...))
}

// TestFullDisk: a full disk is ErrFull for an append, and for Prepare no error at all (fault 49).
func TestFullDisk(t *testing.T) {
	fs := &faultFS{FS: vfs.NewCrashableMem()}
	d, l, err := openDirLog(fs, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer l.Close()
	mustAppend(t, l, Append{State: HardState{Term: 1}, Entries: run(1, 1, 1, 24<<10)})
	fs.open = syscall.ENOSPC
	if more, err := l.Prepare(); more || err != nil {
		t.Errorf("prepare on a full disk: %v, %v", more, err)
	}
	if err := l.Append(Append{Entries: run(2, 2, 1, 24<<10)}); !errors.Is(err, ErrFull) {
		t.Errorf("append on a full disk: %v", err)
	}
	fs.open = nil
	d2, l2, err := openDirLog(CrashFS(fs.FS, 1, 50), smallLog)
	if err != nil || l2.LastIndex() != 1 {
		t.Fatalf("afterwards: %v", err)
	}
	l2.Close()
	d2.Close()
}

// TestShortWrite: half a batch written is an error now and no entry later (fault 47).
func TestShortWrite(t *testing.T) {
	fs := &faultFS{FS: vfs.NewCrashableMem()}
	d, l, err := openDirLog(fs, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, Append{State: HardState{Term: 1}, Entries: run(1, 1, 1, 100)})
	fs.write = errors.New("EIO")
	if err := l.Append(Append{Entries: run(2, 2, 1, 9000)}); !errors.Is(err, ErrDisk) {
		t.Errorf("a failed write: %v", err)
	}
	if _, err := l.Prepare(); !errors.Is(err, ErrDisk) {
		t.Errorf("prepare afterwards: %v", err)
	}
	l.Close()
	d.Close()
	fs.write = nil
	d, l, err = openDirLog(fs, smallLog)
	if err != nil || l.LastIndex() != 1 {
		t.Fatalf("opened again: %v", err)
	}
	mustAppend(t, l, Append{Entries: run(2, 2, 1, 50)})
	want(t, l, append(run(1, 1, 1, 100), run(2, 2, 1, 50)...))
	l.Close()
	d.Close()
}

// TestConcurrentReads: readers see every entry as it was appended, or that it was cut, while the log is appended to,
// cut and recycled.
func TestConcurrentReads(t *testing.T) {
	d, l, err := openDirLog(vfs.NewCrashableMem(), smallLog)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer l.Close()
	var stop atomic.Bool
	var fromDisk atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				lo, last := l.FirstIndex(), l.LastIndex()
				if lo > last {
					continue
				}
				got, err := l.Entries(nil, lo, last+1, 0)
				if errors.Is(err, ErrCut) {
					continue
				}
				if err != nil || uint64(len(got)) != last+1-lo {
					t.Errorf("%d to %d: %d entries, %v", lo, last, len(got), err)
					return
				}
				for i, e := range got {
					if e.Index != lo+uint64(i) || len(e.Data) < 2 || e.Data[0] != byte(e.Index) {
						t.Errorf("entry %d: %+v", lo+uint64(i), e.Index)
						return
					}
				}
				fromDisk.Add(1)
			}
		})
	}
	for i := uint64(1); i <= 1500; i++ {
		mustAppend(t, l, Append{State: HardState{Term: 1}, Entries: run(i, i, 1, 2000)})
		if i%40 == 0 {
			if err := l.Cut(i - 20); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	if fromDisk.Load() == 0 {
		t.Error("no reader read anything")
	}
}

// TestForeignSegments: a log of another node or a newer format is refused, and nothing is written (faults 62, 65).
func TestForeignSegments(t *testing.T) {
	w := writeLog(t)
	header := func(change func(h *segmentHeader)) FS {
		return w.edit(t, 2, func(b []byte) []byte {
			var h segmentHeader
			if !h.decode(b) {
				t.Fatal("no header")
			}
			change(&h)
			h.encode(b)
			return b
		})
	}
	for _, c := range []struct {
		fs   FS
		want error
	}{
		{header(func(h *segmentHeader) { h.node = 2 }), ErrForeign},
		{header(func(h *segmentHeader) { h.cluster[3] = 1 }), ErrForeign},
		{header(func(h *segmentHeader) { h.version = 2 }), ErrVersion},
	} {
		before := c.fs.(*vfs.MemFS).String()
		if _, _, err := openDirLog(c.fs, smallLog); !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
		if after := c.fs.(*vfs.MemFS).String(); after != before {
			t.Errorf("changed:\n%s\n%s", before, after)
		}
	}
}

// TestVoters: the list survives, a damaged one is told.
func TestVoters(t *testing.T) {
	d, err := Open(Options{Dir: "/d", FS: vfs.NewMem(), Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if v, err := d.Voters(); v != nil || err != nil {
		t.Errorf("before: %v, %v", v, err)
	}
	if err := d.SetVoters([]uint64{1, 2, 30}); err != nil {
		t.Fatal(err)
	}
	if v, err := d.Voters(); len(v) != 3 || v[2] != 30 || err != nil {
		t.Errorf("after: %v, %v", v, err)
	}
	good := encodeVoters([]uint64{1, 2, 30})
	for i := range good {
		if _, ok := decodeVoters(good[:i]); ok {
			t.Errorf("%d bytes of it are taken", i)
		}
		bad := append([]byte(nil), good...)
		bad[i] ^= 1
		if _, ok := decodeVoters(bad); ok {
			t.Errorf("%q is taken", bad)
		}
	}
}

// run makes entries lo to hi, of some size each.
func run(lo, hi, term uint64, size int) (entries []Entry) {
	for i := lo; i <= hi; i++ {
		entries = append(entries, Entry{Index: i, Term: term, Type: uint8(i % 3), Data: bytes.Repeat([]byte{byte(i), byte(term)}, size/2)})
	}
	return entries
}

func mustAppend(t *testing.T, l *Log, a Append) {
	t.Helper()
	if err := l.Append(a); err != nil {
		t.Fatal(err)
	}
}

// want reads entries and compares.
func want(t *testing.T, l *Log, entries []Entry) {
	t.Helper()
	got, err := l.Entries(nil, entries[0].Index, entries[len(entries)-1].Index+1, 0)
	same := func(x, y Entry) bool { return x.Index == y.Index && x.Term == y.Term && bytes.Equal(x.Data, y.Data) }
	if err != nil || !slices.EqualFunc(got, entries, same) {
		t.Fatalf("%d of %d entries from %d on, or others: %v", len(got), len(entries), entries[0].Index, err)
	}
}

// TestSegmentSizes: sizes that make no sense are refused.
func TestSegmentSizes(t *testing.T) {
	d, l, err := openDirLog(vfs.NewCrashableMem(), smallLog)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer l.Close()
	for _, size := range []int64{1, 2 << 30} {
		if _, err := d.OpenLog(LogOptions{SegmentBytes: size}); err == nil {
			t.Errorf("segments of %d bytes", size)
		}
	}
}
