package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// unsyncedFile is a disk with a file of two synced sectors, a write over the second and two more, and a new file.
func unsyncedFile(t *testing.T) *CrashDisk {
	t.Helper()
	d := NewCrashDisk()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(makeDirs(d, "/data"))
	f, err := d.Create("/data/old", vfs.WriteCategoryUnspecified)
	must(err)
	_, err = f.Write(bytes.Repeat([]byte{1}, 2*sectorBytes))
	must(err)
	must(f.Sync())
	must(syncDir(d, "/data"))
	_, err = f.WriteAt(bytes.Repeat([]byte{2}, 3*sectorBytes), sectorBytes)
	must(err)
	_, err = d.Create("/data/new", vfs.WriteCategoryUnspecified)
	must(err)
	return d
}

// A crash leaves everything that is synced, and of the rest anything: each outcome comes up, and a source of chance that begins
// alike leaves the same.
func TestCrashDisk(t *testing.T) {
	var seen Left
	kept, all := 0, 0
	for seed := range uint64(200) {
		after, left := unsyncedFile(t).Crash(rand.New(rand.NewPCG(seed, 1)))
		again, _ := unsyncedFile(t).Crash(rand.New(rand.NewPCG(seed, 1)))
		if !reflect.DeepEqual(after.names, again.names) {
			t.Fatalf("seed %d: two outcomes", seed)
		}
		f := after.names["/data/old"]
		if f == nil || len(f.data) < 2*sectorBytes || f.data[0] != 1 || f.data[sectorBytes] == 0 {
			t.Fatalf("seed %d: what was synced is gone: %v", seed, f)
		}
		if (after.names["/data/new"] == nil) != left.Names {
			t.Fatalf("seed %d: the new name is there: %v, left: %+v", seed, !left.Names, left)
		}
		if bytes.Count(f.data, []byte{2}) == 3*sectorBytes {
			all++
		}
		if f.data[sectorBytes] == 2 {
			kept++
		}
		seen = Left{
			seen.Lost || left.Lost, seen.Torn || left.Torn, seen.Reordered || left.Reordered, seen.Zeros || left.Zeros, seen.Names || left.Names,
		}
	}
	if seen != (Left{true, true, true, true, true}) || all == 0 || kept == 0 || kept == 200 {
		t.Errorf("of 200 crashes all was left by %d, a sector by %d, and %+v was seen", all, kept, seen)
	}
	bare, _ := unsyncedFile(t).Crash(nil)
	if f := bare.names["/data/old"]; bare.names["/data/new"] != nil || !bytes.Equal(f.data, bytes.Repeat([]byte{1}, 2*sectorBytes)) {
		t.Error("without chance more is left than what was synced")
	}
}

// A failed sync is final: the next one has nothing to do and says so, and what was written is lost with the power.
func TestCrashDiskForgetsAfterFailedSync(t *testing.T) {
	d := unsyncedFile(t)
	fail := error(syscall.EIO)
	f, err := FaultFS(d, func(_ string, bytes int) Fault {
		if bytes == 0 {
			return Fault{Err: fail}
		}
		return Fault{}
	}).OpenReadWrite("/data/old", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); !errors.Is(err, fail) {
		t.Fatal(err)
	}
	fail = nil
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	after, _ := d.Crash(nil)
	if f := after.names["/data/old"]; bytes.Contains(f.data, []byte{2}) {
		t.Error("a sync after a failed one wrote what that one was for")
	}
}

// A log on a disk that tears, reorders and loses has all that it acknowledged after each loss of power within an append, and no
// more than the append besides.
func TestLogOnCrashDisk(t *testing.T) {
	torn := 0
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		d, tear := NewCrashDisk(), false
		last := uint64(0)
		for life := range 6 {
			dir, l, err := openDirLog(FaultFS(d, func(_ string, bytes int) Fault {
				if bytes == 0 && tear {
					return Fault{Lie: true}
				}
				return Fault{}
			}), smallLog)
			if err != nil {
				t.Fatalf("seed %d, life %d: %v", seed, life, err)
			}
			if at := l.LastIndex(); at != last && at != last+3 {
				t.Fatalf("seed %d, life %d: the log ends with %d, %d were acknowledged, and an append of 3 was under way", seed, life, at, last)
			}
			last = l.LastIndex()
			for range rng.IntN(20) {
				mustAppend(t, l, Append{State: HardState{Term: 1}, Entries: run(last+1, last+3, 1, rng.IntN(5000))})
				last += 3
			}
			tear = true
			mustAppend(t, l, Append{State: HardState{Term: 1}, Entries: run(last+1, last+3, 1, rng.IntN(5000))})
			tear = false
			var left Left
			if d, left = d.Crash(rng); left.Torn {
				torn++
			}
			l.Close()
			dir.Close()
		}
	}
	if torn < 20 {
		t.Errorf("only %d appends were torn", torn)
	}
}

// A log that loses its power before any of the things that it does to its files, of segments made and recycled too, has all that it
// acknowledged.
func TestLogLosesPower(t *testing.T) {
	names := 0
	for ops := range 120 {
		rng := rand.New(rand.NewPCG(uint64(ops), 4))
		d := NewCrashDisk()
		last, cut := uint64(0), uint64(0)
		for life := range 3 {
			left := ops + 1
			d.Unplug(func() bool { left--; return left <= 0 })
			dir, l, err := openDirLog(d, smallLog)
			for err == nil {
				if err = l.Append(Append{State: HardState{Term: 1}, Entries: run(last+1, last+3, 1, 2000)}); err == nil {
					last += 3
				}
				if last > 12 {
					cut = last - 12
					err = errors.Join(err, l.Cut(cut))
				}
			}
			if !errors.Is(err, syscall.EIO) {
				t.Fatalf("%d operations, life %d: %v", ops, life, err)
			}
			if l != nil {
				l.Close()
			}
			if dir != nil {
				dir.Close()
			}
			var lost Left
			if d, lost = d.Crash(rng); lost.Names {
				names++
			}
			if dir, l, err = openDirLog(d, smallLog); err != nil {
				t.Fatalf("%d operations, life %d: %v", ops, life, err)
			}
			if at := l.LastIndex(); at != last && at != last+3 || l.FirstIndex() > max(cut, 1) {
				t.Fatalf("%d operations, life %d: the log has %d to %d, %d were acknowledged", ops, life, l.FirstIndex(), at, last)
			}
			last = l.LastIndex()
			l.Close()
			dir.Close()
		}
	}
	if names < 10 {
		t.Errorf("only %d names were lost", names)
	}
}

// A changed bit of what was acknowledged is found: the log doesn't open, or has lost nothing but its last append.
func TestLogWithChangedBit(t *testing.T) {
	refused := 0
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		d := NewCrashDisk()
		dir, l, err := openDirLog(d, smallLog)
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(10) {
			mustAppend(t, l, Append{State: HardState{Term: 1}, Entries: run(3*i+1, 3*i+3, 1, 2000)})
		}
		l.Close()
		dir.Close()
		if name, _ := d.Flip(rng, func(name string) bool { return name != "/data/LOCK" }); name == "" {
			t.Fatal("nothing was changed")
		}
		dir, l, err = openDirLog(d, smallLog)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForeign) && !errors.Is(err, ErrVersion) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			refused++
			continue
		}
		if at := l.LastIndex(); at != 30 && at != 27 {
			t.Errorf("seed %d: the log ends with %d of 30", seed, at)
		}
		got, err := l.Entries(nil, l.FirstIndex(), l.LastIndex()+1, 0)
		if want := run(1, l.LastIndex(), 1, 2000); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("seed %d: %v, or other entries than were appended", seed, err)
		}
		l.Close()
		dir.Close()
	}
	if refused < 50 {
		t.Errorf("only %d of 100 logs were refused", refused)
	}
}

// A crash that cuts the file within the last batch's padding leaves the batch whole: what is prepared ahead goes behind it.
func TestPrepareBehindCutPadding(t *testing.T) {
	d := NewCrashDisk()
	for life := range 2 {
		dir, l, err := openDirLog(d, smallLog)
		if err != nil {
			t.Fatal(err)
		}
		if life == 0 {
			for i := range uint64(8) { // into the second segment, which has no zeros ahead
				mustAppend(t, l, Append{State: HardState{Term: 1}, Entries: run(i+1, i+1, 1, 100)})
			}
			last := d.names[l.path(l.lastSeq)]
			last.data = last.data[:len(last.data)-sectorBytes]
			last.synced = last.synced[:len(last.data)]
		} else if _, err := l.Prepare(); err != nil {
			t.Fatal(err)
		}
		l.Close()
		dir.Close()
	}
	dir, l, err := openDirLog(d, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	defer l.Close()
	if l.LastIndex() != 8 {
		t.Errorf("after zeros were written ahead the log ends with %d of 8", l.LastIndex())
	}
}
