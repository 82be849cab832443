package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPageNamesTheTreesTests: the page has every row, and at each the tests that the tree has for it; none is marked as failed. What
// became of them only `make amqp` can say.
func TestPageNamesTheTreesTests(t *testing.T) {
	tests, err := scan("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../" + document)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, r := range parseRows() {
		if r.number == "" {
			continue
		}
		known[r.number] = true
		var names []string
		for _, x := range tests {
			if slices.Contains(x.rows, r.number) {
				names = append(names, x.pkg+": "+x.name)
			}
		}
		want := fmt.Sprintf("\n| %s | %s | %s | ", r.number, r.what, strings.Join(names, "<br>"))
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/amqp.md doesn't say %q: run make amqp", strings.TrimSpace(want))
		}
	}
	if n := len(known); n != 118+20 {
		t.Errorf("%d rows, want 138", n)
	}
	for _, x := range tests {
		for _, n := range x.rows {
			if !known[n] {
				t.Errorf("%s of %s names row %s, which there is not", x.name, x.pkg, n)
			}
		}
	}
	if strings.Contains(string(page), "**failed**") {
		t.Error("docs/amqp.md was made while a test failed")
	}
}

func TestRowsOfATest(t *testing.T) {
	for _, c := range []struct{ name, comment, want string }{
		{"TestRow042Drain", "", "42"},
		{"TestRowT09Posting", "Posting.\n\nRows 85 and T9.\n", "T9 85"},
		{"TestDrain", "Drain.\n\nRow 7.\n", "7"},
		{"TestDrain", "Rows 42, 43, T18.", "42 43 T18"},
		{"TestRow4KillAll", "of another catalogue", ""},
		{"TestDrain", "C8, checklist 24 and 50: how it ends.", "24 50"},
		{"TestRowing", "Rows of seats.", ""},
	} {
		if got := strings.Join(rowsOf(c.name, c.comment), " "); got != c.want {
			t.Errorf("%s %q: rows %q, want %q", c.name, c.comment, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	tests := []test{{"a", "TestX", []string{"1"}}, {"b", "TestY", []string{"1", "3"}}}
	got := table([]row{{what: "Head"}, {number: "1", what: "one"}, {number: "2", what: "two"}, {number: "3", what: "three"}, {"4", "four", "no such thing"}}, tests,
		map[string]string{"a.TestX": "pass", "b.TestY": "fail"}, regexp.MustCompile(""), true)
	for _, line := range []string{
		"## Head\n", "| 1 | one | a: TestX<br>b: TestY | **failed**, passed |\n", "| 2 | two |  | *missing* |\n", "| 4 | four |  | *blocked*: no such thing |\n", "| 3 | three | b: TestY | **failed** |\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing in\n%s", line, got)
		}
	}
}
