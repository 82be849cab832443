package faults

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// rows is how many faults the catalogue has.
const rows = 104

// TestCatalogue: docs/faults.md has every row once, with a verdict, and the tests that
// it names exist.
func TestCatalogue(t *testing.T) {
	page, err := os.Open("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = page.Close() }()
	tests := declared(t)
	named := regexp.MustCompile(`\bTest[A-Z]\w+`)
	next := 1
	for lines := bufio.NewScanner(page); lines.Scan(); {
		for _, name := range named.FindAllString(lines.Text(), -1) {
			if !tests[name] {
				t.Errorf("there is no test %s", name)
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
}

// declared are the names of all tests of the project.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
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
