package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// document is the page that is written.
const document = "../docs/amqp.md"

//go:embed rows.txt
var text string

// row is one behaviour; without a number it is a heading. blocked is what a test of it needs and can't have.
type row struct{ number, what, blocked string }

func parseRows() (rows []row) {
	for _, line := range strings.Split(text, "\n") {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			rows = append(rows, row{what: heading})
		} else if number, what, ok := strings.Cut(line, " "); ok && number != "#" {
			what, blocked, _ := strings.Cut(what, " ! ")
			rows = append(rows, row{number, what, blocked})
		}
	}
	return rows
}

const preface = `# AMQP: what a client may rely on, and the test that shows it

Each line is a behaviour of the broker towards AMQP 1.0 and JMS clients, the tests that show it, and what became of them
when this page was made: ` + "`make amqp`" + ` runs them all and writes it. *missing*: no test shows it yet, and what it needs may
not be there (README.md, "What is not there yet"); *blocked*: a test needs what is named, and can't have it. T1 to T20 are the rules of the specification's part 4, transactions.
Tests of ` + "`test/protocol`" + ` speak single frames to a node of the real binary, those of ` + "`test`" + ` are other people's clients.

`

// table is the page, or its part that only matches.
func table(rows []row, tests []test, results map[string]string, only *regexp.Regexp, whole bool) string {
	var b strings.Builder
	if whole {
		b.WriteString(preface)
	}
	for _, r := range rows {
		if r.number == "" {
			if whole {
				fmt.Fprintf(&b, "%s## %s\n\n| row | what | tests | result |\n|---|---|---|---|\n", gap(&b), r.what)
			}
			continue
		}
		if !whole && !only.MatchString(r.number) {
			continue
		}
		var names, words []string
		for _, x := range tests {
			if slices.Contains(x.rows, r.number) {
				names = append(names, x.pkg+": "+x.name)
				words = append(words, word(results[x.key()]))
			}
		}
		slices.Sort(words)
		words = slices.Compact(words)
		if len(words) == 0 && r.blocked != "" {
			words = []string{"*blocked*: " + r.blocked}
		} else if len(words) == 0 {
			words = []string{"*missing*"}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.number, r.what, strings.Join(names, "<br>"), strings.Join(words, ", "))
	}
	return b.String()
}

func gap(b *strings.Builder) string {
	if strings.HasSuffix(b.String(), "|\n") {
		return "\n"
	}
	return ""
}

// word is a result as it stands in the table.
func word(result string) string {
	switch result {
	case "pass":
		return "passed"
	case "fail":
		return "**failed**"
	case "skip":
		return "skipped"
	}
	return "not run"
}
