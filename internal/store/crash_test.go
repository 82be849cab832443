package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// opFS calls after behind every operation that changes what a crash may leave.
type opFS struct {
	FS
	after func(op string)
}

type opFile struct {
	vfs.File
	fs   *opFS
	name string
}

func (fs *opFS) done(op, name string, err error) error {
	if err == nil && fs.after != nil {
		fs.after(op + " " + fs.PathBase(name))
	}
	return err
}

func (fs *opFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	return &opFile{f, fs, name}, fs.done("create", name, err)
}

func (fs *opFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, c, o...)
	return &opFile{f, fs, name}, fs.done("open", name, err)
}

func (fs *opFS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	return &opFile{f, fs, name}, err
}

func (fs *opFS) Remove(name string) error { return fs.done("remove", name, fs.FS.Remove(name)) }

func (fs *opFS) Rename(from, to string) error { return fs.done("rename", to, fs.FS.Rename(from, to)) }

func (fs *opFS) Link(from, to string) error { return fs.done("link", to, fs.FS.Link(from, to)) }

// RemoveAll removes one name after the other, as a real file system does.
func (fs *opFS) RemoveAll(name string) error {
	names, err := fs.FS.List(name)
	if err == nil {
		for _, below := range names {
			if err := fs.RemoveAll(fs.PathJoin(name, below)); err != nil {
				return err
			}
		}
	}
	if _, err := fs.Stat(name); err != nil {
		return nil
	}
	return fs.Remove(name)
}

func (fs *opFS) MkdirAll(name string, mode os.FileMode) error {
	return fs.done("mkdir", name, fs.FS.MkdirAll(name, mode))
}

func (f *opFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.fs.done("write", f.name, err)
}

func (f *opFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	return n, f.fs.done(fmt.Sprintf("write at %d of", at), f.name, err)
}

func (f *opFile) Sync() error { return f.fs.done("sync", f.name, f.File.Sync()) }

func (f *opFile) SyncData() error { return f.fs.done("syncdata", f.name, f.File.SyncData()) }

// model is what a log has to hold.
type model struct {
	entries []Entry // entries[i].Index == i+1; data of those below cut may be gone
	state   HardState
	cut     uint64 // nothing from here on may be gone
}

func (m model) with(a Append) model {
	if a.State != (HardState{}) {
		m.state = a.State
	}
	if len(a.Entries) > 0 {
		m.entries = append(m.entries[:a.Entries[0].Index-1:a.Entries[0].Index-1], a.Entries...)
	}
	return m
}

// check compares a log with the model.
func (m model) check(l *Log) error {
	first, last := l.FirstIndex(), l.LastIndex()
	if last != uint64(len(m.entries)) {
		return fmt.Errorf("last index %d, want %d", last, len(m.entries))
	}
	if first > max(m.cut, 1) {
		return fmt.Errorf("first index %d, but only what is below %d was cut", first, m.cut)
	}
	if s := l.HardState(); s.Term != m.state.Term || s.Vote != m.state.Vote || s.Commit > m.state.Commit {
		return fmt.Errorf("hard state %+v, want %+v", s, m.state)
	}
	if first > 1 {
		if term, err := l.Term(first - 1); err != nil || term != m.entries[first-2].Term {
			return fmt.Errorf("term of %d: %d, %v", first-1, term, err)
		}
	}
	got, err := l.Entries(nil, first, last+1, 0)
	if err != nil {
		return err
	}
	for i, e := range got {
		want := m.entries[first-1+uint64(i)]
		term, err := l.Term(e.Index)
		if e.Index != want.Index || e.Term != want.Term || e.Type != want.Type || !bytes.Equal(e.Data, want.Data) || err != nil || term != e.Term {
			return fmt.Errorf("entry %d/%d (%d bytes), want %d/%d (%d bytes); Term %d, %v", e.Index, e.Term, len(e.Data), want.Index, want.Term, len(want.Data), term, err)
		}
	}
	if len(got) != int(last+1-first) {
		return fmt.Errorf("%d entries from %d to %d", len(got), first, last)
	}
	return nil
}

// smallLog makes rollovers, cuts and recycling frequent.
var smallLog = LogOptions{SegmentBytes: 32 << 10, TailBytes: 6 << 10, SpareSegments: 2}

// openDirLog opens the tests' directory, and has Inspect say of it what opening does.
func openDirLog(fs FS, opts LogOptions) (*Dir, *Log, error) {
	x, err := look(fs)
	if err != nil {
		return nil, nil, err
	}
	d, l, err := openBare(fs, opts)
	if x != nil {
		if e := inspected(x, l, err); e != nil {
			return nil, nil, fmt.Errorf("inspected: %w", e)
		}
	}
	return d, l, err
}

func openBare(fs FS, opts LogOptions) (*Dir, *Log, error) {
	d, err := Open(Options{Dir: "/data", FS: fs, Node: 1})
	if err != nil {
		return nil, nil, err
	}
	l, err := d.OpenLog(opts)
	if err != nil {
		d.Close()
		return nil, nil, err
	}
	return d, l, nil
}

// crashes is a log under a script of appends and cuts, with a crash after each operation.
type crashes struct {
	t        *testing.T
	mem      *vfs.MemFS
	acked    model  // what was acknowledged
	inFlight *model // what is being written: a crash may leave it, wholly
	count    int
	nested   bool
}

// recovers opens the log in what a crash left and compares it.
func (c *crashes) recovers(fs FS, where string, goOn bool) {
	d, l, err := openDirLog(fs, smallLog)
	if err != nil {
		c.t.Fatalf("%s: %v", where, err)
	}
	defer d.Close()
	defer l.Close()
	now := c.acked
	if err = now.check(l); err != nil && c.inFlight != nil {
		now = *c.inFlight
		err2 := now.check(l)
		if err2 != nil {
			c.t.Fatalf("%s: neither as acknowledged (%v) nor with the append in flight (%v)", where, err, err2)
		}
	} else if err != nil {
		c.t.Fatalf("%s: %v", where, err)
	}
	if !goOn {
		return
	}
	// It must be usable, and what is appended now must be there after the next start.
	a := Append{State: HardState{Term: now.state.Term + 1, Vote: 3}, Entries: []Entry{{Index: uint64(len(now.entries)) + 1, Term: now.state.Term + 1, Data: []byte(where)}}}
	if err := l.Append(a); err != nil {
		c.t.Fatalf("%s: %v", where, err)
	}
	d2, l2, err := openDirLog(CrashFS(unwrap(fs), 1, 0), smallLog)
	if err != nil {
		c.t.Fatalf("%s: after one more append: %v", where, err)
	}
	defer d2.Close()
	defer l2.Close()
	if err := now.with(a).check(l2); err != nil {
		c.t.Fatalf("%s: after one more append: %v", where, err)
	}
}

func unwrap(fs FS) FS {
	if o, ok := fs.(*opFS); ok {
		return o.FS
	}
	return fs
}

// crash recovers from a crash right now, in several ways: unsynced data lost, kept, and some of it.
func (c *crashes) crash(op string) {
	c.count++
	for i, percent := range []int{0, 100, 50, 50, 20, 80} {
		where := fmt.Sprintf("crash %d (%s), %d %% (%d)", c.count, op, percent, i)
		clone := CrashFS(c.mem, uint64(c.count*10+i), percent)
		if c.nested && c.count%5 == 0 && i == 3 {
			// Crash again at every operation of the recovery.
			again := &opFS{FS: clone}
			again.after = func(op string) {
				c.recovers(CrashFS(clone, uint64(c.count), 50), where+", then ("+op+")", false)
			}
			c.recovers(again, where, false)
			continue
		}
		c.recovers(clone, where, c.count%3 == 0)
	}
}

// TestCrashEverywhere: whatever a crash behind any operation leaves of the unsynced data, the log opens with all that was
// acknowledged, and of the append in flight everything or nothing (faults 37–43; C14).
func TestCrashEverywhere(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			t.Parallel()
			c := &crashes{t: t, mem: vfs.NewCrashableMem(), nested: true}
			fs := &opFS{FS: c.mem}
			d, l, err := openDirLog(fs, smallLog)
			if err != nil {
				t.Fatal(err)
			}
			fs.after = c.crash
			c.script(l, rand.New(rand.NewPCG(seed, 7)), 45)
			if err := c.acked.check(l); err != nil {
				t.Fatal(err)
			}
			fs.after = nil
			if l.FirstIndex() == 1 || c.count < 50 {
				t.Fatalf("the script is too tame: first index %d, %d crashes", l.FirstIndex(), c.count)
			}
			l.Close()
			d.Close()
		})
	}
}

// script makes random appends, conflicts, cuts and preparations.
func (c *crashes) script(l *Log, rng *rand.Rand, steps int) {
	state := HardState{Term: 1, Vote: 1}
	for range steps {
		switch n := rng.IntN(10); {
		case n == 0:
			if _, err := l.Prepare(); err != nil {
				c.t.Fatal(err)
			}
		case n == 1:
			state.Term, state.Vote = state.Term+1, rng.Uint64N(3)
			c.append(l, Append{State: state})
		case n <= 3 && len(c.acked.entries) > 4:
			c.acked.cut = max(c.acked.cut, uint64(len(c.acked.entries))-2)
			if err := l.Cut(c.acked.cut); err != nil {
				c.t.Fatal(err)
			}
		default:
			next := uint64(len(c.acked.entries)) + 1
			if n == 4 && next-c.acked.cut > 2 { // a new leader replaces a suffix
				state.Term++
				next -= 1 + rng.Uint64N(min(next-c.acked.cut-1, 20))
			}
			a := Append{State: state}
			for range 1 + rng.IntN(3) {
				data := make([]byte, rng.IntN(1<<rng.IntN(14)))
				for i := range data {
					data[i] = byte(rng.Uint32())
				}
				a.Entries = append(a.Entries, Entry{Index: next, Term: state.Term, Type: uint8(rng.IntN(3)), Data: data})
				next++
			}
			c.append(l, a)
		}
	}
}

func (c *crashes) append(l *Log, a Append) {
	then := c.acked.with(a)
	c.inFlight = &then
	if err := l.Append(a); err != nil {
		c.t.Fatal(err)
	}
	c.acked, c.inFlight = then, nil
}

// TestCrashBeforeFirstAppend: a node may die at any moment of making its directory, and starts all the same.
func TestCrashBeforeFirstAppend(t *testing.T) {
	c := &crashes{t: t, mem: vfs.NewCrashableMem(), nested: true}
	fs := &opFS{FS: c.mem, after: c.crash}
	d, l, err := openDirLog(fs, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	if !l.Empty() || c.count < 8 {
		t.Fatalf("empty %v, %d crashes", l.Empty(), c.count)
	}
	fs.after = nil
	l.Close()
	d.Close()
}
