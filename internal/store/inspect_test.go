package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
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
