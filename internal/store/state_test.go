package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func openState(t testing.TB, fs FS, opts StateOptions) (*Dir, *State) {
	t.Helper()
	d, err := Open(Options{Dir: "/data", FS: fs, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.OpenState(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return d, s
}

// TestStateCrash: after a crash at any moment the state is exactly that of one earlier applied index, at least the one
// that DurableIndex had said (6.1, 6.2).
func TestStateCrash(t *testing.T) {
	mem := vfs.NewCrashableMem()
	_, s := openState(t, mem, StateOptions{MemTableBytes: 512 << 10})
	b := s.NewBatch()

	var want [][]byte // want[i] is the digest of the state at applied index i
	digest := func(s *State) []byte {
		var sum []byte
		if err := s.Iterate([]byte{0, 0}, func(k, v []byte) bool {
			sum = binary.LittleEndian.AppendUint32(append(sum, k[2:]...), uint32(len(v)))
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return sum
	}
	want = append(want, nil)
	key := func(i uint64) []byte { return fmt.Appendf([]byte{0, 0}, "%06d", i) }
	rose := map[uint64]bool{}
	for i := uint64(1); i <= 600; i++ {
		b.Put(key(i), bytes.Repeat([]byte{byte(i)}, 3000))
		if i > 5 {
			b.Delete(key(i - 5))
		}
		if i%50 == 0 {
			b.DeleteRange(key(i-20), key(i-2))
		}
		if err := s.Apply(b, i); err != nil {
			t.Fatal(err)
		}
		want = append(want, digest(s))
		if i%10 != 0 {
			continue
		}
		durable, err := s.DurableIndex()
		if err != nil {
			t.Fatal(err)
		}
		d2, err := Open(Options{Dir: "/data", FS: CrashFS(mem, i, int(i/10%3)*50), Node: 1})
		if err != nil {
			t.Fatal(err)
		}
		s2, err := d2.OpenState(StateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		applied := s2.AppliedIndex()
		if applied < durable || applied > i {
			t.Fatalf("after a crash at %d: applied index %d, durable was %d", i, applied, durable)
		}
		if !bytes.Equal(digest(s2), want[applied]) {
			t.Fatalf("after a crash at %d: the state is not that of applied index %d", i, applied)
		}
		rose[applied] = true
		s2.Close()
		d2.Close()
	}
	if len(rose) < 3 {
		t.Errorf("flushed too rarely to show anything: %v", rose)
	}
}

// TestStateReads: get, iterate and ranges; a batch is empty after Apply.
func TestStateReads(t *testing.T) {
	_, s := openState(t, vfs.NewCrashableMem(), StateOptions{})
	b := s.NewBatch()

	for _, k := range []string{"a", "ab", "abc", "b", "\xff\xfe"} {
		b.Put([]byte(k), []byte("value of "+k))
	}
	if b.Empty() || b.Len() < 20 {
		t.Error("the batch says it is empty")
	}
	if err := s.Apply(b, 1); err != nil {
		t.Fatal(err)
	}
	if !b.Empty() {
		t.Error("the batch is not empty after Apply")
	}
	if v, ok, err := s.Get([]byte("ab"), []byte("> ")); string(v) != "> value of ab" || !ok || err != nil {
		t.Errorf("get: %q %v %v", v, ok, err)
	}
	if v, ok, err := s.Get([]byte("abd"), nil); len(v) != 0 || ok || err != nil {
		t.Errorf("get of nothing: %q %v %v", v, ok, err)
	}
	for _, c := range []struct {
		prefix string
		limit  int
		want   string
	}{{"a", 9, "a ab abc "}, {"a", 2, "a ab "}, {"ab", 9, "ab abc "}, {"\xff\xfe", 9, "\xff\xfe "}, {"c", 9, ""}} {
		got := ""
		err := s.Iterate([]byte(c.prefix), func(k, v []byte) bool {
			got += string(k) + " "
			c.limit--
			return c.limit > 0
		})
		if err != nil || got != c.want {
			t.Errorf("prefix %q: %q, %v", c.prefix, got, err)
		}
	}
	if end := prefixEnd([]byte{1, 0xFF, 0xFF}); !bytes.Equal(end, []byte{2}) {
		t.Errorf("end of a prefix: %x", end)
	}
	if end := prefixEnd([]byte{0xFF, 0xFF}); end != nil {
		t.Errorf("end of the last prefix: %x", end)
	}
}

// TestFlushError: a failed background flush is fatal [6.1].
func TestFlushError(t *testing.T) {
	mem := vfs.NewCrashableMem()
	fs := &createFails{FS: mem}
	d, err := Open(Options{Dir: "/data", FS: fs, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	fatal := make(chan error, 100)
	s, err := d.OpenState(StateOptions{Fatal: func(err error) {
		fs.fail.Store(false) // so that the flush, which Pebble repeats, ends
		fatal <- err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fs.fail.Store(true)
	if err := s.Apply(nil, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := <-fatal; !errors.Is(err, ErrDisk) {
		t.Errorf("fatal error: %v", err)
	}
}

// createFails fails to make tables.
type createFails struct {
	FS
	fail atomic.Bool
}

func (fs *createFails) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if fs.fail.Load() {
		return nil, errors.New("EIO")
	}
	return fs.FS.Create(name, c)
}

// TestSpillInApply: a full buffer is in Pebble when Apply returns, and what is applied then is all there.
func TestSpillInApply(t *testing.T) {
	_, s := openState(t, vfs.NewCrashableMem(), StateOptions{SpillInApply: true})
	b := s.NewBatch()
	key := func(i uint64) []byte { return fmt.Appendf([]byte{0, 0}, "%06d", i) }
	var spilled []uint64
	for i := uint64(1); i <= 300; i++ {
		b.Put(key(i), make([]byte, 10<<10))
		if err := s.Apply(b, i); err != nil {
			t.Fatal(err)
		}
		if got, err := s.readApplied(&pebble.IterOptions{}); err != nil {
			t.Fatal(err)
		} else if got == i {
			spilled = append(spilled, i)
		}
	}
	// 1 MiB at a time, of 10 KiB each.
	if len(spilled) != 2 || spilled[1] != 2*spilled[0] {
		t.Errorf("spilled at %v", spilled)
	}
	n := 0
	if err := s.Iterate([]byte{0, 0}, func(_, _ []byte) bool { n++; return true }); err != nil || n != 300 {
		t.Errorf("%d keys, %v", n, err)
	}
}

// TestBegin: what a start needs, and the parts of a directory that don't fit each other (faults 58, 61).
func TestBegin(t *testing.T) {
	for _, c := range []struct {
		name    string
		last    uint64 // entries in the log
		commit  uint64
		applied uint64
		want    error
		commits uint64
	}{
		{"new", 0, 0, 0, nil, 0},
		{"replay", 9, 7, 3, nil, 7},
		{"commit index not synced", 9, 2, 5, nil, 5},
		{"end of the log gone", 4, 4, 5, ErrCorrupt, 0},
		{"commit behind the end", 4, 6, 3, ErrCorrupt, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, s := openState(t, vfs.NewCrashableMem(), StateOptions{})
			l, err := d.OpenLog(smallLog)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			a := Append{State: HardState{Term: 1, Commit: c.commit}}
			for i := range c.last {
				a.Entries = append(a.Entries, Entry{Index: i + 1, Term: 1})
			}
			if c.last > 0 {
				if err := l.Append(a); err != nil {
					t.Fatal(err)
				}
			}
			if c.applied > 0 {
				if err := s.Apply(nil, c.applied); err != nil {
					t.Fatal(err)
				}
			}
			start, err := Begin(l, s)
			if !errors.Is(err, c.want) || err == nil && start.State.Commit != c.commits {
				t.Errorf("%+v, %v", start, err)
			}
		})
	}
}

// TestStateVersion: a state of a newer format is refused by name.
func TestStateVersion(t *testing.T) {
	mem := vfs.NewCrashableMem()
	d, err := Open(Options{Dir: "/data", FS: mem, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := d.OpenState(StateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	f, err := mem.Create("/data/state/marker.format-version.000900.999", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := d.OpenState(StateOptions{}); !errors.Is(err, ErrVersion) {
		t.Errorf("a newer format: %v", err)
	}
}

// TestDeletedRangesFreeTheDisk: the tables of what a range has deleted are gone soon after a flush, without being rewritten.
func TestDeletedRangesFreeTheDisk(t *testing.T) {
	_, s := openState(t, vfs.NewMem(), StateOptions{})
	b := s.NewBatch()
	body := bytes.Repeat([]byte("x"), 1000)
	key := func(i int) []byte { return binary.BigEndian.AppendUint64([]byte{0, 0, 0x80}, uint64(i)) }
	const n = 60_000
	for i := range n {
		b.Insert(key(i), body)
		if i%100 == 99 {
			if err := s.Apply(b, uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(s.Flush(), s.Compact()); err != nil { // below the first level: the last few tables there wait for the next compaction
		t.Fatal(err)
	}
	size := func() uint64 { return s.db.Metrics().DiskSpaceUsage() }
	if size() < n*1000 {
		t.Fatalf("%d bytes on disk for %d messages of 1 KB", size(), n)
	}
	for i := 0; i < n; i += 1000 {
		b.DeleteRange(key(i), key(i+1000))
		if err := s.Apply(b, uint64(n+i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); size() > n*1000/4; runtime.Gosched() {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("%d bytes on disk after the deletion:\n%s", size(), s.Report())
		}
	}
}
