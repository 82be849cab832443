package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// test is a test function that shows rows.
type test struct {
	// pkg is the folder from the project's root, name that of the function.
	pkg, name string
	rows      []string
}

func (x test) key() string { return x.pkg + "." + x.name }

func (x test) matches(only *regexp.Regexp) bool {
	return slices.ContainsFunc(x.rows, only.MatchString)
}

var (
	nameOf = regexp.MustCompile(`^TestRow(T\d{2}|\d{3})`)
	tagOf  = regexp.MustCompile(`(?m)^Rows? ([T\d, ]+(?: and [T\d]+)?)\.`)
	listOf = regexp.MustCompile(`(?i)\bchecklist ((?:\d+(?:, | and )?)+)`)
	number = regexp.MustCompile(`T?\d+`)
)

// scan finds the tests that show rows, in the tree of which root is the root.
func scan(root string) (all []test, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (rel == "test/faults" || d.Name() == "testdata" || len(d.Name()) > 2 && d.Name()[0] == '.'):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				if rows := rowsOf(f.Name.Name, f.Doc.Text()); len(rows) > 0 {
					all = append(all, test{pkg: filepath.ToSlash(filepath.Dir(rel)), name: f.Name.Name, rows: rows})
				}
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b test) int { return strings.Compare(a.key(), b.key()) })
	return all, err
}

// rowsOf are the rows of a test by its name and comment.
func rowsOf(name, comment string) (rows []string) {
	if m := nameOf.FindStringSubmatch(name); m != nil {
		rows = append(rows, plain(m[1]))
	}
	for _, m := range append(tagOf.FindAllStringSubmatch(comment, -1), listOf.FindAllStringSubmatch(comment, -1)...) {
		for _, n := range number.FindAllString(m[1], -1) {
			if n = plain(n); !slices.Contains(rows, n) {
				rows = append(rows, n)
			}
		}
	}
	return rows
}

// plain is a row's number without leading zeros.
func plain(n string) string {
	if rest, ok := strings.CutPrefix(n, "T"); ok {
		return "T" + strings.TrimLeft(rest, "0")
	}
	return strings.TrimLeft(n, "0")
}
