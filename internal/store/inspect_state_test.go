package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// inspectAll inspects a whole directory, and reads all keys of its state.
func inspectAll(t *testing.T, fs FS) *Inspection {
	t.Helper()
	x, err := Inspect(InspectOptions{Dir: "/data", FS: fs, State: func(s *State) error {
		return s.IterateRange([]byte{0}, []byte{1}, func(_, v []byte) bool { return len(v) > 0 })
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// snapshotOf is every file of a directory with what is in it.
func snapshotOf(t *testing.T, fs FS, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		if info, err := fs.Stat(path); err == nil && info.IsDir() {
			for k, v := range snapshotOf(t, fs, path) {
				all[k] = v
			}
			continue
		}
		b, err := readFile(fs, path, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(b)
	}
	return all
}

// TestInspectDirectory: a sound directory, with the halves of an installation in it, is called sound and left as it is.
func TestInspectDirectory(t *testing.T) {
	mem := vfs.NewCrashableMem()
	newTarget(t, mem)
	src := newSource(t)
	d, l, err := openBare(mem, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.SetVoters([]uint64{1, 2, 3}), src.fetchAll(d, 1<<20), l.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	before := snapshotOf(t, mem, "/data")
	x := inspectAll(t, mem)
	if len(x.Damage) > 0 || x.State.Applied != targetApplied || !x.State.Opened || x.State.Tables == 0 || pieces(x.Log) != fmt.Sprintf("1-%d", targetLast) {
		t.Errorf("a sound directory: %+v, log %s, state %+v", x.Damage, pieces(x.Log), x.State)
	}
	if len(x.Notes) != 1 || !strings.Contains(x.Notes[0], "a checkpoint of entry 50, whole") || !slices.Equal(x.Voters, []uint64{1, 2, 3}) {
		t.Errorf("notes %q, voters %v", x.Notes, x.Voters)
	}
	if after := snapshotOf(t, mem, "/data"); len(after) != len(before) {
		t.Errorf("%d files became %d", len(before), len(after))
	} else {
		for name, text := range before {
			if after[name] != text {
				t.Errorf("%s was changed", name)
			}
		}
	}
	if _, err := Open(Options{Dir: "/data", FS: mem, Node: 1}); err == nil {
		t.Error("a node can start while its directory is looked into")
	}
	x.Close()
	o, err := start(mem)
	if err != nil {
		t.Fatal(err)
	}
	o.close()
	if x := inspectAll(t, mem); len(x.Damage) > 0 || x.Generation != 1 || x.State.Applied != sourceIndex || len(x.Notes) != 0 {
		t.Errorf("behind the installation: %+v, generation %d, state %+v, %q", x.Damage, x.Generation, x.State, x.Notes)
	}
}

// TestInspectFindsFlips: a changed bit in any file of a directory is found, but where it is in nothing that is ever read.
func TestInspectFindsFlips(t *testing.T) {
	mem := vfs.NewCrashableMem()
	newTarget(t, mem)
	d, err := Open(Options{Dir: "/data", FS: mem, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.SetVoters([]uint64{1, 2, 3}), d.Close()); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	found, tried := map[string]int{}, map[string]int{}
	for _, path := range slices.Sorted(maps.Keys(snapshotOf(t, mem, "/data"))) {
		base := mem.PathBase(path)
		kind := strings.TrimLeft(base, "0123456789abcdef")
		if i := strings.IndexByte(base, '-'); i > 0 {
			kind = base[:i]
		}
		times := 40
		if kind == ".sst" {
			times = 5 // Pebble looks long for the bit
		}
		for range times {
			fs := CrashFS(mem, 1, 100)
			if _, err := FlipBit(fs, path, rng); err != nil {
				t.Fatal(err)
			}
			tried[kind]++
			if x := inspectAll(t, fs); len(x.Damage) > 0 {
				found[kind]++
				x.Close()
			}
		}
	}
	t.Logf("found %v of %v", found, tried)
	for _, kind := range []string{"STAMP", "VOTERS", ".sst"} {
		if found[kind] != tried[kind] || tried[kind] == 0 {
			t.Errorf("%s: %d of %d changed bits were found", kind, found[kind], tried[kind])
		}
	}
	if found["MANIFEST"] < tried["MANIFEST"]/4 { // of its last record Pebble can't say whether it was written whole
		t.Errorf("%d of %d changed bits of manifests were found", found["MANIFEST"], tried["MANIFEST"])
	}
}

// TestInspectLost: what is missing is named.
func TestInspectLost(t *testing.T) {
	for _, tc := range []struct {
		name, gone string
		part       Part
		want       string
	}{
		{"stamp", "STAMP", PartStamp, "no /data/STAMP"},
		{"segments", "log/0", PartLog, "all segments of the log are gone"},
		{"log", "log", PartLog, "the log can't be listed"},
		{"manifest", "state/MANIFEST-", PartState, "could not open manifest"},
		{"table", "state/0", PartState, "000004"},
		{"state", "state", PartBounds, "begins at"},
	} {
		mem := vfs.NewCrashableMem()
		newTarget(t, mem)
		d, l, err := openBare(mem, smallLog)
		if err != nil {
			t.Fatal(err)
		}
		err = d.SetVoters([]uint64{1, 2, 3})
		if tc.part == PartBounds { // so that the log can't bring the state back
			err = errors.Join(err, l.Cut(targetLast))
		}
		if err := errors.Join(err, l.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
		dir, prefix := "/data", tc.gone
		if i := strings.IndexByte(tc.gone, '/'); i > 0 {
			dir, prefix = "/data/"+tc.gone[:i], tc.gone[i+1:]
		}
		names, err := mem.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				if err := mem.RemoveAll(mem.PathJoin(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		x := inspectAll(t, mem)
		if len(x.Damage) == 0 || x.Damage[0].Part != tc.part || !strings.Contains(x.Damage[0].What, tc.want) {
			t.Errorf("%s: %+v", tc.name, x.Damage)
		}
	}
	if _, err := Inspect(InspectOptions{Dir: "/data", FS: vfs.NewMem()}); !errors.Is(err, ErrNothing) {
		t.Errorf("no directory: %v", err)
	}
}

// TestVerifyManifest: a cut tail is none to complain about, a changed byte before the last record is.
func TestVerifyManifest(t *testing.T) {
	mem := vfs.NewCrashableMem()
	newTarget(t, mem)
	names, _ := mem.List("/data/state")
	i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "MANIFEST-") })
	path := "/data/state/" + names[i]
	f, err := mem.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	verify := func(b []byte) error {
		f, err := mem.Create("/data/state/m", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(bytes.Clone(b)); err != nil {
			t.Fatal(err)
		}
		f.Close()
		_, err = verifyManifest(mem, "/data/state/m")
		return err
	}
	for n := range len(whole) + 1 {
		if err := verify(whole[:n]); err != nil {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(whole), err)
		}
	}
	for at := range 40 {
		b := bytes.Clone(whole)
		if b[at] ^= 1; verify(b) == nil && at < 30 { // then the last record begins
			t.Errorf("byte %d of %d was changed, and nothing found", at, len(whole))
		}
	}
}
