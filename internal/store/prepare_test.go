package store

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// prepare makes a directory in one go.
func prepare(files FS, dir string, j Joined) error {
	p, err := Prepare(files, dir)
	if err != nil {
		return err
	}
	return errors.Join(p.Finish(j), p.Close())
}

var testJoined = Joined{
	Node: 4, Cluster: [16]byte{7}, History: 3, Voters: []uint64{1, 2, 3},
	Members: map[uint64]string{1: "10.0.0.1:7000", 4: "mq4.example.org:7000"},
}

// TestPrepareDirectory: the directory of a node that has joined is opened as such, and as no other's.
func TestPrepareDirectory(t *testing.T) {
	mem := NewMemFS()
	if _, ok, err := Whose(mem, "/d"); ok || err != nil {
		t.Fatalf("before: %v, %v", ok, err)
	}
	for range 2 { // again, as after a crash behind it
		if err := prepare(mem, "/d", testJoined); err != nil {
			t.Fatal(err)
		}
	}
	other := testJoined
	other.Node = 5
	if err := prepare(mem, "/d", other); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "node 4") {
		t.Errorf("another node: %v", err)
	}
	s, ok, err := Whose(mem, "/d")
	if !ok || err != nil || s.Node != 4 || s.Cluster != testJoined.Cluster || s.History != 3 {
		t.Errorf("stamp %+v, %v, %v", s, ok, err)
	}
	d, err := Open(Options{Dir: "/d", FS: mem, Node: 4, Cluster: testJoined.Cluster})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	voters, err := d.Voters()
	members, err2 := d.Members()
	if !slices.Equal(voters, testJoined.Voters) || !maps.Equal(members, testJoined.Members) || err != nil || err2 != nil {
		t.Errorf("voters %v, members %v, %v, %v", voters, members, err, err2)
	}
	if err := prepare(mem, "/d", testJoined); !errors.Is(err, ErrLocked) {
		t.Errorf("while it is open: %v", err)
	}
}

// TestPrepareDirectoryCrash: whatever of it survives a loss of power, the directory is whole or nobody's, and it can be made again.
func TestPrepareDirectoryCrash(t *testing.T) {
	whole, not := 0, 0
	for seed := range uint64(400) {
		before, step := NewCrashDisk(), 0
		before.Unplug(func() bool { step++; return step > int(seed%40) })
		_ = prepare(before, "/d", testJoined)
		disk, _ := before.Crash(rand.New(rand.NewPCG(seed, 1)))
		if _, ok, err := Whose(disk, "/d"); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		} else if ok {
			whole++
		} else {
			not++
		}
		if err := prepare(disk, "/d", testJoined); err != nil {
			t.Fatalf("seed %d: again: %v", seed, err)
		}
		d, err := Open(Options{Dir: "/d", FS: disk, Node: 4, Cluster: testJoined.Cluster})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if v, err := d.Voters(); err != nil || len(v) != 3 {
			t.Errorf("seed %d: voters %v, %v", seed, v, err)
		}
		if m, err := d.Members(); err != nil || len(m) != 2 {
			t.Errorf("seed %d: members %v, %v", seed, m, err)
		}
		d.Close()
	}
	if whole == 0 || not == 0 {
		t.Errorf("%d whole, %d not: nothing was cut", whole, not)
	}
}
