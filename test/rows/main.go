// Command rows makes docs/amqp.md: each behaviour of rows.txt, the tests that show it, and what became of them just now.
//
//	go run ./rows            # runs the tests of all rows and writes ../docs/amqp.md
//	go run ./rows -match T18 # runs and prints the rows whose number matches, and writes nothing
//
// A test belongs to the rows of its name (TestRow042DrainOfAnEmptyQueue, TestRowT18Acquisition) and to those that its comment names,
// in a line of their own ("Rows 43, T9.") or as a part of the checklist ("checklist 24 and 50"). The exit status is 1 if a test failed. Package faults has rows of another catalogue.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
)

func main() {
	match := flag.String("match", "", "only the rows whose number matches this regular expression")
	flag.Parse()
	if err := run(*match); err != nil {
		fmt.Fprintln(os.Stderr, "rows:", err)
		os.Exit(1)
	}
}

func run(match string) error {
	only, err := regexp.Compile("^(" + match + ")$")
	if err != nil {
		return err
	}
	tests, err := scan("..")
	if err != nil {
		return err
	}
	wanted := tests
	if match != "" {
		wanted = nil
		for _, x := range tests {
			if x.matches(only) {
				wanted = append(wanted, x)
			}
		}
	}
	results, err := play(wanted)
	if err != nil {
		return err
	}
	page := table(parseRows(), wanted, results, only, match == "")
	if match != "" {
		fmt.Print(page)
	} else if err := os.WriteFile(document, []byte(page), 0o644); err != nil {
		return err
	}
	for _, x := range wanted {
		if r := results[x.key()]; r != "pass" {
			return fmt.Errorf("%s of %s: %s", x.name, x.pkg, word(r))
		}
	}
	return nil
}
