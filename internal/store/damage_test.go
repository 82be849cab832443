package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// place is where a batch lies, without its padding.
type place struct {
	seq         uint64
	start, used int64
}

// written is a log on a memory file system and where its batches are.
type written struct {
	mem    *vfs.MemFS
	model  model
	places []place
}

// writeLog makes a log of three segments, of which the last holds several batches.
func writeLog(t testing.TB) *written {
	w := &written{mem: vfs.NewCrashableMem()}
	d, l, err := openDirLog(w.mem, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	state := HardState{Term: 2, Vote: 1}
	for i := uint64(1); l.lastSeq < 3 || w.places[len(w.places)-3].seq != 3; i++ {
		a := Append{State: state, Entries: []Entry{{Index: i, Term: 2, Data: []byte(strings.Repeat(fmt.Sprint("entry ", i), int(i%7)*150))}}}
		if err := l.Append(a); err != nil {
			t.Fatal(err)
		}
		w.model = w.model.with(a)
		start := int64(0)
		if seg := l.live[len(l.live)-1]; seg.end == int64(len(l.buf)) {
			start = blockBytes
		} else {
			start = seg.end - int64(len(l.buf))
		}
		used := l.buf
		if start == blockBytes {
			used = used[blockBytes:]
		}
		w.places = append(w.places, place{l.lastSeq, start, batchHeaderBytes + int64(binary.LittleEndian.Uint32(used[28:]))})
	}
	l.Close()
	d.Close()
	return w
}

// edit returns a copy of the file system in which one file was changed.
func (w *written) edit(t testing.TB, seq uint64, change func([]byte) []byte) FS {
	t.Helper()
	fs := CrashFS(w.mem, 1, 100)
	path := "/data/log/" + segmentName(seq)
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	f, err = fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(change(b)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	return fs
}

// outcome is what opening gives: "whole", "end" (the last batch is gone, all else there), "corrupt".
func (w *written) outcome(fs FS) (string, error) {
	d, l, err := openDirLog(fs, smallLog)
	if errors.Is(err, ErrCorrupt) {
		return "corrupt", nil
	}
	if err != nil {
		return "", err
	}
	defer d.Close()
	defer l.Close()
	if err = w.model.check(l); err == nil {
		return "whole", nil
	}
	less := w.model
	less.entries = less.entries[:len(less.entries)-1]
	return "end", less.check(l)
}

// TestBitFlips: a flipped bit in a batch that something later says was synced is corruption; in the last one it is the
// end; where nothing lies it changes nothing (C14; faults 40, 42, 56).
func TestBitFlips(t *testing.T) {
	w := writeLog(t)
	last := w.places[len(w.places)-1]
	seen := map[string]int{}
	flip := func(seq uint64, offset int64, want string) {
		fs := w.edit(t, seq, func(b []byte) []byte { b[offset] ^= 1 << (offset % 8); return b })
		got, err := w.outcome(fs)
		if err != nil || got != want {
			t.Fatalf("bit flipped at %d in segment %d: %s, %v; want %s", offset, seq, got, err, want)
		}
		seen[got]++
	}
	for seq := uint64(1); seq <= 3; seq++ {
		for offset := int64(0); offset < segmentHeaderBytes; offset++ {
			flip(seq, offset, "corrupt")
		}
		flip(seq, segmentHeaderBytes, "whole")
	}
	for _, p := range w.places {
		want := "corrupt"
		if p == last {
			want = "end"
		}
		for offset := p.start; offset < p.start+p.used; offset += 1 + (offset-p.start)/90*23 {
			flip(p.seq, offset, want)
		}
		flip(p.seq, p.start+p.used-1, want)
		if p.used%blockBytes != 0 {
			flip(p.seq, p.start+p.used, "whole")
		}
	}
	if seen["corrupt"] < 500 || seen["end"] < 50 || seen["whole"] < 10 {
		t.Errorf("tried too little: %v", seen)
	}
}

// TestOnlyBatchDamaged: where all older segments are cut, the only batch that is left was synced: else they would be there still.
func TestOnlyBatchDamaged(t *testing.T) {
	w := &written{mem: vfs.NewCrashableMem()}
	d, l, err := openDirLog(w.mem, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	i := uint64(0)
	for l.lastSeq < 3 {
		i++
		if err := l.Append(Append{State: HardState{Term: 2, Vote: 1}, Entries: []Entry{{Index: i, Term: 2, Data: make([]byte, 1000)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Cut(i); err != nil {
		t.Fatal(err)
	}
	if l.FirstIndex() != i {
		t.Fatalf("the log begins at %d, with a segment for %d", l.FirstIndex(), i)
	}
	l.Close()
	d.Close()
	for _, offset := range []int64{0, 17, blockBytes, blockBytes + 83, blockBytes + 700} {
		fs := w.edit(t, 3, func(b []byte) []byte { b[offset] ^= 4; return b })
		if d, l, err := openDirLog(fs, smallLog); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a bit is flipped at %d: %v", offset, err)
			if err == nil {
				l.Close()
				d.Close()
			}
		}
	}
}

// TestTornTail: the last batch may be torn anywhere, at its end or before, with zeros or old bytes behind; what was
// acknowledged before stays (faults 40–42).
func TestTornTail(t *testing.T) {
	w := writeLog(t)
	last := w.places[len(w.places)-1]
	for keep := int64(0); keep <= last.used; keep = keep + 1 + keep/100*3 {
		want := "end"
		if keep == last.used {
			want = "whole"
		}
		tails := map[string]func(b []byte) []byte{
			"cut off": func(b []byte) []byte { return b[:last.start+keep] },
			"zeros":   func(b []byte) []byte { clear(b[last.start+keep:]); return b },
			"old bytes": func(b []byte) []byte {
				copy(b[last.start+keep:], b[w.places[len(w.places)-2].start+keep:last.start])
				return b
			},
		}
		for name, tear := range tails {
			if keep == 0 && name == "old bytes" || keep < last.used && name == "old bytes" && keep > last.used-4 {
				continue // may by chance be the same bytes
			}
			if got, err := w.outcome(w.edit(t, last.seq, tear)); err != nil || got != want {
				t.Fatalf("%d of %d bytes and %s: %s, %v; want %s", keep, last.used, name, got, err, want)
			}
		}
	}
}

// TestTruncation: a file that is cut off below the durable mark, emptied or gone is damage; an empty last one that was
// never begun is not (faults 58, 64).
func TestTruncation(t *testing.T) {
	w := writeLog(t)
	last := w.places[len(w.places)-1]
	for seq := uint64(1); seq <= 2; seq++ {
		for size := int64(0); size <= smallLog.SegmentBytes; size += 1536 {
			want := "corrupt"
			if covered(w.places, seq, size) {
				want = "whole"
			}
			fs := w.edit(t, seq, func(b []byte) []byte { return b[:min(size, int64(len(b)))] })
			if got, err := w.outcome(fs); err != nil || got != want {
				t.Fatalf("segment %d cut off at %d: %s, %v; want %s", seq, size, got, err, want)
			}
		}
	}
	for size := int64(0); size < last.start+last.used; size += 512 {
		// Nothing is left that could say so: Begin and the peers find out. It must be a whole beginning all the same.
		d, l, err := openDirLog(w.edit(t, 3, func(b []byte) []byte { return b[:size] }), smallLog)
		if err != nil {
			t.Fatalf("last segment cut off at %d: %v", size, err)
		}
		less := w.model
		less.entries = less.entries[:l.LastIndex()]
		if err := less.check(l); err != nil || l.LastIndex() == uint64(len(w.model.entries)) {
			t.Fatalf("last segment cut off at %d: %v", size, err)
		}
		l.Close()
		d.Close()
	}
	fs := CrashFS(w.mem, 1, 100)
	if err := fs.Remove("/data/log/" + segmentName(2)); err != nil {
		t.Fatal(err)
	}
	if got, err := w.outcome(fs); got != "corrupt" {
		t.Errorf("segment 2 removed: %s, %v", got, err)
	}
	for seq := uint64(1); seq <= 3; seq++ {
		fs.Remove("/data/log/" + segmentName(seq))
	}
	if got, err := w.outcome(fs); got != "corrupt" {
		t.Errorf("all segments removed: %s, %v", got, err)
	}
	f, err := w.mem.Create("/data/log/"+segmentName(4), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got, err := w.outcome(CrashFS(w.mem, 1, 100)); err != nil || got != "whole" {
		t.Errorf("an empty segment behind: %s, %v", got, err)
	}
}

// covered reports that all batches of a segment lie below size.
func covered(places []place, seq uint64, size int64) bool {
	for _, p := range places {
		if p.seq == seq && p.start+p.used > size {
			return false
		}
	}
	return true
}

// TestStaleRecords: bytes of another segment, in its place or as a recycled file has them, never validate [6.3].
func TestStaleRecords(t *testing.T) {
	w := writeLog(t)
	var old []byte
	w.edit(t, 2, func(b []byte) []byte { old = append([]byte(nil), b...); return b })
	last := w.places[len(w.places)-1]
	// The whole old file as the next, prepared one.
	fs := CrashFS(w.mem, 1, 100)
	f, err := fs.Create("/data/log/"+segmentName(4), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	f.Write(old)
	f.Close()
	if got, err := w.outcome(fs); err != nil || got != "whole" {
		t.Errorf("an old file as the next one: %s, %v", got, err)
	}
	// Old batches right behind the last one of the active segment.
	end := last.start + roundUp(last.used)
	fs = w.edit(t, 3, func(b []byte) []byte { return append(b[:end:end], old[blockBytes:]...) })
	if got, err := w.outcome(fs); err != nil || got != "whole" {
		t.Errorf("old batches behind the last: %s, %v", got, err)
	}
	// A batch of another directory with the same number: another key, another checksum.
	key, seq := uint64(7), uint64(3)
	b := make([]byte, batchHeaderBytes)
	(&batchHeader{records: 1}).encode(b, seq, salt(key, seq))
	var h batchHeader
	if !h.decode(b, seq, salt(key, seq)) || h.decode(b, seq, salt(key+1, seq)) || h.decode(b, seq+1, salt(key, seq+1)) {
		t.Error("a batch header validates with the wrong key or number, or not with the right ones")
	}
}

// TestReadDamage: an entry that went bad after opening is told when it is read, not served (fault 48).
func TestReadDamage(t *testing.T) {
	w := writeLog(t)
	d, l, err := openDirLog(w.mem, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer l.Close()
	f, err := w.mem.OpenReadWrite("/data/log/"+segmentName(1), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte{0xAA, 0xAA}, w.places[3].start+w.places[3].used-2)
	f.Close()
	if _, err := l.Entries(nil, 4, 5, 0); !errors.Is(err, ErrCorrupt) {
		t.Errorf("reading a damaged entry: %v", err)
	}
	if _, err := l.Entries(nil, 5, 6, 0); err != nil {
		t.Errorf("reading the one behind: %v", err)
	}
}

// TestKilledProcess: what a new process finds in the page cache is durable before the log counts on it, also where the
// sync had failed or never came (fault 44).
func TestKilledProcess(t *testing.T) {
	mem := vfs.NewCrashableMem()
	fs := &faultFS{FS: mem}
	d, l, err := openDirLog(fs, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	m := model{}.with(Append{State: HardState{Term: 1}, Entries: []Entry{{Index: 1, Term: 1}}})
	if err := l.Append(Append{State: m.state, Entries: m.entries}); err != nil {
		t.Fatal(err)
	}
	fs.sync = errors.New("EIO")
	err = l.Append(Append{Entries: []Entry{{Index: 2, Term: 1}}})
	if !errors.Is(err, ErrDisk) {
		t.Fatalf("a failed sync: %v", err)
	}
	if again := l.Append(Append{Entries: []Entry{{Index: 2, Term: 1}}}); !errors.Is(again, err) {
		t.Errorf("the next append: %v", again)
	}
	if err := l.Cut(1); !errors.Is(err, ErrDisk) {
		t.Errorf("a cut afterwards: %v", err)
	}
	if l.LastIndex() != 1 {
		t.Errorf("last index %d after the failure", l.LastIndex())
	}
	l.Close()
	d.Close()

	d, l, err = openDirLog(mem, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	if l.LastIndex() != 2 {
		t.Fatalf("last index %d in the page cache", l.LastIndex())
	}
	d2, l2, err := openDirLog(CrashFS(mem, 1, 0), smallLog)
	if err != nil || l2.LastIndex() != 2 {
		t.Fatalf("after opening and a loss of power: %v, last index %d", err, l2.LastIndex())
	}
	for _, c := range []io.Closer{l, d, l2, d2} {
		c.Close()
	}
}

// faultFS fails writes or syncs once an error is set.
type faultFS struct {
	FS
	write, sync, open error
}

type faultFile struct {
	vfs.File
	fs *faultFS
}

func (fs *faultFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	if fs.open != nil {
		return nil, fs.open
	}
	f, err := fs.FS.OpenReadWrite(name, c, o...)
	return &faultFile{f, fs}, err
}

func (f *faultFile) WriteAt(b []byte, at int64) (int, error) {
	if f.fs.write != nil {
		n, _ := f.File.WriteAt(b[:len(b)/2], at)
		return n, f.fs.write
	}
	return f.File.WriteAt(b, at)
}

func (f *faultFile) SyncData() error {
	if f.fs.sync != nil {
		return f.fs.sync
	}
	return f.File.SyncData()
}
