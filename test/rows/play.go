package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// play runs the tests, package by package, and says what became of each by its key: pass, fail or skip.
func play(tests []test) (map[string]string, error) {
	results := make(map[string]string)
	for i := 0; i < len(tests); {
		n := i
		var names []string
		for ; n < len(tests) && tests[n].pkg == tests[i].pkg; n++ {
			names = append(names, tests[n].name)
		}
		if err := playPackage(tests[i].pkg, names, results); err != nil {
			return nil, err
		}
		i = n
	}
	return results, nil
}

// playPackage runs tests of one package. A test module of its own lies below test.
func playPackage(pkg string, names []string, results map[string]string) error {
	dir, path := "..", "./"+pkg
	if rest, ok := strings.CutPrefix(pkg+"/", "test/"); ok {
		dir, path = ".", "./"+strings.TrimSuffix(rest, "/")
	}
	cmd := exec.Command("go", "test", "-json", "-count=1", "-timeout=20m", "-run", "^("+strings.Join(names, "|")+")$", path)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if e := (*exec.ExitError)(nil); err != nil && !errors.As(err, &e) {
		return err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var ev struct{ Action, Test, Output string }
		if err := dec.Decode(&ev); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("the output of go test %s: %w", path, err)
		}
		switch ev.Action {
		case "pass", "fail", "skip":
			if ev.Test != "" && !strings.Contains(ev.Test, "/") {
				results[pkg+"."+ev.Test] = ev.Action
			}
		case "output":
			if strings.Contains(ev.Output, "FAIL") {
				fmt.Fprint(os.Stderr, ev.Output)
			}
		}
	}
}
