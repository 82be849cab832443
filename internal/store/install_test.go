package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// smallState lets tables be small and many.
var smallState = StateOptions{MemTableBytes: 256 << 10, SpillInApply: true}

// source is a node with a checkpoint to offer.
type source struct {
	checkpoint *Checkpoint
	values     map[string]string
}

// sourceIndex is the applied index of the checkpoint, and sourceTerm that entry's term.
const (
	sourceIndex = 50
	sourceTerm  = 7
)

func newSource(t *testing.T) *source {
	t.Helper()
	src := &source{values: map[string]string{}}
	d, err := Open(Options{Dir: "/source", FS: vfs.NewCrashableMem(), Node: 2, Cluster: [16]byte{9}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.OpenState(smallState)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, src.values, "new", 1, sourceIndex)
	src.checkpoint, err = d.MakeCheckpoint(s, func(m *Manifest, in *State) error {
		m.Term, m.Digest, m.Voters = sourceTerm, 77, []uint64{1, 2, 3}
		if in.AppliedIndex() != sourceIndex {
			t.Errorf("a checkpoint of entry %d, want %d", in.AppliedIndex(), sourceIndex)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, maps.Clone(src.values), "later", sourceIndex+1, sourceIndex+20) // the checkpoint stands still
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); d.Close() })
	return src
}

// fill applies entries from to to, and flushes some of them.
func fill(t *testing.T, s *State, values map[string]string, what string, from, to uint64) {
	t.Helper()
	b := s.NewBatch()
	for i := from; i <= to; i++ {
		key, value := fmt.Sprintf("\x00\x00%s%04d", what, i), strings.Repeat(what, 2000)
		b.Put([]byte(key), []byte(value))
		values[key] = value
		if err := s.Apply(b, i); err != nil {
			t.Fatal(err)
		}
		if i%20 == 0 {
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// fetchAll fetches what is missing, in chunks of some bytes.
func (src *source) fetchAll(d *Dir, chunk int) error {
	f, err := d.BeginFetch(src.checkpoint.encoded)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		file, offset, err := f.Next()
		if err != nil {
			return err
		}
		if file == 0 {
			return f.Finish(0, nil)
		}
		r, err := src.checkpoint.Open(file, offset)
		if err != nil {
			return err
		}
		for buf := make([]byte, chunk); err == nil; {
			var n int
			if n, err = r.Read(buf); n > 0 {
				err = errors.Join(f.Write(buf[:n]), err)
			}
		}
		r.Close()
		if err != io.EOF && !strings.HasSuffix(err.Error(), "EOF") {
			return err
		}
		if err := f.Done(); err != nil {
			return err
		}
	}
}

// fetchUnsynced fetches one whole file and dies before it is synced.
func (src *source) fetchUnsynced(t *testing.T, d *Dir) {
	f, err := d.BeginFetch(src.checkpoint.encoded)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, offset, err := f.Next()
	if err != nil || file == 0 || offset != 0 {
		t.Fatal(file, offset, err)
	}
	r, err := src.checkpoint.Open(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err = errors.Join(err, f.Write(b)); err != nil {
		t.Fatal(err)
	}
}

// target is the node that is behind: its log has 20 entries, its state ten.
const (
	targetLast    = 20
	targetApplied = 10
)

var targetState = HardState{Term: 6, Vote: 3, Commit: 12}

func newTarget(t *testing.T, fs FS) (values map[string]string) {
	t.Helper()
	d, l, err := openDirLog(fs, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.SetCluster([16]byte{9}, 0); err != nil {
		t.Fatal(err)
	}
	var entries []Entry
	for i := uint64(1); i <= targetLast; i++ {
		entries = append(entries, Entry{Index: i, Term: 5, Data: bytes.Repeat([]byte{byte(i)}, 2000)})
	}
	for i := 0; i < targetLast; i += 4 {
		if err := l.Append(Append{State: targetState, Entries: entries[i : i+4]}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := d.OpenState(smallState)
	if err != nil {
		t.Fatal(err)
	}
	values = map[string]string{}
	fill(t, s, values, "old", 1, targetApplied)
	if err := errors.Join(s.Flush(), s.Close(), l.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	return values
}

// opened is a started directory.
type opened struct {
	d *Dir
	l *Log
	s *State
}

// start opens a directory as a node does.
func start(fs FS) (o opened, err error) {
	if o.d, err = Open(Options{Dir: "/data", FS: fs, Node: 1}); err != nil {
		return o, err
	}
	if _, err = o.d.Install(smallLog); err != nil {
		return o, err
	}
	if o.l, err = o.d.OpenLog(smallLog); err != nil {
		return o, err
	}
	if o.s, err = o.d.OpenState(smallState); err != nil {
		return o, err
	}
	_, err = Begin(o.l, o.s)
	return o, err
}

func (o *opened) close() {
	if o.s != nil {
		o.s.Close()
	}
	if o.l != nil {
		o.l.Close()
	}
	if o.d != nil {
		o.d.Close()
	}
}

// which says which generation was found, and that it is whole: the old or the new one.
func (o *opened) which(old, fresh map[string]string) (isNew bool, err error) {
	h := o.l.HardState()
	want, last, first := old, uint64(targetLast), uint64(1)
	if o.s.AppliedIndex() == sourceIndex {
		isNew, want, last, first = true, fresh, sourceIndex, sourceIndex+1
		if term, err := o.l.Term(sourceIndex); term != sourceTerm || err != nil {
			return true, fmt.Errorf("the term of entry %d is %d, %v", sourceIndex, term, err)
		}
		if h.Term != sourceTerm || h.Vote != 0 || h.Commit != sourceIndex {
			return true, fmt.Errorf("hard state %+v", h)
		}
	} else if h.Term != targetState.Term || h.Vote != targetState.Vote {
		return false, fmt.Errorf("hard state %+v went back", h)
	}
	if o.l.LastIndex() != last || o.l.FirstIndex() != first {
		return isNew, fmt.Errorf("applied %d, and a log of %d to %d", o.s.AppliedIndex(), o.l.FirstIndex(), o.l.LastIndex())
	}
	got := map[string]string{}
	err = o.s.IterateRange([]byte{0}, []byte{1}, func(k, v []byte) bool { got[string(k)] = string(v); return true })
	if err != nil || !maps.Equal(got, want) {
		return isNew, fmt.Errorf("applied %d, and %d keys instead of %d: %w", o.s.AppliedIndex(), len(got), len(want), err)
	}
	return isNew, nil
}

// killed stands for the end of the process alone: all that was written is there, and what was removed is not.
const killed = -1

// imageOf is what a crash leaves.
func imageOf(t *testing.T, mem FS, seed uint64, percent int) FS {
	if percent != killed {
		return CrashFS(mem, seed, percent)
	}
	image := vfs.NewCrashableMem()
	if ok, err := vfs.Clone(mem, image, "/data", "/data", vfs.CloneSync); !ok || err != nil {
		t.Errorf("copying: %v", err)
	}
	return image
}

// TestCrashWhileInstalling: power is lost behind every operation of fetching and installing a checkpoint, with none, half and
// all of the unsynced data kept, and the process is killed there. A start finds the old generation or the new one, whole; term and vote never go back; and
// what is missing is fetched and installed then (faults 51, 76; [6.2]).
func TestCrashWhileInstalling(t *testing.T) {
	src := newSource(t)
	mem := vfs.NewCrashableMem()
	fs := &opFS{FS: mem}
	old := newTarget(t, mem)
	var images, olds, news int
	switched := false
	var mu sync.Mutex // Pebble has goroutines; none of them may be ended by a Fatal
	crash := func(op string) {
		mu.Lock()
		defer mu.Unlock()
		for i, percent := range []int{0, 100, 50, 50, killed} {
			images++
			where := fmt.Sprintf("image %d (%s), %d %%", images, op, percent)
			clone := imageOf(t, mem, uint64(images), percent)
			o, err := start(clone)
			var isNew bool
			if err == nil {
				isNew, err = o.which(old, src.values)
			}
			switch {
			case err != nil:
			case isNew:
				news++
			case switched:
				err = errors.New("back to the old generation")
			default:
				olds++
			}
			if err == nil && i == images/5%5 {
				err = goOn(src, clone, &o, isNew, where)
			}
			o.close()
			if err != nil && !t.Failed() {
				t.Errorf("%s: %v", where, err)
			}
		}
	}
	// Pebble's own opening is left out: in this file system a name may outlive an older one of the same directory.
	o, err := start(mem)
	if err != nil {
		t.Fatal(err)
	}
	o.d.fs, fs.after = fs, crash
	src.fetchUnsynced(t, o.d)
	err = src.fetchAll(o.d, 20_000)
	fs.after = nil
	o.close()
	d, openErr := Open(Options{Dir: "/data", FS: fs, Node: 1})
	if err = errors.Join(err, openErr); err != nil {
		t.Fatal(err)
	}
	fs.after = crash
	m, err := d.Install(smallLog)
	if err != nil || m == nil || m.Index != sourceIndex {
		t.Fatalf("installed %v, %v", m, err)
	}
	switched = true
	crash("at the end")
	d.Close()
	if o, err = start(mem); err != nil {
		t.Fatal(err)
	}
	defer o.close()
	if isNew, err := o.which(old, src.values); err != nil || !isNew {
		t.Fatalf("at the end: new %v, %v", isNew, err)
	}
	if olds < 100 || news < 20 {
		t.Errorf("%d images were the old generation, %d the new one: too few", olds, news)
	}
	for _, name := range []string{fetchName, checkpointName, logName, stateName} {
		if _, err := mem.Stat("/data/" + name); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	t.Logf("%d crash images: %d old, %d new", images, olds, news)
}

// goOn goes on from a crash: what is missing is fetched and installed, the new log is appended to, and power fails once more.
func goOn(src *source, clone FS, o *opened, isNew bool, where string) (err error) {
	if !isNew {
		if err = src.fetchAll(o.d, 1<<20); err != nil {
			return fmt.Errorf("fetching again: %w", err)
		}
		o.close()
		if *o, err = start(clone); err == nil {
			isNew, err = o.which(nil, src.values)
		}
		if err != nil || !isNew {
			return fmt.Errorf("installed again: new %v, %w", isNew, err)
		}
	}
	a := Append{State: HardState{Term: 8, Vote: 1, Commit: sourceIndex}, Entries: []Entry{{Index: sourceIndex + 1, Term: 8, Data: []byte(where)}}}
	if err := o.l.Append(a); err != nil {
		return err
	}
	again, err := start(CrashFS(clone, 1, 0))
	defer again.close()
	if err != nil {
		return fmt.Errorf("after one more append: %w", err)
	}
	got, err := again.l.Entries(nil, sourceIndex+1, sourceIndex+2, 0)
	if err != nil || string(got[0].Data) != where || again.l.HardState().Term != 8 {
		return fmt.Errorf("after one more append: %w, %+v", err, again.l.HardState())
	}
	return nil
}

// TestInstallNot: a checkpoint that the log has overtaken is dropped, since entries behind it may have been acknowledged; so is
// one that lacks a file, or is another cluster's.
func TestInstallNot(t *testing.T) {
	src := newSource(t)
	prepare := func(t *testing.T) (*vfs.MemFS, opened) {
		mem := vfs.NewCrashableMem()
		newTarget(t, mem)
		o, err := start(mem)
		if err != nil {
			t.Fatal(err)
		}
		if err := src.fetchAll(o.d, 1<<20); err != nil {
			t.Fatal(err)
		}
		return mem, o
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, mem *vfs.MemFS, o *opened)
		last  uint64
	}{
		"the log has it": {func(t *testing.T, _ *vfs.MemFS, o *opened) {
			var entries []Entry
			for i := uint64(targetLast + 1); i <= sourceIndex+3; i++ {
				entries = append(entries, Entry{Index: i, Term: sourceTerm, Data: []byte("e")})
			}
			if err := o.l.Append(Append{State: HardState{Term: sourceTerm, Vote: 1, Commit: targetLast}, Entries: entries}); err != nil {
				t.Fatal(err)
			}
		}, sourceIndex + 3},
		"a file is missing": {func(t *testing.T, mem *vfs.MemFS, o *opened) {
			if err := mem.Remove(o.d.fetched(&src.checkpoint.Manifest.Files[0])); err != nil {
				t.Fatal(err)
			}
		}, targetLast},
		"another cluster": {func(t *testing.T, mem *vfs.MemFS, o *opened) {
			m := src.checkpoint.Manifest
			m.Cluster[3] = 1
			if err := replaceFile(mem, o.d.Path(fetchName), completeName, m.Encode()); err != nil {
				t.Fatal(err)
			}
		}, targetLast},
	} {
		t.Run(name, func(t *testing.T) {
			mem, o := prepare(t)
			c.spoil(t, mem, &o)
			o.close()
			o, err := start(mem)
			defer o.close()
			if err != nil {
				t.Fatal(err)
			}
			if o.s.AppliedIndex() != targetApplied || o.l.LastIndex() != c.last || o.d.Stamp().generation != 0 {
				t.Errorf("applied %d, last %d, generation %d", o.s.AppliedIndex(), o.l.LastIndex(), o.d.Stamp().generation)
			}
			if _, err := mem.Stat(o.d.Path(fetchName)); err == nil {
				t.Error("it is kept")
			}
		})
	}
}

// TestInstallConflict: entries of the log at and behind the checkpoint's that are of another term were never acknowledged to
// a leader that could commit them; they go.
func TestInstallConflict(t *testing.T) {
	src := newSource(t)
	mem := vfs.NewCrashableMem()
	newTarget(t, mem)
	o, err := start(mem)
	if err != nil {
		t.Fatal(err)
	}
	var entries []Entry
	for i := uint64(targetLast + 1); i <= sourceIndex+3; i++ {
		entries = append(entries, Entry{Index: i, Term: 6, Data: []byte("e")})
	}
	want := HardState{Term: 9, Vote: 2, Commit: sourceIndex}
	if err := errors.Join(src.fetchAll(o.d, 1<<20), o.l.Append(Append{State: HardState{Term: 9, Vote: 2, Commit: 12}, Entries: entries})); err != nil {
		t.Fatal(err)
	}
	o.close()
	o, err = start(mem)
	defer o.close()
	if err != nil || o.l.LastIndex() != sourceIndex || o.l.HardState() != want || o.s.AppliedIndex() != sourceIndex {
		t.Errorf("last %d, %+v, applied %d, %v", o.l.LastIndex(), o.l.HardState(), o.s.AppliedIndex(), err)
	}
}

// TestGenerationGone: where the generation that the stamp names isn't there nothing is removed, and the start fails.
func TestGenerationGone(t *testing.T) {
	mem := vfs.NewCrashableMem()
	newTarget(t, mem)
	d, err := Open(Options{Dir: "/data", FS: mem, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.switchTo(3); err != nil {
		t.Fatal(err)
	}
	d.Close()
	o, err := start(mem)
	o.close()
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "gen-00000003") {
		t.Errorf("opened: %v", err)
	}
	if names, _ := mem.List("/data"); !slices.Contains(names, logName) || !slices.Contains(names, stateName) {
		t.Errorf("left: %v", names)
	}
}

// TestInstallFullDisk: where the disk is too full for the new generation, what was fetched is given up and the node goes on with
// what it had (faults 51).
func TestInstallFullDisk(t *testing.T) {
	src := newSource(t)
	for _, full := range []string{"/" + segmentName(3), "/" + generationName(1)} {
		mem := vfs.NewCrashableMem()
		old := newTarget(t, mem)
		o, err := start(mem)
		if err != nil {
			t.Fatal(err)
		}
		if err := src.fetchAll(o.d, 1<<20); err != nil {
			t.Fatal(err)
		}
		o.close()
		hit := false
		o, err = start(FaultFS(mem, func(name string, bytes int) Fault {
			if strings.Contains(name, full) && bytes > 0 {
				hit = true
				return Fault{Err: errNoSpace}
			}
			return Fault{}
		}))
		if err != nil || !hit {
			t.Fatalf("%s: %v; met %v", full, err, hit)
		}
		if isNew, err := o.which(old, nil); isNew || err != nil {
			t.Errorf("%s: new %v, %v", full, isNew, err)
		}
		o.close()
		for _, name := range []string{fetchName, generationName(1)} {
			if _, err := mem.Stat("/data/" + name); err == nil {
				t.Errorf("%s: %s is left on a full disk", full, name)
			}
		}
	}
}
