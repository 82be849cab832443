package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fetchConfirmed fetches the whole checkpoint with a leader's confirmation.
func (src *source) fetchConfirmed(d *Dir, c Confirmed) error {
	f, err := d.BeginFetch(src.checkpoint.encoded)
	if err != nil {
		return err
	}
	err = f.Confirm(c)
	f.Close()
	if err != nil {
		return err
	}
	return src.fetchAll(d, 20_000)
}

// flipByte changes a byte of a file in memory.
func flipByte(t *testing.T, files FS, path string, at int64) {
	t.Helper()
	f, err := files.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 8
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// names lists a directory of /data.
func names(t *testing.T, files FS) []string {
	t.Helper()
	list, err := files.List("/data")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// TestCrashWhileHealing: power is lost behind every operation of marking a damaged directory and making it whole. A start finds it
// marked, with all that was there, or whole, with the confirmed term and vote; never something that could vote as it is (C14).
func TestCrashWhileHealing(t *testing.T) {
	src := newSource(t)
	mem := vfs.NewCrashableMem()
	fs := &opFS{FS: mem}
	newTarget(t, mem)
	want := HardState{Term: sourceTerm + 2, Vote: 3, Commit: sourceIndex}
	confirmed := Confirmed{ID: src.checkpoint.Manifest.ID, Term: want.Term, Leader: want.Vote}
	var images, olds, news int
	marked, switched := false, false
	var mu sync.Mutex // Pebble has goroutines
	crash := func(op string) {
		mu.Lock()
		defer mu.Unlock()
		for _, percent := range []int{0, 100, 50, 50, killed} {
			images++
			clone := imageOf(t, mem, uint64(images), percent)
			o, err := start(clone)
			damage := Loss(0)
			if o.d != nil {
				damage = o.d.Loss()
			}
			switch {
			case err == nil && damage == 0 && o.l.HardState() == want && o.s.AppliedIndex() == sourceIndex && o.l.FirstIndex() == sourceIndex+1:
				news++
			case switched, marked && damage != LostPromise, !marked && err != nil:
				t.Errorf("image %d (%s), %d %%: damage %d, error %v", images, op, percent, damage, err)
			default:
				olds++
				if kept := names(t, clone); !slices.Contains(kept, logName) || !slices.Contains(kept, stateName) {
					t.Errorf("image %d (%s), %d %%: %v is left of what was there", images, op, percent, kept)
				}
			}
			o.close()
		}
	}
	d, err := Open(Options{Dir: "/data", FS: fs, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	fs.after = crash
	if err := d.SetLost(LostPromise, errors.New("found out")); err != nil {
		t.Fatal(err)
	}
	marked = true
	if why := d.Why(); !errors.Is(why, ErrCorrupt) || !strings.Contains(why.Error(), "found out") {
		t.Errorf("it is damaged since %v", why)
	}
	if err := src.fetchConfirmed(d, confirmed); err != nil {
		t.Fatal(err)
	}
	if m, err := d.Install(smallLog); err != nil || m == nil {
		t.Fatalf("installed %v, %v", m, err)
	}
	switched = true
	crash("at the end")
	fs.after = nil
	if c, _, ok := d.Confirmed(); ok {
		t.Errorf("the confirmation %+v is left", c)
	}
	if left := names(t, mem); d.Why() != nil || slices.Contains(left, whyName) {
		t.Errorf("%v, and %v is left", d.Why(), left)
	}
	d.Close()
	if olds < 100 || news < 20 {
		t.Errorf("%d images were damaged, %d whole: too few", olds, news)
	}
}

// TestHealNot: what isn't confirmed, or was before the damage, makes nothing whole.
func TestHealNot(t *testing.T) {
	src := newSource(t)
	id := src.checkpoint.Manifest.ID
	for _, c := range []struct {
		what   string
		before *Confirmed // fetched with before the directory is marked
		after  *Confirmed // … after
		whole  bool
	}{
		{"nothing", nil, nil, false},
		{"not confirmed", nil, &Confirmed{}, false},
		{"confirmed before the damage", &Confirmed{id, sourceTerm, 2}, nil, false},
		{"confirmed", nil, &Confirmed{id, sourceTerm, 2}, true},
	} {
		mem := vfs.NewCrashableMem()
		newTarget(t, mem)
		d, err := Open(Options{Dir: "/data", FS: mem, Node: 1})
		if err != nil {
			t.Fatal(err)
		}
		fetch := func(with *Confirmed) {
			switch {
			case with == nil:
			case with.Term == 0:
				err = src.fetchAll(d, 20_000)
			default:
				err = src.fetchConfirmed(d, *with)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		fetch(c.before)
		if err := d.SetLost(LostPromise, errors.New("found out")); err != nil {
			t.Fatal(err)
		}
		fetch(c.after)
		m, err := d.Install(smallLog)
		if err != nil || (m != nil) != c.whole || (d.Loss() == 0) != c.whole {
			t.Errorf("%s: installed %v, damage %d, %v", c.what, m, d.Loss(), err)
		}
		d.Close()
	}
}

// TestConfirm: a confirmation is of one checkpoint, and of a term that can have its last entry; a damaged one is none.
func TestConfirm(t *testing.T) {
	src := newSource(t)
	id := src.checkpoint.Manifest.ID
	mem := vfs.NewCrashableMem()
	newTarget(t, mem)
	d, err := Open(Options{Dir: "/data", FS: mem, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, c := range []Confirmed{{[16]byte{1}, sourceTerm, 2}, {id, sourceTerm - 1, 2}} {
		if err := src.fetchConfirmed(d, c); !errors.Is(err, ErrFetched) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	good := Confirmed{id, sourceTerm, 2}
	if err := src.fetchConfirmed(d, good); err != nil {
		t.Fatal(err)
	}
	if c, m, ok := d.Confirmed(); !ok || c != good || m.Index != sourceIndex {
		t.Errorf("%+v of entry %d, %v", c, m.Index, ok)
	}
	for at := range int64(confirmedBytes) {
		flipByte(t, mem, "/data/fetch/CONFIRMED", at)
		if c, _, ok := d.Confirmed(); ok {
			t.Errorf("byte %d flipped: %+v", at, c)
		}
		flipByte(t, mem, "/data/fetch/CONFIRMED", at)
	}
}

// TestKnowsOthers: members or founding voters that aren't the node itself, also where the stamp or one of the lists can't be read.
func TestKnowsOthers(t *testing.T) {
	mem := vfs.NewCrashableMem()
	d, err := Open(Options{Dir: "/data", FS: mem, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	knows := func(want bool, what string) {
		t.Helper()
		if got := KnowsOthers(mem, "/data", 1); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	knows(false, "no list")
	if err := errors.Join(d.SetVoters([]uint64{1}), d.SetMembers(map[uint64]string{1: "a:1"})); err != nil {
		t.Fatal(err)
	}
	knows(false, "alone in both")
	if err := d.SetMembers(map[uint64]string{1: "a:1", 4: "b:1"}); err != nil {
		t.Fatal(err)
	}
	knows(true, "a member")
	flipByte(t, mem, "/data/STAMP", 30)
	flipByte(t, mem, "/data/VOTERS", 0)
	knows(true, "a member, and the rest is damaged")
	flipByte(t, mem, "/data/MEMBERS", 0)
	knows(false, "all is damaged")
	if err := d.SetVoters([]uint64{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	knows(true, "voters, and the members are damaged")
}

// TestRebirth: a stamp that is gone or damaged is made anew from the segments, marked as damaged, under another key; for a node that recovers
// only, and where they say that the directory is its own.
func TestRebirth(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(files FS) error
		opts Options
		want error
	}{
		{"gone", func(files FS) error { return files.Remove("/data/STAMP") }, Options{Node: 1, Recover: true}, nil},
		{"damaged", func(files FS) error { flipByte(t, files, "/data/STAMP", 30); return nil }, Options{Node: 1, Recover: true}, nil},
		{"not to be recovered", func(files FS) error { return files.Remove("/data/STAMP") }, Options{Node: 1}, ErrCorrupt},
		{"another node's", func(files FS) error { return files.Remove("/data/STAMP") }, Options{Node: 2, Recover: true}, ErrForeign},
		{"no segment", func(files FS) error {
			return errors.Join(files.Remove("/data/STAMP"), files.RemoveAll("/data/log"))
		}, Options{Node: 1, Recover: true}, ErrCorrupt},
	} {
		mem := vfs.NewCrashableMem()
		d, err := Open(Options{Dir: "/data", FS: mem, Node: 1, Cluster: [16]byte{9}})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.SetCluster([16]byte{9}, 4); err != nil {
			t.Fatal(err)
		}
		l, err := d.OpenLog(smallLog)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Append(Append{State: HardState{Term: 3, Vote: 1}}); err != nil {
			t.Fatal(err)
		}
		s, err := d.OpenState(smallState)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		l.Close()
		key := d.key
		d.Close()
		if err := c.do(mem); err != nil {
			t.Fatal(err)
		}
		whose, ok, err := WhoseLog(mem, "/data")
		if want := (Stamp{Cluster: [16]byte{9}, Node: 1, History: 4}); err != nil || ok != (c.what != "no segment") || ok && whose != want {
			t.Errorf("%s: the log is %+v's: %v, %v", c.what, whose, ok, err)
		}
		opts := c.opts
		opts.Dir, opts.FS = "/data", mem
		for round := range 2 { // and so it stays
			d, err := Open(opts)
			if !errors.Is(err, c.want) {
				t.Fatalf("%s: %v", c.what, err)
			}
			if err != nil {
				break
			}
			want := Stamp{Cluster: [16]byte{9}, Node: 1, History: 4, hasLog: true, damage: LostPromise}
			if got := d.Stamp(); got != want || d.key == key {
				t.Errorf("%s: %+v, key %d", c.what, got, round)
			}
			d.Close()
		}
	}
}

// TestStampOfDamage: the mark survives, and an older program refuses it.
func TestStampOfDamage(t *testing.T) {
	for _, damage := range []Loss{0, LostState, LostPromise, LostState | LostPromise, LostLog, allLoss} {
		want := Stamp{Node: 1, generation: 7, damage: damage}
		b := want.encode(5)
		got, _, err := decodeStamp(b, "x")
		version := byte(2)
		switch {
		case damage&LostLog != 0:
			version = 4
		case damage != 0:
			version = 3
		}
		if err != nil || got != want || b[12] != version {
			t.Errorf("%+v became %+v, version %d, %v", want, got, b[12], err)
		}
	}
}

// TestLossOf: what an error says of the directory.
func TestLossOf(t *testing.T) {
	for err, want := range map[error]Loss{
		fmt.Errorf("x: %w", ErrCorrupt):                                       LostPromise,
		fmt.Errorf("x: %w", damaged(LostState, fmt.Errorf("%w", ErrCorrupt))): LostState,
		ErrDisk:                     0,
		damaged(LostState, ErrDisk): 0,
	} {
		if got := LossOf(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}
