package storetest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// Log is what the suite holds every implementation of a log to; *store.Log says what each method does.
type Log interface {
	replica.Log
	Empty() bool
}

// RunLog runs the suite on logs with small segments and a small tail.
func RunLog(t *testing.T, start func(t *testing.T) Disk[Log]) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, d Disk[Log])
	}{
		{"Empty", suiteEmpty},
		{"Reopen", suiteReopen},
		{"Ranges", suiteRanges},
		{"Conflict", suiteConflict},
		{"Cut", suiteCut},
		{"Large", suiteLarge},
		{"CommitAlone", suiteCommitAlone},
		{"Rules", suiteRules},
		{"Crash", suiteCrash},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, start(t)) })
	}
}

// run makes entries lo to hi, of some size each.
func run(lo, hi, term uint64, size int) (entries []store.Entry) {
	for i := lo; i <= hi; i++ {
		entries = append(entries, store.Entry{Index: i, Term: term, Type: uint8(i % 3), Data: bytes.Repeat([]byte{byte(i), byte(term)}, size/2)})
	}
	return entries
}

func mustAppend(t *testing.T, l Log, a store.Append) {
	t.Helper()
	if err := l.Append(a); err != nil {
		t.Fatal(err)
	}
}

// want reads lo to hi and compares.
func want(t *testing.T, l Log, entries []store.Entry) {
	t.Helper()
	lo, hi := entries[0].Index, entries[len(entries)-1].Index
	got, err := l.Entries(nil, lo, hi+1, 0)
	if err != nil || len(got) != len(entries) {
		t.Fatalf("entries %d to %d: %d of them, %v", lo, hi, len(got), err)
	}
	for i, e := range got {
		w := entries[i]
		term, err := l.Term(e.Index)
		if e.Index != w.Index || e.Term != w.Term || e.Type != w.Type || !bytes.Equal(e.Data, w.Data) || term != w.Term || err != nil {
			t.Fatalf("entry %d: %d/%d, %d bytes; want %d/%d, %d bytes; term %d, %v", w.Index, e.Index, e.Term, len(e.Data), w.Index, w.Term, len(w.Data), term, err)
		}
	}
}

func suiteEmpty(t *testing.T, d Disk[Log]) {
	for range 2 {
		l := d.Open()
		if l.FirstIndex() != 1 || l.LastIndex() != 0 || !l.Empty() || l.HardState() != (store.HardState{}) || l.SizeBytes() != 0 {
			t.Errorf("a new log: first %d, last %d, empty %v, state %+v", l.FirstIndex(), l.LastIndex(), l.Empty(), l.HardState())
		}
		if term, err := l.Term(0); term != 0 || err != nil {
			t.Errorf("term of 0: %d, %v", term, err)
		}
		if _, err := l.Term(1); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("term of 1: %v", err)
		}
		if _, err := l.Entries(nil, 1, 2, 0); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("entry 1: %v", err)
		}
		l.Close()
	}
	l := d.Open()
	mustAppend(t, l, store.Append{State: store.HardState{Term: 1, Vote: 2}})
	l.Close()
	l = d.Open()
	if l.Empty() || l.HardState() != (store.HardState{Term: 1, Vote: 2}) {
		t.Errorf("a vote alone: empty %v, state %+v", l.Empty(), l.HardState())
	}
	l.Close()
}

func suiteReopen(t *testing.T, d Disk[Log]) {
	var all []store.Entry
	for round := uint64(0); round < 12; round++ {
		l := d.Open()
		if l.LastIndex() != uint64(len(all)) {
			t.Fatalf("round %d: last index %d, want %d", round, l.LastIndex(), len(all))
		}
		for range 4 {
			next := uint64(len(all)) + 1
			a := store.Append{State: store.HardState{Term: round + 1, Vote: round % 3, Commit: next - 1}, Entries: run(next, next+round%3, round+1, 1500)}
			mustAppend(t, l, a)
			all = append(all, a.Entries...)
			if l.HardState() != a.State {
				t.Errorf("state %+v, want %+v", l.HardState(), a.State)
			}
		}
		want(t, l, all)
		l.Close()
		l = d.Open()
		want(t, l, all)
		if l.HardState().Term != round+1 {
			t.Errorf("round %d: state %+v", round, l.HardState())
		}
		l.Close()
	}
}

func suiteRanges(t *testing.T, d Disk[Log]) {
	l := d.Open()
	all := run(1, 60, 1, 1000)
	for i := 0; i < 60; i += 5 {
		mustAppend(t, l, store.Append{State: store.HardState{Term: 1}, Entries: all[i : i+5]})
	}
	for lo := uint64(1); lo <= 60; lo += 3 {
		for hi := lo; hi <= 60; hi += 7 {
			want(t, l, all[lo-1:hi])
		}
		for _, c := range []struct{ max, n uint64 }{{1, 1}, {999, 1}, {1000, 1}, {2999, 2}, {30000, 30}, {1 << 40, 60}} {
			got, err := l.Entries(make([]store.Entry, 2), lo, 61, c.max)
			if n := min(c.n, 61-lo); err != nil || uint64(len(got)) != n+2 {
				t.Errorf("from %d, %d bytes: %d entries, %v; want %d", lo, c.max, len(got)-2, err, n)
			}
		}
	}
	for _, c := range []struct{ lo, hi uint64 }{{60, 62}, {61, 62}, {80, 90}} {
		if _, err := l.Entries(nil, c.lo, c.hi, 0); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%d to %d: %v", c.lo, c.hi, err)
		}
	}
	l.Close()
}

// suiteConflict: a new leader's entries replace a suffix, within a segment, over several, and twice.
func suiteConflict(t *testing.T, d Disk[Log]) {
	l := d.Open()
	all := run(1, 50, 1, 1400)
	for i := 0; i < 50; i += 2 {
		mustAppend(t, l, store.Append{State: store.HardState{Term: 1}, Entries: all[i : i+2]})
	}
	for term, at := range []uint64{49, 30, 32, 12, 12, 3} {
		e := run(at, at+uint64(term)*3, uint64(term)+2, 900)
		mustAppend(t, l, store.Append{State: store.HardState{Term: uint64(term) + 2}, Entries: e})
		all = append(all[:at-1:at-1], e...)
		want(t, l, all)
		if l.LastIndex() != uint64(len(all)) {
			t.Errorf("last index %d, want %d", l.LastIndex(), len(all))
		}
		if _, err := l.Term(l.LastIndex() + 1); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("term of a replaced entry: %v", err)
		}
		l.Close()
		l = d.Open()
		want(t, l, all)
	}
	l.Close()
}

func suiteCut(t *testing.T, d Disk[Log]) {
	l := d.Open()
	all := run(1, 200, 1, 1500)
	for i := 0; i < 200; i += 2 {
		if i == 100 {
			for j := i; j < 200; j++ {
				all[j].Term = 4
			}
		}
		mustAppend(t, l, store.Append{State: store.HardState{Term: all[i].Term, Vote: 2}, Entries: all[i : i+2]})
	}
	before := l.SizeBytes()
	if all, none, some := l.Suffix(before), l.Suffix(0), l.Suffix(before/2); all != 1 || none != 201 || some < 70 || some > 140 {
		t.Errorf("suffixes of %d, %d and 0 bytes begin at %d, %d and %d", before, before/2, all, some, none)
	}
	for _, cut := range []uint64{1, 20, 101, 101, 60, 198} {
		if err := l.Cut(cut); err != nil {
			t.Fatal(err)
		}
		first := l.FirstIndex()
		if first > max(cut, 101) {
			t.Fatalf("cut at %d: first index %d", cut, first)
		}
		want(t, l, all[first-1:])
		if first > 1 {
			if _, err := l.Entries(nil, first-1, first+1, 0); !errors.Is(err, store.ErrCut) {
				t.Errorf("an entry that was cut: %v", err)
			}
			if term, err := l.Term(first - 1); err != nil || term != all[first-2].Term {
				t.Errorf("the term before the first: %d, %v", term, err)
			}
		}
		if first > 2 {
			if _, err := l.Term(first - 2); !errors.Is(err, store.ErrCut) {
				t.Errorf("the term two before the first: %v", err)
			}
		}
	}
	first := l.FirstIndex()
	if first < 150 || l.SizeBytes() > before/3 {
		t.Errorf("cut at 198: first index %d, %d of %d bytes left", first, l.SizeBytes(), before)
	}
	l.Close()
	l = d.Open()
	if l.FirstIndex() != first || l.HardState() != (store.HardState{Term: 4, Vote: 2}) {
		t.Errorf("reopened: first index %d, want %d; state %+v", l.FirstIndex(), first, l.HardState())
	}
	want(t, l, all[first-1:])
	more := run(201, 300, 5, 700)
	for i := range more {
		mustAppend(t, l, store.Append{State: store.HardState{Term: 5, Vote: 2}, Entries: more[i : i+1]})
	}
	want(t, l, append(all[first-1:], more...))
	l.Close()
}

// suiteLarge: an append larger than a segment.
func suiteLarge(t *testing.T, d Disk[Log]) {
	l := d.Open()
	all := append(run(1, 1, 1, 100<<10), run(2, 30, 1, 6<<10)...)
	mustAppend(t, l, store.Append{State: store.HardState{Term: 1}, Entries: all[:1]})
	mustAppend(t, l, store.Append{Entries: all[1:]})
	small := run(31, 33, 1, 10)
	mustAppend(t, l, store.Append{Entries: small})
	all = append(all, small...)
	want(t, l, all)
	l.Close()
	l = d.Open()
	want(t, l, all)
	if err := l.Cut(31); err != nil || l.FirstIndex() != 31 {
		t.Errorf("cut: %v, first index %d", err, l.FirstIndex())
	}
	want(t, l, small)
	l.Close()
}

// suiteCommitAlone: a commit index is remembered at once and kept by the next append, or at once where that is asked for.
func suiteCommitAlone(t *testing.T, d Disk[Log]) {
	l := d.Open()
	mustAppend(t, l, store.Append{State: store.HardState{Term: 1, Vote: 1}, Entries: run(1, 3, 1, 10)})
	size := l.SizeBytes()
	mustAppend(t, l, store.Append{State: store.HardState{Term: 1, Vote: 1, Commit: 2}})
	if l.HardState().Commit != 2 || l.SizeBytes() != size {
		t.Errorf("state %+v, %d bytes more", l.HardState(), l.SizeBytes()-size)
	}
	mustAppend(t, l, store.Append{Entries: run(4, 4, 1, 10)})
	l.Close()
	l = d.Open()
	if s := l.HardState(); s != (store.HardState{Term: 1, Vote: 1, Commit: 2}) {
		t.Errorf("state %+v", s)
	}
	mustAppend(t, l, store.Append{State: store.HardState{Term: 1, Vote: 1, Commit: 4}, Commit: true})
	l.Close()
	l = d.Open()
	if s := l.HardState(); s != (store.HardState{Term: 1, Vote: 1, Commit: 4}) {
		t.Errorf("written alone, state %+v", s)
	}
	l.Close()
}

// suiteRules: who breaks raft's rules is told at once.
func suiteRules(t *testing.T, d Disk[Log]) {
	l := d.Open()
	for i, a := range []store.Append{
		{Entries: run(2, 2, 1, 1)},
		{Entries: []store.Entry{{Index: 1}, {Index: 3}}},
		{Group: 1, Entries: run(1, 1, 1, 1)},
		{Entries: []store.Entry{{Index: 0}}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("append %d was taken", i)
				}
			}()
			l.Append(a)
		}()
	}
	l.Close()
}

// suiteCrash: what Append has returned nil for outlives every crash (C14), and what comes behind a crash the next one.
func suiteCrash(t *testing.T, d Disk[Log]) {
	rng := rand.New(rand.NewPCG(1, 1))
	var all []store.Entry
	state, cut := store.HardState{Term: 1, Vote: 1}, uint64(1)
	for life := range uint64(25) {
		l := d.Open()
		if got := l.HardState(); l.LastIndex() != uint64(len(all)) || life > 0 && (got.Term != state.Term || got.Vote != state.Vote) {
			t.Fatalf("life %d: last index %d of %d, state %+v of %+v", life, l.LastIndex(), len(all), got, state)
		}
		if first := l.FirstIndex(); first > cut {
			t.Fatalf("life %d: first index %d, cut at %d", life, first, cut)
		} else if len(all) > 0 {
			want(t, l, all[first-1:])
		}
		for range 1 + rng.IntN(12) {
			next := uint64(len(all)) + 1
			if rng.IntN(5) == 0 && next > cut+4 {
				next -= 1 + rng.Uint64N(3)
				state.Term++
			}
			state.Vote = rng.Uint64N(4)
			e := run(next, next+rng.Uint64N(4), state.Term, rng.IntN(3000))
			mustAppend(t, l, store.Append{State: state, Entries: e})
			all = append(all[:next-1:next-1], e...)
		}
		if life%4 == 3 {
			cut = uint64(len(all)) - 3
			if err := l.Cut(cut); err != nil {
				t.Fatal(err)
			}
		}
		d.Crash(life)
	}
	if cut < 50 {
		t.Errorf("too tame: the last cut was at %d", cut)
	}
}
