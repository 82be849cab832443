package store

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestAppendGoesOn: an append that finds no room, or room for a part, changes nothing; the same one again is done when there is
// room; and a crash in between, or behind it, finds what was appended (fault 49).
func TestAppendGoesOn(t *testing.T) {
	for _, begins := range []bool{false, true} { // within a segment; at the begin of one
		for _, percent := range []int{0, 50, 100} {
			fs := &faultFS{FS: vfs.NewCrashableMem()}
			d, l, err := openDirLog(fs, smallLog)
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, l, Append{State: HardState{Term: 1}, Entries: run(1, 1, 1, 100)})
			next := Append{State: HardState{Term: 2, Vote: 1}, Entries: run(2, 4, 2, 3000)}
			if begins {
				next.Entries = run(2, 4, 2, 20<<10)
			}
			for range 3 {
				fs.write = fmt.Errorf("writing: %w", syscall.ENOSPC) // half of it is written
				if err := l.Append(next); !errors.Is(err, ErrFull) || errors.Is(err, ErrDisk) {
					t.Fatalf("append without room: %v", err)
				}
				if _, err := l.Prepare(); err != nil {
					t.Fatalf("prepare without room: %v", err)
				}
				fs.write = nil
				wantCrashed(t, fs, percent, 1)
				if l.LastIndex() != 1 || l.HardState().Term != 1 {
					t.Fatalf("last %d, state %+v", l.LastIndex(), l.HardState())
				}
			}
			mustAppend(t, l, next)
			mustAppend(t, l, Append{Entries: run(5, 5, 2, 100)})
			want(t, l, append(run(1, 1, 1, 100), append(next.Entries, run(5, 5, 2, 100)...)...))
			wantCrashed(t, fs, percent, 5)
			l.Close()
			d.Close()
		}
	}
}

// wantCrashed opens what a loss of power leaves.
func wantCrashed(t *testing.T, fs *faultFS, percent int, last uint64) {
	t.Helper()
	d, l, err := openDirLog(CrashFS(fs.FS, 1, percent), smallLog)
	if err != nil || l.LastIndex() != last {
		t.Fatalf("after a crash, %d %% kept: %v", percent, err)
	}
	l.Close()
	d.Close()
}

// A sync that fails for want of room is as final as any other (C14).
func TestSyncWithoutRoomIsFinal(t *testing.T) {
	fail := false
	fs := FaultFS(vfs.NewCrashableMem(), func(_ string, bytes int) Fault {
		if fail && bytes == 0 {
			return Fault{Err: syscall.ENOSPC}
		}
		return Fault{}
	})
	d, l, err := openDirLog(fs, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer l.Close()
	fail = true
	if err := l.Append(Append{State: HardState{Term: 1}, Entries: run(1, 1, 1, 100)}); !errors.Is(err, ErrDisk) || errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
}

// littleRoom has room for so many bytes that are set aside.
type littleRoom struct {
	FS
	left int64
}

type littleRoomFile struct {
	vfs.File
	fs *littleRoom
}

func (fs *littleRoom) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, c, o...)
	if err != nil {
		return nil, err
	}
	return &littleRoomFile{f, fs}, nil
}

func (f *littleRoomFile) Preallocate(at, size int64) error {
	if size > f.fs.left {
		return syscall.ENOSPC
	}
	f.fs.left -= size
	return nil
}

// A log on a disk that is nearly full takes what room there is, in smaller segments, and gives back what it has set aside.
func TestTightLog(t *testing.T) {
	fs := &littleRoom{FS: vfs.NewCrashableMem(), left: 5 << 20}
	d, l, err := openDirLog(fs, LogOptions{SegmentBytes: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer l.Close()
	l.Tight(true)
	last := uint64(0)
	for {
		err := l.Append(Append{State: HardState{Term: 1}, Entries: run(last+1, last+1, 1, 200<<10)})
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil || last > 100 {
			t.Fatal(last, err)
		}
		last++
	}
	if fs.left >= leastSegment || last < 20 {
		t.Errorf("the disk is full behind %d entries, with room for %d bytes", last, fs.left)
	}
	names, err := fs.List("/data/log")
	if err != nil || len(names) != len(l.live) {
		t.Errorf("%v for %d segments: %v", names, len(l.live), err)
	}
	if err := l.Cut(last); err != nil {
		t.Fatal(err)
	}
	fs.left = 1 << 40
	mustAppend(t, l, Append{Entries: run(last+1, last+1, 1, 200<<10)})
	if len(l.ready) > 1 || len(l.live) > 2 {
		t.Errorf("%d segments are ready, %d in use", len(l.ready), len(l.live))
	}
	// With room again, and without: what was made ready meanwhile goes.
	l.Tight(false)
	for i := last + 2; i <= last+40; i++ {
		mustAppend(t, l, Append{Entries: run(i, i, 1, 200<<10)})
	}
	if err := l.Cut(last + 40); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		if more, err = l.Prepare(); err != nil {
			t.Fatal(err)
		}
	}
	before := len(l.ready)
	l.Tight(true)
	if err := l.Cut(last + 40); err != nil || before < 2 || len(l.ready) != 1 {
		t.Errorf("%d segments are ready, of %d: %v", len(l.ready), before, err)
	}
	mustAppend(t, l, Append{Entries: run(last+41, last+60, 1, 200<<10)})
}

// noRoom fails writes and creations while it is full.
func noRoom(fs FS, full *atomic.Bool) FS {
	return FaultFS(fs, func(_ string, bytes int) Fault {
		if full.Load() && bytes > 0 {
			return Fault{Err: syscall.ENOSPC, Bytes: bytes / 3}
		}
		return Fault{}
	})
}

// waits is a StateOptions.Wait.
type waits struct {
	came  chan error
	again chan bool
}

func (w waits) wait(err error) bool {
	w.came <- err
	return <-w.again
}

// TestStateWaitsForRoom: a flush that finds no room waits, Apply and Get go on, and with room it is done, with nothing lost
// (fault 49). While it waits Flush says so, and Close waits for nothing.
func TestStateWaitsForRoom(t *testing.T) {
	var full atomic.Bool
	w := waits{make(chan error), make(chan bool)}
	fs := noRoom(vfs.NewCrashableMem(), &full)
	fatal := func(err error) { t.Errorf("fatal: %v", err) }
	d, err := Open(Options{Dir: "/data", FS: fs, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.OpenState(StateOptions{Wait: w.wait, Fatal: fatal})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(from, to uint64) {
		for i := from; i <= to; i++ {
			var b Batch
			b.Put(fmt.Appendf(nil, "key %d", i), make([]byte, 1000))
			if err := s.Apply(&b, i); err != nil {
				t.Fatal(err)
			}
		}
	}
	apply(1, 10)
	full.Store(true)
	flushed := make(chan error, 1)
	go func() { flushed <- s.Flush() }()
	if err := <-w.came; !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := <-flushed; !errors.Is(err, ErrFull) {
		t.Fatalf("a flush without room: %v", err)
	}
	for range 3 {
		w.again <- true
		<-w.came
	}
	apply(11, 20)
	if err := s.Flush(); !errors.Is(err, ErrFull) {
		t.Fatalf("another flush without room: %v", err)
	}
	if _, ok, err := s.Get([]byte("key 3"), nil); !ok || err != nil {
		t.Fatal(ok, err)
	}
	full.Store(false)
	w.again <- true
	for {
		err := s.Flush()
		if err == nil {
			break
		}
		if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
	if at, err := s.DurableIndex(); at != 20 || err != nil {
		t.Fatal(at, err)
	}
	apply(21, 30)
	full.Store(true)
	go func() { flushed <- s.Flush() }()
	<-w.came
	<-flushed
	w.again <- false // the process is about to end
	closed := make(chan error, 1)
	go func() { closed <- errors.Join(s.Close(), d.Close()) }()
	select {
	case err := <-closed:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the state doesn't close without room")
	}
	full.Store(false)
	_, s2 := openState(t, CrashFS(fs.(*failingFS).FS, 1, 50), StateOptions{Fatal: fatal})
	if at := s2.AppliedIndex(); at != 20 {
		t.Errorf("what was flushed ends at %d", at)
	}
}

// TestReserve: the reserve takes its room, gives it back, and isn't held in part.
func TestReserve(t *testing.T) {
	fs := &littleRoom{FS: vfs.NewCrashableMem(), left: 1 << 20}
	d, err := Open(Options{Dir: "/data", FS: fs, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r := d.Reserve(1 << 20)
	if r.Held() {
		t.Error("held before it is made")
	}
	if err := r.Hold(); err != nil || !r.Held() || fs.left != 0 {
		t.Fatalf("%v, %d left", err, fs.left)
	}
	if again := d.Reserve(1 << 20); !again.Held() {
		t.Error("what a former process held isn't seen")
	}
	if err := r.Release(); err != nil || r.Held() {
		t.Fatal(err)
	}
	if err := r.Hold(); !errors.Is(err, syscall.ENOSPC) || r.Held() {
		t.Fatalf("without room: %v", err)
	}
	if names, err := fs.List("/data"); err != nil || len(names) != 2 { // LOCK and STAMP
		t.Errorf("%v, %v", names, err)
	}
}
