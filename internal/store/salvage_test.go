package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// patient is a node's directory in memory, and where in it each entry lies. All patients of a test have the same history.
type patient struct {
	t      *testing.T
	fs     *vfs.MemFS
	d      *Dir
	s      *Salvage
	places map[uint64][]place // of each entry, every time that it was appended
	want   map[uint64]Entry
	last   uint64
	hard   HardState
}

// newPatient makes a directory with entries up to last, one in each append, of term 3 and, from change on, 4; before there were as many
// as stale of term 3 from change on. The state has the entries up to applied.
func newPatient(t *testing.T, last, applied, change, stale uint64) *patient {
	t.Helper()
	p := &patient{t: t, fs: vfs.NewCrashableMem(), places: map[uint64][]place{}, want: map[uint64]Entry{}, last: last}
	d, err := Open(Options{Dir: "/data", FS: p.fs, Node: 1})
	if err == nil {
		err = errors.Join(d.SetVoters([]uint64{1, 2, 3}), d.SetCluster([16]byte{9}, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.OpenLog(smallLog)
	if err != nil {
		t.Fatal(err)
	}
	add := func(i, term, commit uint64) {
		p.hard = HardState{Term: term, Vote: 2, Commit: min(i-1, commit)}
		p.want[i] = Entry{Index: i, Term: term, Data: fmt.Appendf(nil, "%d %d %s", i, term, strings.Repeat("x", int(i%7)*400))}
		if err := l.Append(Append{State: p.hard, Entries: []Entry{p.want[i]}}); err != nil {
			t.Fatal(err)
		}
		seg := l.live[len(l.live)-1]
		at := seg.end - int64(len(l.buf))
		if at == 0 {
			at = blockBytes
		}
		p.places[i] = append(p.places[i], place{seq: seg.seq, start: at})
	}
	for i := uint64(1); i < change+stale; i++ {
		add(i, 3, change-1)
	}
	for i := change; i <= last; i++ {
		add(i, 4, max(applied, change-1))
	}
	s, err := d.OpenState(smallState)
	if err != nil {
		t.Fatal(err)
	}
	p.apply(s, applied)
	if err := errors.Join(s.Flush(), s.Close(), l.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	return p
}

// apply brings a state up to an entry: each puts a key.
func (p *patient) apply(s *State, to uint64) {
	b := s.NewBatch()
	for i := s.AppliedIndex() + 1; i <= to; i++ {
		b.Put(fmt.Appendf(nil, "\x00\x00%04d", i), p.want[i].Data)
		if err := s.Apply(b, i); err != nil {
			p.t.Fatal(err)
		}
	}
}

// lose damages what was appended for entries, at its newest place.
func (p *patient) lose(from, to uint64) *patient {
	for i := from; i <= to; i++ {
		at := p.places[i][len(p.places[i])-1]
		flipByte(p.t, p.fs, "/data/log/"+segmentName(at.seq), at.start+batchHeaderBytes+9)
	}
	return p
}

func (p *patient) loseState() *patient {
	if err := p.fs.RemoveAll("/data/state"); err != nil {
		p.t.Fatal(err)
	}
	return p
}

// examine marks the directory and looks into it.
func (p *patient) examine(files FS, mark Loss) error {
	var err error
	if p.d, err = Open(Options{Dir: "/data", FS: files, Node: 1}); err == nil {
		p.t.Cleanup(func() { p.d.Close() })
		err = p.d.SetLost(mark, errors.New("found out"))
	}
	if err == nil {
		p.s, err = p.d.Salvage(0, nil)
	}
	if err == nil {
		p.t.Cleanup(func() { p.s.Close() })
	}
	return err
}

// helpedBy makes what one node that recovers asks of others, once, and mends it if that is enough.
func (p *patient) helpedBy(others ...*patient) (done *Mended, err error) {
	descend := func(floor uint64) {
		for more := true; more; {
			more = false
			for _, o := range others {
				q, ok := p.s.Wants(floor)
				if !ok {
					return
				}
				x, ok, err := o.s.Stretch(q)
				if err != nil {
					p.t.Fatal(err)
				}
				if ok {
					more = p.s.Take(&x) == nil || more
				}
			}
		}
	}
	if own, ok := p.s.State(); ok {
		descend(own)
	}
	for range 2 {
		has := uint64(0)
		for _, o := range others {
			if has = max(has, o.s.Offers()); p.s.Whole() || o.s.Offers() < p.s.Needs() {
				continue
			}
			c, err := o.s.Checkpoint(func(m *Manifest, _ *State) error { m.Voters = []uint64{1, 2, 3}; return nil })
			if err == nil {
				err = (&source{checkpoint: c}).fetchAll(p.d, 20_000)
			}
			if err != nil {
				return nil, err
			}
		}
		descend(has)
	}
	return p.s.Mend(smallLog)
}

// whole opens the mended directory as a start does, and compares everything.
func (p *patient) whole(files FS) error {
	o, err := start(files)
	defer o.close()
	if err != nil {
		return err
	}
	if d := o.d.Loss(); d != 0 {
		return fmt.Errorf("it is marked with %d", d)
	}
	h := o.l.HardState()
	if o.l.LastIndex() != p.last || h.Term != p.hard.Term || h.Vote != p.hard.Vote || h.Commit < p.hard.Commit {
		return fmt.Errorf("the log ends with %d, %+v; want %d, %+v", o.l.LastIndex(), h, p.last, p.hard)
	}
	entries, err := o.l.Entries(nil, o.l.FirstIndex(), p.last+1, 0)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if w := p.want[e.Index]; e.Term != w.Term || !bytes.Equal(e.Data, w.Data) {
			return fmt.Errorf("entry %d is %q of term %d", e.Index, e.Data, e.Term)
		}
	}
	p.apply(o.s, p.last)
	for i := uint64(1); i <= p.last; i++ {
		if v, ok, err := o.s.Get(fmt.Appendf(nil, "\x00\x00%04d", i), nil); err != nil || !ok || !bytes.Equal(v, p.want[i].Data) {
			return fmt.Errorf("entry %d isn't in the state (%w)", i, err)
		}
	}
	return nil
}

// TestMend: directories that are damaged in different places make each other whole without a leader; where a promise may be lost, nothing
// makes them whole (faults 48, 59; C14).
func TestMend(t *testing.T) {
	const last = 60
	sound := func(applied uint64) *patient { return newPatient(t, last, applied, 30, 0) }
	vote := func(p *patient) *patient {
		d, l, err := openDirLog(p.fs, smallLog)
		if err == nil {
			p.hard.Term++
			err = errors.Join(l.Append(Append{State: p.hard}), l.Append(Append{State: HardState{Term: p.hard.Term + 1}}), l.Close(), d.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		name  string
		nodes []*patient
		want  string // of each: l mended alone, o with the others, - not
	}{
		{"a hole below the state", []*patient{sound(40).lose(10, 12)}, "l"},
		{"several holes below the state", []*patient{sound(55).lose(10, 12).lose(20, 20).lose(30, 31)}, "l"},
		{"holes above the states", []*patient{sound(10).lose(20, 25), sound(10).lose(40, 45)}, "oo"},
		{"a state, and a hole", []*patient{sound(10).loseState().lose(1, 3), sound(50).lose(20, 25)}, "ol"},
		{"both states, the logs go back to the first entry", []*patient{sound(10).loseState(), sound(10).loseState()}, "ll"},
		{"both states, and holes", []*patient{sound(10).loseState().lose(10, 20), sound(10).loseState().lose(30, 40)}, "oo"},
		{"helical", []*patient{sound(5).loseState().lose(10, 20), sound(5).loseState().lose(30, 40), sound(25).lose(45, 50)}, "ooo"},
		{"holes side by side", []*patient{sound(10).lose(20, 25), sound(10).lose(26, 27)}, "oo"},
		{"holes side by side, the other way round", []*patient{sound(10).lose(26, 27), sound(10).lose(20, 25)}, "oo"},
		{"holes side by side, where a term begins", []*patient{sound(10).lose(27, 29), sound(10).lose(30, 31)}, "--"},
		{"the same hole", []*patient{sound(10).lose(20, 25), sound(10).lose(22, 23)}, "--"},
		{"the end is lost", []*patient{sound(40).lose(58, 60), sound(40)}, "-l"},
		{"a vote behind a lost end", []*patient{vote(sound(40)).lose(55, 60), sound(40)}, "-l"},
	} {
		for _, p := range c.nodes {
			if err := p.examine(p.fs, LostLog); err != nil {
				t.Fatal(c.name, err)
			}
		}
		var got []byte
		for i, p := range c.nodes {
			was := byte('l')
			done, err := p.s.Mend(smallLog)
			if done == nil && err == nil {
				was = 'o'
				done, err = p.helpedBy(slices.Delete(slices.Clone(c.nodes), i, i+1)...)
			}
			if done == nil {
				was = '-'
			}
			if got = append(got, was); err != nil {
				t.Errorf("%s, node %d: %v", c.name, i+1, err)
			}
			unsure := p.s.Unsure()
			if was == '-' && (unsure != nil) != (p.d.Loss()&LostPromise != 0) {
				t.Errorf("%s, node %d: %v, marked with %d", c.name, i+1, unsure, p.d.Loss())
			}
		}
		if string(got) != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
			continue
		}
		for i, p := range c.nodes {
			if p.s.Close(); got[i] != '-' {
				p.d.Close()
				if err := p.whole(p.fs); err != nil {
					t.Errorf("%s, node %d: %v", c.name, i+1, err)
				}
			}
		}
	}
}

// TestMendReplaced: what a lost part had replaced in the piece before it isn't taken, whatever it says; nor is it believed where
// nobody can say (log matching).
func TestMendReplaced(t *testing.T) {
	broken := func() *patient { return newPatient(t, 40, 10, 20, 6).lose(20, 29) }
	for _, c := range []struct {
		name   string
		helper *patient
		mended bool
	}{
		{"all of it", newPatient(t, 40, 10, 20, 0), true},
		{"from where they agree", newPatient(t, 40, 5, 20, 0).lose(11, 18), true},
		{"only what was replaced", newPatient(t, 40, 5, 20, 0).lose(11, 22), false},
	} {
		p := broken()
		if err := errors.Join(p.examine(p.fs, LostLog), c.helper.examine(c.helper.fs, LostLog)); err != nil {
			t.Fatal(err)
		}
		done, err := p.helpedBy(c.helper)
		if err != nil || (done != nil) != c.mended {
			t.Errorf("%s: %+v, %v", c.name, done, err)
		}
		if p.s.Close(); done != nil {
			p.d.Close()
			if err := p.whole(p.fs); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// TestMendOnlyTheSameLog: entries are taken only where they go on with the entry that is here.
func TestMendOnlyTheSameLog(t *testing.T) {
	p := newPatient(t, 40, 10, 20, 0).lose(22, 25) // term 4
	other := newPatient(t, 40, 10, 41, 0)          // term 3 all over: another history
	if err := errors.Join(p.examine(p.fs, LostLog), other.examine(other.fs, LostLog)); err != nil {
		t.Fatal(err)
	}
	q, _ := p.s.Wants(10)
	if q != (StretchQuery{Lowest: 10, Last: 25, Anchor: 26}) {
		t.Fatalf("it wants %+v", q)
	}
	x, ok, err := other.s.Stretch(q)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := p.s.Take(&x); !errors.Is(err, ErrStretch) {
		t.Errorf("entries of another log: %v", err)
	}
	same := newPatient(t, 40, 10, 20, 0)
	if err := same.examine(same.fs, LostLog); err != nil {
		t.Fatal(err)
	}
	if x, ok, err = same.s.Stretch(q); err != nil || !ok {
		t.Fatal(ok, err)
	}
	for what, change := range map[string]func(x *Stretch){
		"one is missing":       func(x *Stretch) { x.Entries = slices.Delete(x.Entries, 3, 4) },
		"the last is missing":  func(x *Stretch) { x.Entries = x.Entries[:len(x.Entries)-1] },
		"none":                 func(x *Stretch) { x.Entries = nil },
		"terms that fall":      func(x *Stretch) { x.Entries[2].Term = 4 },
		"a term of the future": func(x *Stretch) { x.Entries[len(x.Entries)-1].Term = 5 },
		"no term":              func(x *Stretch) { x.Entries[0].Term, x.Before = 0, 0 },
		"before another entry": func(x *Stretch) { x.Anchor.Index++ },
	} {
		y := x
		y.Entries = slices.Clone(x.Entries)
		change(&y)
		if err := p.s.Take(&y); !errors.Is(err, ErrStretch) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if z, err := DecodeStretch(x.AppendTo(nil)); err != nil || p.s.Take(&z) != nil || !p.s.Whole() {
		t.Errorf("the right ones aren't taken: %v", err)
	}
	b := x.AppendTo(nil)
	for n := range b {
		if _, err := DecodeStretch(b[:n]); !errors.Is(err, ErrStretch) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

// TestMendStateFits: a checkpoint is taken only where the log goes on behind it, or can't have anything that counts.
func TestMendStateFits(t *testing.T) {
	for _, c := range []struct {
		name    string
		at      uint64
		term    uint64
		fits    bool
		first   uint64 // of the log behind it
		lastly  uint64
		newTerm bool
	}{
		{"below the log", 25, 4, false, 0, 0, false},
		{"in the log", 35, 4, true, 32, 40, false},
		{"its end", 40, 4, true, 32, 40, false},
		{"beyond it", 45, 4, true, 46, 45, false},
		{"beyond it, of a later term", 45, 7, true, 46, 45, true},
		{"another entry there, which was never committed", 35, 7, true, 36, 35, true},
		{"another entry where one was committed", 31, 7, false, 0, 0, false},
	} {
		p := newPatient(t, 40, 31, 20, 0).loseState().lose(22, 30)
		helper := newPatient(t, 50, c.at, 20, 0)
		if err := errors.Join(p.examine(p.fs, LostLog), helper.examine(helper.fs, LostLog)); err != nil {
			t.Fatal(err)
		}
		cp, err := helper.s.Checkpoint(func(m *Manifest, _ *State) error { m.Term = c.term; return nil })
		if err == nil {
			err = (&source{checkpoint: cp}).fetchAll(p.d, 20_000)
		}
		if err != nil {
			t.Fatal(c.name, err)
		}
		done, err := p.s.Mend(smallLog)
		if c.fits != (done != nil) || c.fits != (err == nil) || !c.fits && !errors.Is(err, ErrFetched) {
			t.Errorf("%s: %+v, %v", c.name, done, err)
		}
		p.s.Close()
		if p.d.Close(); done == nil {
			if m, err := p.d.complete(); m != nil || err != nil || p.d.Loss()&LostState == 0 {
				t.Errorf("%s: %v, %v is left, marked with %d", c.name, m, err, p.d.Loss())
			}
			continue
		}
		o, err := start(p.fs)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else {
			want := HardState{Term: 4, Vote: 2, Commit: max(31, c.at)}
			if c.newTerm {
				want.Term, want.Vote = c.term, 0
			}
			if h := o.l.HardState(); o.l.FirstIndex() != c.first || o.l.LastIndex() != c.lastly || o.s.AppliedIndex() != c.at || h != want {
				t.Errorf("%s: log of %d to %d, state of %d, %+v; want %+v", c.name, o.l.FirstIndex(), o.l.LastIndex(), o.s.AppliedIndex(), h, want)
			}
		}
		o.close()
	}
}

// TestCrashWhileMending: power is lost behind every operation of a mend with fetched entries and a fetched state. A start finds the directory marked, with
// all that was there, or whole (faults 37 to 43, 59; C14).
func TestCrashWhileMending(t *testing.T) {
	for name, state := range map[string]bool{"own state": true, "another's state": false} {
		p, helper := newPatient(t, 60, 10, 30, 0).lose(20, 25), newPatient(t, 60, 50, 30, 0)
		if !state {
			p.loseState()
		}
		var images, olds, news int
		marked, switched := false, false
		var mu sync.Mutex // Pebble has goroutines
		fs := &opFS{FS: p.fs}
		crash := func(op string) {
			mu.Lock()
			defer mu.Unlock()
			for _, percent := range []int{0, 100, 50, killed} {
				images++
				clone := imageOf(t, p.fs, uint64(images), percent)
				d, err := Open(Options{Dir: "/data", FS: clone, Node: 1})
				if err != nil {
					t.Errorf("%s, image %d (%s): %v", name, images, op, err)
					continue
				}
				damage := d.Loss()
				d.Close()
				switch kept := names(t, clone); {
				case damage == 0 && p.whole(clone) == nil:
					news++
				case switched, marked && damage == 0:
					t.Errorf("%s, image %d (%s), %d %%: damage %d: %v", name, images, op, percent, damage, p.whole(clone))
				case !slices.Contains(kept, logName), state && !slices.Contains(kept, stateName):
					t.Errorf("%s, image %d (%s), %d %%: %v is left of what was there", name, images, op, percent, kept)
				default:
					olds++
				}
			}
		}
		if err := errors.Join(helper.examine(helper.fs, LostLog), p.examine(fs, LostLog)); err != nil {
			t.Fatal(err)
		}
		marked, fs.after = true, crash
		if done, err := p.helpedBy(helper); done == nil || err != nil {
			t.Fatalf("%s: %+v, %v", name, done, err)
		}
		switched = true
		crash("at the end")
		fs.after = nil
		if left := names(t, p.fs); slices.Contains(left, mendName) || slices.Contains(left, fetchName) || slices.Contains(left, logName) {
			t.Errorf("%s: %v is left", name, left)
		}
		if olds < 40 || news < 8 {
			t.Errorf("%s: %d images were damaged, %d whole: too few", name, olds, news)
		}
	}
}

// TestMendFullDisk: where there is no room for a mend, everything stays as it is, and it is done when there is.
func TestMendFullDisk(t *testing.T) {
	p := newPatient(t, 60, 40, 30, 0).lose(10, 12)
	fs := &faultFS{FS: p.fs}
	if err := p.examine(fs, LostLog); err != nil {
		t.Fatal(err)
	}
	fs.write = fmt.Errorf("writing: %w", syscall.ENOSPC)
	for range 2 {
		if done, err := p.s.Mend(smallLog); done != nil || !errors.Is(err, ErrFull) {
			t.Fatalf("without room: %+v, %v", done, err)
		}
		if left := names(t, p.fs); p.d.Loss() != LostLog || !slices.Contains(left, logName) || slices.Contains(left, generationName(1)) {
			t.Errorf("marked with %d, and %v is there", p.d.Loss(), left)
		}
	}
	fs.write = nil
	if done, err := p.s.Mend(smallLog); done == nil || err != nil {
		t.Fatalf("with room: %+v, %v", done, err)
	}
	p.s.Close()
	p.d.Close()
	if err := p.whole(p.fs); err != nil {
		t.Error(err)
	}
}

// TestMendResumes: what was fetched before the process died is used again, unless it was damaged since.
func TestMendResumes(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		p, helper := newPatient(t, 60, 10, 30, 0).lose(20, 25), newPatient(t, 60, 10, 30, 0)
		if err := errors.Join(p.examine(p.fs, LostLog), helper.examine(helper.fs, LostLog)); err != nil {
			t.Fatal(err)
		}
		q, _ := p.s.Wants(10)
		x, _, err := helper.s.Stretch(q)
		if err = errors.Join(err, p.s.Take(&x), p.s.Close(), p.d.Close()); err != nil {
			t.Fatal(err)
		}
		if damaged {
			flipByte(t, p.fs, "/data/mend/"+stretchName(q.Last), 40)
		}
		if err := p.examine(p.fs, LostLog); err != nil || p.s.Whole() == damaged {
			t.Errorf("damaged: %v; whole: %v, %v", damaged, p.s.Whole(), err)
		}
	}
}

// TestMendKeepsFetched: a checkpoint of any node that was fetched before the process died stays, unless a promise is lost.
func TestMendKeepsFetched(t *testing.T) {
	for mark, kept := range map[Loss]bool{LostLog: true, LostState: true, LostLog | LostPromise: false} {
		p, helper := newPatient(t, 40, 31, 20, 0), newPatient(t, 50, 35, 20, 0)
		if err := errors.Join(p.examine(p.fs, mark), helper.examine(helper.fs, LostLog)); err != nil {
			t.Fatal(err)
		}
		c, err := helper.s.Checkpoint(func(*Manifest, *State) error { return nil })
		if err == nil {
			err = (&source{checkpoint: c}).fetchAll(p.d, 20_000)
		}
		if err != nil {
			t.Fatal(err)
		}
		installed, err := p.d.Install(smallLog)
		if installed != nil || err != nil {
			t.Errorf("marked with %d: %v, %v", mark, installed, err)
		}
		if m, err := p.d.complete(); err != nil || (m != nil) != kept {
			t.Errorf("marked with %d: %v is left, %v", mark, m, err)
		}
	}
}

// TestOffersCertainOnly: a damaged node offers its state only where the term of its last entry is certain.
func TestOffersCertainOnly(t *testing.T) {
	// What was lost had replaced entry 24 in the piece that is left of before, and was applied.
	p := newPatient(t, 40, 24, 20, 6).lose(20, 26)
	if err := p.examine(p.fs, LostLog); err != nil {
		t.Fatal(err)
	}
	if got := p.s.Offers(); got != 0 {
		t.Errorf("it offers the state of entry %d", got)
	}
	if c, err := p.s.Checkpoint(nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a checkpoint: %v, %v", c, err)
	}
}

// TestStretchOfLog: a running node's log answers with as much as fits, from the upper end on.
func TestStretchOfLog(t *testing.T) {
	d, l, err := openDirLog(vfs.NewCrashableMem(), LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer l.Close()
	for i := uint64(1); i <= 20; i++ {
		if err := l.Append(Append{State: HardState{Term: 1}, Entries: []Entry{{Index: i, Term: 1, Data: make([]byte, 300<<10)}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		q     StretchQuery
		ok    bool
		first uint64
	}{
		{StretchQuery{2, 10, 11}, true, 8},
		{StretchQuery{9, 10, 10}, true, 9},
		{StretchQuery{1, 2, 3}, true, 1},
		{StretchQuery{1, 20, 21}, true, 18},
		{StretchQuery{1, 21, 21}, false, 0},
		{StretchQuery{1, 0, 1}, false, 0},
		{StretchQuery{5, 4, 5}, false, 0},
	} {
		x, ok, err := l.Stretch(c.q)
		if err != nil || ok != c.ok || ok && (x.Entries[0].Index != c.first || x.check(Anchor{c.q.Anchor, 1}, c.q.Last) != nil) {
			t.Errorf("%+v: %v, %v, %d entries", c.q, ok, err, len(x.Entries))
		}
	}
}

// TestRecoveries: recoveries are counted while they follow on each other; a file that can't be read counts none.
func TestRecoveries(t *testing.T) {
	mem := vfs.NewCrashableMem()
	d, err := Open(Options{Dir: "/data", FS: mem, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	now := int64(1_000_000)
	for i := range 3 {
		if n := d.Recoveries(now); n != i {
			t.Errorf("%d, want %d", n, i)
		}
		if err := d.NoteRecovery(now); err != nil {
			t.Fatal(err)
		}
		now += recoveryLasts.Milliseconds()
	}
	if n := d.Recoveries(now + 1); n != 0 {
		t.Errorf("%d much later", n)
	}
	flipByte(t, mem, "/data/RECOVERIES", 12)
	if n := d.Recoveries(now); n != 0 {
		t.Errorf("%d of a damaged file", n)
	}
}
