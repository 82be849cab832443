package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
	"github.com/oncemq/oncemq/internal/store/storetest"
)

func testDisk(seed uint64) *Disk { return newTestDisk(seed, false) }

func newTestDisk(seed uint64, real bool) *Disk {
	return NewDisk(rand.New(rand.NewPCG(seed, 1)), DiskOptions{FlushBytes: 8 << 10, Real: real})
}

// reopen opens what is on a disk.
func reopen(t *testing.T, d *Disk) (replica.Log, replica.State) {
	t.Helper()
	l, s, err := d.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Kill)
	return l, s
}

// emptyLog is a replica.Log as the suite wants it.
type emptyLog struct{ replica.Log }

func (l emptyLog) Empty() bool { return l.LastIndex() == 0 && l.HardState() == store.HardState{} }

// The disks pass what package store's own pass: the twins, and store's own under the faults' file system.
func TestDisks(t *testing.T) {
	for name, real := range map[string]bool{"twins": false, "real": true} {
		t.Run(name, func(t *testing.T) {
			storetest.RunLog(t, func(*testing.T) storetest.Disk[storetest.Log] {
				d := newTestDisk(1, real)
				return storetest.Disk[storetest.Log]{Crash: func(uint64) { d.Crash() }, Open: func() storetest.Log {
					d.Kill()
					l, _ := reopen(t, d)
					return emptyLog{l}
				}}
			})
			storetest.RunState(t, func(*testing.T) storetest.Disk[storetest.State] {
				d := newTestDisk(1, real)
				return storetest.Disk[storetest.State]{Crash: func(uint64) { d.Crash() }, Open: func() storetest.State {
					d.Kill()
					_, s := reopen(t, d)
					return s
				}}
			})
		})
	}
}

// entry is an append of one entry.
func entry(index uint64) store.Append {
	return store.Append{State: store.HardState{Term: 1}, Entries: []store.Entry{{Index: index, Term: 1, Data: []byte("data")}}}
}

// appends appends the entries up to last, and returns the first error.
func appends(l replica.Log, last uint64) error {
	for i := l.LastIndex() + 1; i <= last; i++ {
		if err := l.Append(entry(i)); err != nil {
			return err
		}
	}
	return nil
}

// diskFault is a fault, and what it may leave.
type diskFault struct {
	name     string
	fault    func(*Disk)
	err      error
	min, max uint64 // of the last index after the end of the process
	power    uint64 // the lowest after a loss of power
}

// What each fault leaves behind after the end of the process, and after a loss of power.
func TestDiskFaults(t *testing.T) {
	for _, c := range []diskFault{
		{"none", func(*Disk) {}, nil, 6, 6, 6},
		{"one write fails", func(d *Disk) { d.Fail(1) }, syscall.EIO, 3, 4, 3},
		{"all writes fail", (*Disk).FailForever, syscall.EIO, 3, 4, 3},
		{"full", (*Disk).Fill, syscall.ENOSPC, 3, 3, 3},
		{"syncs lie", (*Disk).Lie, nil, 6, 6, 3},
	} {
		for name, real := range map[string]bool{"twins": false, "real": true} {
			t.Run(c.name+"/"+name, func(t *testing.T) { c.test(t, real) })
		}
	}
}

func (c *diskFault) test(t *testing.T, real bool) {
	lowest, highest, power := uint64(99), uint64(0), uint64(99)
	for seed := range uint64(40) {
		d := newTestDisk(seed, real)
		l, _ := reopen(t, d)
		if err := appends(l, 3); err != nil {
			t.Fatal(err)
		}
		c.fault(d)
		err := appends(l, 6)
		if c.name == "full" {
			if !errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrDisk) {
				t.Fatalf("%v on a full disk", err)
			}
		} else if !errors.Is(err, c.err) || c.err != nil && !errors.Is(err, store.ErrDisk) {
			t.Fatalf("%v, want %v", err, c.err)
		}
		if c.err != nil && c.name != "full" && !errors.Is(l.Append(entry(l.LastIndex()+1)), store.ErrDisk) {
			t.Fatal("a log goes on after an error")
		}
		if seed%2 == 0 {
			d.Kill()
			d.Heal()
			l, _ = reopen(t, d)
			lowest, highest = min(lowest, l.LastIndex()), max(highest, l.LastIndex())
		} else {
			if d.Unsynced() != (c.name == "syncs lie") {
				t.Fatalf("unsynced: %v", d.Unsynced())
			}
			d.Crash()
			d.Heal()
			if l, _, err = d.Open(); err != nil && (c.name != "syncs lie" || !errors.Is(err, store.ErrCorrupt)) {
				t.Fatal(err)
			} else if err != nil {
				continue // a disk that lies may end a node
			}
			power = min(power, l.LastIndex())
		}
		c.goesOn(t, d)
	}
	if lowest != c.min || highest != c.max || power != c.power {
		t.Errorf("after the process %d to %d, want %d to %d; after a loss of power from %d on, want %d", lowest, highest, c.min, c.max, power, c.power)
	}
}

// goesOn: after the fault the disk is as good as new.
func (c *diskFault) goesOn(t *testing.T, d *Disk) {
	d.Kill()
	l, _ := reopen(t, d)
	if err := appends(l, 10); err != nil {
		t.Fatal(err)
	}
	d.Crash()
	if l, _ := reopen(t, d); l.LastIndex() != 10 {
		t.Fatalf("after the fault: %d of 10 entries", l.LastIndex())
	}
}

// diskLife does much to a disk, in ten lives, and says what it found.
func diskLife(t *testing.T, seed uint64, real bool) (found []string) {
	d, rng := newTestDisk(seed, real), rand.New(rand.NewPCG(seed, 2))
	for life := range 10 {
		l, s := reopen(t, d)
		n := 0
		err := s.IterateRange([]byte{0}, []byte{1}, func(_, v []byte) bool { n += len(v); return true })
		found = append(found, fmt.Sprint(life, l.FirstIndex(), l.LastIndex(), l.HardState(), s.AppliedIndex(), n, err))
		for range 40 {
			a := entry(l.LastIndex() + 1)
			a.Entries[0].Data = make([]byte, rng.IntN(5000))
			if err := l.Append(a); err != nil {
				found = append(found, err.Error())
				break
			}
			b := new(store.Batch)
			b.Put(fmt.Appendf(nil, "\x00%05d", rng.IntN(1000)), a.Entries[0].Data)
			if err := s.Apply(b, max(s.AppliedIndex()+1, l.LastIndex()-1)); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(100) == 0 {
				d.Fail(1)
			}
		}
		if durable, err := s.DurableIndex(); err != nil || l.Cut(durable) != nil {
			d.Fail(0)
		}
		if rng.IntN(2) == 0 {
			d.Kill()
		} else {
			d.Crash()
		}
		d.Heal()
	}
	return found
}

// The same seed and calls leave the same, whatever Pebble does in the background.
func TestDiskIsDeterministic(t *testing.T) {
	for seed := range uint64(2) {
		for name, real := range map[string]bool{"twins": false, "real": true} {
			if first, second := diskLife(t, seed, real), diskLife(t, seed, real); !slices.Equal(first, second) {
				t.Errorf("%s, seed %d:\n%q, then\n%q", name, seed, first, second)
			}
		}
	}
}

// What belongs to a process that has ended does nothing any more.
func TestDeadHandles(t *testing.T) {
	d := testDisk(1)
	l, s := d.OpenLog(), d.OpenState()
	d.Kill()
	if err := l.Append(entry(1)); !errors.Is(err, store.ErrDisk) {
		t.Errorf("append: %v", err)
	}
	if err := s.Apply(nil, 1); !errors.Is(err, store.ErrDisk) {
		t.Errorf("apply: %v", err)
	}
	if err := s.Flush(); !errors.Is(err, store.ErrDisk) {
		t.Errorf("flush: %v", err)
	}
}

// What replaces the end of a log on a disk that lies, and is lost, leaves what was there before.
func TestLostReplacement(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(20) {
		d := testDisk(seed)
		l := d.OpenLog()
		if err := appends(l, 5); err != nil {
			t.Fatal(err)
		}
		d.Lie()
		replace := store.Append{State: store.HardState{Term: 2}, Entries: []store.Entry{{Index: 3, Term: 2}, {Index: 4, Term: 2}}}
		if err := l.Append(replace); err != nil || !d.Unsynced() {
			t.Fatal(err, d.Unsynced())
		}
		d.Crash()
		l = d.OpenLog()
		term, err := l.Term(3)
		if want := l.HardState().Term; term != want || err != nil || l.LastIndex() != 6-want {
			t.Errorf("entry 3 of term %d, %v; last index %d, term %d", term, err, l.LastIndex(), want)
		}
		seen[term] = true
	}
	if !seen[1] || !seen[2] {
		t.Errorf("only one outcome: %v", seen)
	}
}

// A failing disk ends the state at its flush, a full one has it wait; what was flushed is there afterwards.
func TestStateFaults(t *testing.T) {
	for _, full := range []bool{true, false} {
		fault, want := (*Disk).FailForever, store.ErrDisk
		if full {
			fault, want = (*Disk).Fill, store.ErrFull
		}
		d := testDisk(1)
		s := d.OpenState()
		for i := uint64(1); i <= 5; i++ {
			if err := s.Apply(nil, i); err != nil {
				t.Fatal(err)
			}
			if i == 3 {
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		fault(d)
		if err := s.Flush(); !errors.Is(err, want) {
			t.Errorf("flush: %v, want %v", err, want)
		}
		highest := uint64(5)
		if full {
			d.Empty()
			highest = 6
			if err := errors.Join(s.Apply(nil, 6), s.Flush()); err != nil {
				t.Errorf("with room again: %v", err)
			}
		} else if err := s.Apply(nil, 6); !errors.Is(err, store.ErrDisk) {
			t.Errorf("apply after a failed flush: %v", err)
		}
		d.Kill()
		if at := d.OpenState().AppliedIndex(); at < highest-2 || at > highest {
			t.Errorf("reopened at %d", at)
		}
	}
}
