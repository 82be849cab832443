package faults

import (
	"bufio"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// rows is how many faults the catalogue has.
const rows = 104

// TestCatalogue: docs/faults.md has every row once, with a verdict, the tests that it names
// exist, and every story of this package is named at its row, with a star if all runs
// of the tests play it.
func TestCatalogue(t *testing.T) {
	page, err := os.Open("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = page.Close() }()
	tests, all := declared(t), stories(t)
	untold := maps.Clone(all)
	named := regexp.MustCompile(`\b(Test[A-Z]\w+)(\*?)`)
	next := 1
	for lines := bufio.NewScanner(page); lines.Scan(); {
		for _, m := range named.FindAllStringSubmatch(lines.Text(), -1) {
			name, star := m[1], m[2] != ""
			if !tests[name] {
				t.Errorf("there is no test %s", name)
			}
			if s, ok := untold[name]; ok && strings.HasPrefix(lines.Text(), "| "+s.row+" |") {
				delete(untold, name)
			}
			if s, ok := all[name]; ok && star == s.long {
				t.Errorf("%s has a star: %v, but needs ONCEMQ_LONG: %v", name, star, s.long)
			}
		}
		cells := strings.Split(strings.Trim(lines.Text(), "| "), " | ")
		n, err := strconv.Atoi(cells[0])
		if err != nil {
			continue
		}
		if n != next || len(cells) != 4 || cells[2] == "" {
			t.Errorf("row %d after row %d: %d cells", n, next-1, len(cells))
		}
		next = n + 1
	}
	if next != rows+1 {
		t.Errorf("%d rows, want %d", next-1, rows)
	}
	for name, s := range untold {
		t.Errorf("row %s doesn't name %s", s.row, name)
	}
}

// story is a test of this package that plays a row.
type story struct {
	row  string
	long bool // played with ONCEMQ_LONG alone
}

// stories are those of this directory, by the test's name. Each function's text goes to
// the next line that closes one.
func stories(t *testing.T) map[string]story {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in this directory: %v", err)
	}
	found := make(map[string]story)
	function := regexp.MustCompile(`(?ms)^func (TestRow(\d+)\w*)\(.*?^}`)
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = story{m[2], strings.Contains(m[0], "\tLong(t)\n")}
		}
	}
	return found
}

// declared are the names of all tests of the project.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && len(d.Name()) > 2 && d.Name()[0] == '.' {
			return filepath.SkipDir // the history and what was fetched
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
