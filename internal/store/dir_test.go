package store

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestStamp: a directory of another node, cluster or safety setting is refused, and the message names both (faults 62, 65).
func TestStamp(t *testing.T) {
	mem := vfs.NewCrashableMem()
	one, two := [16]byte{1}, [16]byte{2}
	open := func(o Options) (*Dir, error) {
		o.Dir, o.FS = "/d", mem
		return Open(o)
	}
	if empty, err := Empty(mem, "/d"); err != nil || !empty {
		t.Fatalf("before: empty %v, %v", empty, err)
	}
	d, err := open(Options{Node: 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(Options{Node: 3}); !errors.Is(err, ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if err := d.SetCluster(one, 4); err != nil {
		t.Fatal(err)
	}
	if err := d.SetCluster(two, 5); !errors.Is(err, ErrForeign) {
		t.Errorf("another cluster: %v", err)
	}
	if err := d.SetCluster(one, 3); !errors.Is(err, ErrForeign) {
		t.Errorf("an older history: %v", err)
	}
	d.Close()
	if empty, err := Empty(mem, "/d"); err != nil || empty {
		t.Fatalf("afterwards: empty %v, %v", empty, err)
	}
	for _, c := range []struct {
		o    Options
		want error
		says string
	}{
		{Options{Node: 3}, nil, ""},
		{Options{Node: 3, Cluster: one}, nil, ""},
		{Options{Node: 2}, ErrForeign, "belongs to node 3, this is node 2"},
		{Options{Node: 3, Cluster: two}, ErrForeign, "belongs to cluster 01"},
		{Options{Node: 3, SafetyOff: true}, ErrSafety, "needs an empty directory"},
	} {
		d, err := open(c.o)
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.o, err)
		}
		if err == nil {
			if s := d.Stamp(); s != (Stamp{Cluster: one, Node: 3, History: 4}) {
				t.Errorf("stamp %+v", s)
			}
			d.Close()
		}
	}
}

// TestSafetyOff: the mark stays, and a marked directory is never opened as a safe one.
func TestSafetyOff(t *testing.T) {
	mem := vfs.NewCrashableMem()
	d, err := Open(Options{Dir: "/d", FS: mem, Node: 1, SafetyOff: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.OpenLog(smallLog)
	if err != nil {
		t.Fatal(err)
	}
	if !l.opts.NoSync {
		t.Error("the log syncs in a directory that is marked safety off")
	}
	l.Close()
	d.Close()
	if _, err := Open(Options{Dir: "/d", FS: mem, Node: 1}); !errors.Is(err, ErrSafety) {
		t.Errorf("opened as a safe one: %v", err)
	}
}

// TestStampDamage: a stamp that can't be read, is newer or missing is never replaced.
func TestStampDamage(t *testing.T) {
	good := Stamp{Cluster: [16]byte{9}, Node: 1, History: 7, SafetyOff: true, hasLog: true}
	b := good.encode(77)
	if s, key, err := decodeStamp(b, "x"); err != nil || s != good || key != 77 {
		t.Errorf("round trip: %+v, %d, %v", s, key, err)
	}
	for i := range b {
		bad := append([]byte(nil), b...)
		bad[i] ^= 4
		if _, _, err := decodeStamp(bad, "x"); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
		if _, _, err := decodeStamp(b[:i], "x"); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: %v", i, err)
		}
	}
	mem := vfs.NewCrashableMem()
	d, l, err := openDirLog(mem, smallLog)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	d.Close()
	if err := mem.Remove("/data/STAMP"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: "/data", FS: mem, Node: 1}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a log without a stamp: %v", err)
	}
	if _, err := mem.Stat("/data/STAMP"); err == nil {
		t.Error("a new stamp was written over a log of unknown origin")
	}
}

// TestSecondProcess: another process that opens the same directory is refused (fault 63).
func TestSecondProcess(t *testing.T) {
	if dir := os.Getenv("STORE_TEST_DIR"); dir != "" {
		_, err := Open(Options{Dir: dir, Node: 1})
		if !errors.Is(err, ErrLocked) {
			t.Errorf("second process: %v", err)
		}
		return
	}
	dir := t.TempDir()
	d, err := Open(Options{Dir: dir, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecondProcess$")
	cmd.Env = append(os.Environ(), "STORE_TEST_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestMeasureSync: it measures something and leaves nothing.
func TestMeasureSync(t *testing.T) {
	dir := t.TempDir()
	p50, err := MeasureSync(dir)
	if err != nil || p50 <= 0 {
		t.Errorf("p50 %v, %v", p50, err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
	if _, err := MeasureSync(dir + "/none"); err == nil {
		t.Error("measured a directory that isn't there")
	}
}

// Directories made above the data directory survive a loss of power as well.
func TestDeepDirectorySurvives(t *testing.T) {
	fs := NewMemFS()
	dir := "/var/lib/oncemq/node1"
	d, err := Open(Options{Dir: dir, FS: fs, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if empty, err := Empty(CrashFS(fs, 1, 0), dir); empty || err != nil {
		t.Errorf("after a loss of power the directory is gone: %v %v", empty, err)
	}
}
