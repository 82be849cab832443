package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestCrashUnsynced: with safety off nothing is promised but this: what a crash leaves, in whatever order the blocks went
// to the disk, opens as one whole earlier state, and goes on from there, crash after crash (fault 41).
func TestCrashUnsynced(t *testing.T) {
	opts := smallLog
	opts.NoSync = true
	ends := map[string]int{}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var fs FS = vfs.NewCrashableMem()
		history := []model{{}}
		for life := range 4 {
			d, l, err := openBare(fs, opts) // Inspect makes more of what was never synced than opening does
			if err != nil {
				t.Fatalf("seed %d, life %d: %v", seed, life, err)
			}
			at := slices.IndexFunc(history, func(m model) bool { return m.check(l) == nil })
			if at < 0 {
				t.Fatalf("seed %d, life %d: the log (%d to %d) is none that ever was", seed, life, l.FirstIndex(), l.LastIndex())
			}
			if l.full {
				ends["unclean"]++
			}
			if at < len(history)-1 {
				ends["lost some"]++
			}
			if l.lastSeq > 1 {
				ends["several segments"]++
			}
			// What is gone may come again with other bytes, so it must not be taken for the old.
			history = history[:at+1]
			for range 4 + rng.IntN(20) {
				now := history[len(history)-1]
				next := uint64(len(now.entries)) + 1
				if rng.IntN(6) == 0 && next > 3 {
					next -= 2
				}
				a := Append{State: HardState{Term: uint64(len(history))}, Entries: run(next, next+rng.Uint64N(3), uint64(life), rng.IntN(4000))}
				mustAppend(t, l, a)
				history = append(history, now.with(a))
			}
			fs = CrashFS(fs, seed*10+uint64(life), []int{30, 70, 95, 100}[rng.IntN(4)])
			// Names are synced in either mode.
			l.Close()
			d.Close()
		}
	}
	if ends["unclean"] < 20 || ends["lost some"] < 20 || ends["several segments"] < 20 {
		t.Errorf("too tame: %v", ends)
	}
}

// TestSettleWritesAgain: after a failed sync the kernel may take a page for clean; the last batch is written once more
// before the sync that the log relies on.
func TestSettleWritesAgain(t *testing.T) {
	w := writeLog(t)
	fs := &opFS{FS: w.mem}
	var ops []string
	fs.after = func(op string) { ops = append(ops, op) }
	d, l, err := openDirLog(fs, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer l.Close()
	last := w.places[len(w.places)-1]
	i := slices.Index(ops, fmt.Sprintf("write at %d of %s", last.start, segmentName(last.seq)))
	if i < 0 || !slices.Contains(ops[i:], "syncdata "+segmentName(last.seq)) {
		t.Errorf("the last batch, at %d, is not written and synced again:\n%s", last.start, strings.Join(ops, "\n"))
	}
}

// TestHeaderIsEvidence: damage at the end of a segment is found out by the next one's header, also where nothing else of
// it can be read.
func TestHeaderIsEvidence(t *testing.T) {
	w := writeLog(t)
	fs := w.edit(t, 3, func(b []byte) []byte { clear(b[blockBytes:]); return b })
	w2 := &written{mem: fs.(*vfs.MemFS), model: w.model, places: w.places}
	var at place
	for _, p := range w.places {
		if p.seq == 2 {
			at = p
		}
	}
	if got, err := w2.outcome(w2.edit(t, 2, func(b []byte) []byte { b[at.start+9] ^= 1; return b })); got != "corrupt" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestBatchSum: records that are whole but not the ones of this batch are refused.
func TestBatchSum(t *testing.T) {
	body := func(index uint64) []byte {
		return appendRecord(nil, &record{kind: kindEntry, index: index, term: 1, data: []byte("abc")}, 5)
	}
	h := batchHeader{records: 1}
	one := body(1)
	h.sum = sumOf(one)
	if !h.decodeRecords(one, 5, nil) || h.decodeRecords(body(2), 5, nil) || h.decodeRecords(one, 6, nil) {
		t.Error("a body validates with another record or salt, or not with its own")
	}
	if h.decodeRecords(append(one, 0), 5, nil) || h.decodeRecords(one[:len(one)-1], 5, nil) {
		t.Error("a body of the wrong length validates")
	}
}

// TestReadFault: a disk that can't read is damage, never an empty log (fault 48).
func TestReadFault(t *testing.T) {
	w := writeLog(t)
	for nth := range 6 {
		fs := &readFault{FS: w.mem, left: nth}
		_, l, err := openDirLog(fs, smallLog)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("read %d: %v", nth, err)
		}
		if err == nil {
			if err := w.model.check(l); fs.left >= 0 && err != nil || fs.left < 0 && !errors.Is(err, ErrCorrupt) {
				t.Errorf("read %d: opened, but %v", nth, err)
			}
			l.Close()
			l.dir.Close()
		}
	}
}

// readFault fails the reads of segments behind the first few.
type readFault struct {
	FS
	left int
}

type readFaultFile struct {
	vfs.File
	fs *readFault
}

func (fs *readFault) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, c, o...)
	return &readFaultFile{f, fs}, err
}

func (f *readFaultFile) ReadAt(b []byte, at int64) (int, error) {
	if f.fs.left--; f.fs.left < 0 {
		return 0, errors.New("EIO")
	}
	return f.File.ReadAt(b, at)
}

// sumOf is a batch's sum over one record.
func sumOf(record []byte) uint32 { return crc32.Checksum(record[:4], castagnoli) }
