package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// inspected compares what Inspect says of a log with what OpenLog made of the same files: the one calls damaged what the other
// refuses, and where it isn't both see the same entries and hard state.
func inspected(x *Inspection, l *Log, openErr error) error {
	in := x.Log
	if openErr != nil {
		if refused := errors.Is(openErr, ErrCorrupt) || errors.Is(openErr, ErrForeign) || errors.Is(openErr, ErrVersion); refused != (len(x.Damage) > 0) {
			return fmt.Errorf("found %+v, and opening said: %w", x.Damage, openErr)
		}
		return nil
	}
	if len(x.Damage) > 0 || len(in.Pieces) > 1 || !in.StateSound || in.TailLost {
		return fmt.Errorf("opened, and found %+v in %d pieces, hard state sound: %v", x.Damage, len(in.Pieces), in.StateSound)
	}
	h := l.HardState()
	if len(in.Pieces) == 0 {
		if !l.Empty() {
			return fmt.Errorf("no pieces of a log of %d to %d", l.FirstIndex(), l.LastIndex())
		}
		return nil
	}
	p := in.Pieces[0]
	if p.First() != l.FirstIndex() || p.Last() != l.LastIndex() || in.State != h {
		return fmt.Errorf("found %d to %d, %+v; opened: %d to %d, %+v", p.First(), p.Last(), in.State, l.FirstIndex(), l.LastIndex(), h)
	}
	return nil
}

// look inspects the log of the tests' directory; nil where there is none.
func look(fs FS) (*Inspection, error) {
	x, err := Inspect(InspectOptions{Dir: "/data", FS: fs, LogOnly: true, Locked: true})
	if errors.Is(err, ErrNothing) {
		return nil, nil
	}
	return x, err
}

// pieces says what is left of a log: "1-5 7-9", a bar before a piece that is joined, and "…" behind a lost tail.
func pieces(in *LogInspection) string {
	var b strings.Builder
	for i, p := range in.Pieces {
		if i > 0 {
			b.WriteString(map[bool]string{true: "|", false: " "}[p.Joined])
		}
		fmt.Fprintf(&b, "%d-%d", p.First(), p.Last())
	}
	if in.TailLost {
		b.WriteString("…")
	}
	return b.String()
}

// entriesOf reads all pieces and compares them with what was written.
func (m model) entriesOf(in *LogInspection) error {
	for _, p := range in.Pieces {
		got, err := p.Entries(nil, p.First(), p.Last()+1, 0)
		if err != nil {
			return err
		}
		for _, e := range got {
			want := m.entries[e.Index-1]
			if term, err := p.Term(e.Index); e.Term != want.Term || term != want.Term || err != nil || string(e.Data) != string(want.Data) {
				return fmt.Errorf("entry %d isn't what was written (%w)", e.Index, err)
			}
		}
	}
	return nil
}

// TestInspectPieces: what is left around each kind of damage, and whether the hard state is sound, is said exactly.
func TestInspectPieces(t *testing.T) {
	w := writeLog(t)
	last := uint64(len(w.model.entries))
	batch := func(i uint64) place { return w.places[i-1] } // one entry each
	firstOf3 := uint64(0)
	for i := uint64(1); i <= last && firstOf3 == 0; i++ {
		if batch(i).seq == 3 {
			firstOf3 = i
		}
	}
	flip := func(seq uint64, offset int64) FS {
		return w.edit(t, seq, func(b []byte) []byte { b[offset] ^= 4; return b })
	}
	gone := func(seq uint64) FS {
		fs := CrashFS(w.mem, 1, 100)
		if err := fs.Remove("/data/log/" + segmentName(seq)); err != nil {
			t.Fatal(err)
		}
		return fs
	}
	firstOf2 := uint64(0)
	for i := uint64(1); firstOf2 == 0; i++ {
		if batch(i).seq == 2 {
			firstOf2 = i
		}
	}
	for _, tc := range []struct {
		name  string
		fs    FS
		want  string
		sound bool
	}{
		{"nothing", w.mem, fmt.Sprintf("1-%d", last), true},
		{"a record in the middle", flip(2, batch(firstOf2+1).start+batchHeaderBytes+9), fmt.Sprintf("1-%d %d-%d", firstOf2, firstOf2+2, last), true},
		{"a header of a batch in the middle", flip(2, batch(firstOf2+1).start+9), fmt.Sprintf("1-%d %d-%d", firstOf2, firstOf2+2, last), true},
		{"a batch of the last segment", flip(3, batch(firstOf3+1).start+9), fmt.Sprintf("1-%d %d-%d", firstOf3, firstOf3+2, last), false},
		{"a segment's header", flip(2, 20), fmt.Sprintf("1-%d|%d-%d", firstOf2-1, firstOf2, last), true},
		{"the last segment's header", flip(3, 20), fmt.Sprintf("1-%d|%d-%d", firstOf3-1, firstOf3, last), true},
		{"a segment's first batch", flip(2, batch(firstOf2).start+9), fmt.Sprintf("1-%d %d-%d", firstOf2-1, firstOf2+1, last), true},
		{"the very first batch", flip(1, batch(1).start+9), fmt.Sprintf("2-%d", last), true},
		{"a segment is gone", gone(2), fmt.Sprintf("1-%d %d-%d", firstOf2-1, firstOf3, last), true},
		{"the last segment is gone", gone(3), fmt.Sprintf("1-%d", firstOf3-1), true},
		{"the last segment is cut to a block", w.edit(t, 3, func(b []byte) []byte { return b[:blockBytes] }), fmt.Sprintf("1-%d", firstOf3-1), true},
		{"the last batch", flip(3, batch(last).start+9), fmt.Sprintf("1-%d", last-1), true},
		{"the last two batches", w.edit(t, 3, func(b []byte) []byte {
			b[batch(last-1).start+9] ^= 1
			b[batch(last).start+batchHeaderBytes+9] ^= 1
			return b
		}), fmt.Sprintf("1-%d…", last-2), false},
	} {
		x, err := look(tc.fs)
		if err != nil {
			t.Fatal(err)
		}
		if got := pieces(x.Log); got != tc.want || x.Log.StateSound != tc.sound {
			t.Errorf("%s: %s, hard state sound: %v; want %s, %v; %+v", tc.name, got, x.Log.StateSound, tc.want, tc.sound, x.Damage)
		}
		if err := w.model.entriesOf(x.Log); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		x.Close()
	}
}

// TestInspectBehindHole: what stands first behind a place that can't be read says where the log goes on, also where that is a vote, or a
// new leader replaces entries down to there or below; where nothing says it, the end of the log is lost.
func TestInspectBehindHole(t *testing.T) {
	entry := func(term uint64, indexes ...uint64) (list []Append) {
		for _, i := range indexes {
			list = append(list, Append{State: HardState{Term: term}, Entries: []Entry{{Index: i, Term: term, Data: []byte("data")}}})
		}
		return list
	}
	vote := func(term uint64) []Append { return []Append{{State: HardState{Term: term, Vote: 2}}} }
	for _, c := range []struct {
		name  string
		log   []Append
		lose  []int // appends, from 0
		want  string
		sound bool
		term  uint64 // of the entry before the last piece, 0: not known
	}{
		{"a vote, then entries", slices.Concat(entry(1, 1, 2, 3, 4), vote(2), entry(2, 5, 6)), []int{2, 3}, "1-2 5-6", true, 0},
		{"two votes, then entries", slices.Concat(entry(1, 1, 2, 3, 4), vote(2), vote(3), entry(3, 5, 6)), []int{2, 3}, "1-2 5-6", true, 0},
		{"votes alone", slices.Concat(entry(1, 1, 2, 3, 4), vote(2), vote(3)), []int{2, 3}, "1-2…", false, 0},
		{"replaced down to it", slices.Concat(entry(1, 1, 2, 3, 4, 5, 6), entry(2, 5, 6), vote(3), vote(4)), []int{2, 3}, "1-2 5-6", true, 1},
		{"replaced below it", slices.Concat(entry(1, 1, 2, 3, 4, 5, 6), entry(2, 2, 3), vote(3), vote(4)), []int{2, 3}, "1-1 2-3", true, 1},
	} {
		mem := vfs.NewCrashableMem()
		d, l, err := openDirLog(mem, smallLog)
		if err != nil {
			t.Fatal(err)
		}
		var at []int64
		for _, a := range c.log {
			if err := l.Append(a); err != nil {
				t.Fatal(err)
			}
			at = append(at, l.live[0].end-int64(len(l.buf)))
		}
		l.Close()
		d.Close()
		for _, i := range c.lose {
			flipByte(t, mem, "/data/log/"+segmentName(1), at[i]+batchHeaderBytes+9)
		}
		x, err := look(mem)
		if err != nil {
			t.Fatal(err)
		}
		if got := pieces(x.Log); got != c.want || x.Log.StateSound != c.sound {
			t.Errorf("%s: %s, hard state sound: %v; want %s, %v; %+v", c.name, got, x.Log.StateSound, c.want, c.sound, x.Damage)
		}
		if last := x.Log.newest(); last.before() != c.term && !x.Log.TailLost {
			t.Errorf("%s: the entry before the last piece is of term %d, want %d", c.name, last.before(), c.term)
		}
		x.Close()
	}
}
