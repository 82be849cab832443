package store

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// filesIn are the files of a directory and what is in them.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// 7.1: a program that doesn't know the state's level touches nothing; a file that isn't whole says nothing.
func TestLevelFile(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(Options{Dir: dir, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	const version = "v0.2.0 \"quoted\"\nand more"
	if err := errors.Join(d.SetLevel(1, ""), d.SetLevel(2, version), d.Close()); err != nil {
		t.Fatal(err)
	}
	before := filesIn(t, dir)
	tooHigh := errors.New("level too high")
	refuse := func(level uint32, by string) error {
		if level != 2 || by != version {
			t.Errorf("level %d by %q", level, by)
		}
		return tooHigh
	}
	if _, err := Open(Options{Dir: dir, Node: 1, CheckLevel: refuse}); !errors.Is(err, tooHigh) || !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "nothing was written") {
		t.Error(err)
	}
	if after := filesIn(t, dir); !maps.Equal(before, after) {
		t.Error("something was written")
	}
	path := filepath.Join(dir, levelName)
	if err := os.WriteFile(path, []byte("level 3\nversion \"\"\ncrc32c 00000000\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	d, err = Open(Options{Dir: dir, Node: 1, CheckLevel: refuse})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.SetLevel(2, version); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != before[path] {
		t.Errorf("not written anew: %q %v", b, err)
	}
}

// 4.4: the list of entries to be skipped; one that isn't whole is damage, since a node must not apply what all others skip.
func TestSkipFile(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(Options{Dir: dir, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if s, err := d.Skips(); s != nil || err != nil {
		t.Fatalf("%v %v", s, err)
	}
	want := []Skip{{7, 2}, {7, 3}, {1 << 60, 1}}
	if err := d.SetSkips([]Skip{want[2], want[1], want[0], want[1]}); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Skips(); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v %v", got, err)
	}
	path := filepath.Join(dir, skipName)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", string(b[:len(b)-1]), strings.Replace(string(b), "7", "8", 1), string(seal([]byte("index x term 1\n")))} {
		if err := os.WriteFile(path, []byte(bad), 0o666); err != nil {
			t.Fatal(err)
		}
		if s, err := d.Skips(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: %v %v", bad, s, err)
		}
	}
	if err := d.SetSkips(nil); err != nil {
		t.Fatal(err)
	}
	if s, err := d.Skips(); s != nil || err != nil {
		t.Errorf("%v %v", s, err)
	}
}
