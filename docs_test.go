package oncemq_test

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPackagesAreDocumented: every package says what it is, and every exported name
// of the module says what it does (style.md 11, 12).
func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		rel, err := filepath.Rel(mustWd(t), p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		documented := false
		for path, file := range sources(t, rel) {
			if file.Doc != nil && len(file.Doc.Text()) > 60 {
				documented = true
			}
			if file.Name.Name != "main" {
				undocumented(path, file, t.Errorf)
			}
		}
		if !documented {
			t.Errorf("package %s has no doc comment worth the name", p.ImportPath)
		}
	}
}

// undocumented reports each exported declaration of file that has no comment.
func undocumented(path string, file *ast.File, report func(string, ...any)) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
				report("%s: %s has no doc comment", path, d.Name.Name)
			}
		case *ast.GenDecl:
			if d.Tok != token.TYPE && d.Tok != token.VAR && d.Tok != token.CONST {
				continue
			}
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
						report("%s: type %s has no doc comment", path, s.Name.Name)
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
							report("%s: %s has no doc comment", path, name.Name)
						}
					}
				}
			}
		}
	}
}

func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}

func mustWd(t *testing.T) string {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return wd
}

// place matches `path/file.go:Function` or `path/file.go` in backquotes.
var place = regexp.MustCompile("`((?:internal|cmd|examples)/[a-z0-9_/]+\\.go)(?::([A-Za-z.]+))?`")

// TestArchitectureNamesWhatExists: every file:function that ARCHITECTURE.md names is
// there, first of all those of "What happens on commit".
func TestArchitectureNamesWhatExists(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, commit, ok := strings.Cut(string(text), "## What happens on commit")
	if !ok {
		t.Fatal("ARCHITECTURE.md has no \"What happens on commit\"")
	}
	if n := len(place.FindAllString(commit, -1)); n < 10 {
		t.Errorf("\"What happens on commit\" names %d places; there are at least ten stages", n)
	}
	for _, m := range place.FindAllStringSubmatch(string(text), -1) {
		path, name := m[1], m[2]
		src, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("ARCHITECTURE.md names %s: %v", path, err)
			continue
		}
		if name == "" {
			continue
		}
		fn := name[strings.LastIndex(name, ".")+1:]
		decl := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + regexp.QuoteMeta(fn) + `[\[(]`)
		if !decl.Match(src) {
			t.Errorf("ARCHITECTURE.md names %s:%s; there is no such function", path, name)
		}
	}
}

// TestFormatPages: every page of docs/format is linked from its index, and the index
// links only what exists.
func TestFormatPages(t *testing.T) {
	index, err := os.ReadFile("docs/format/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("docs/format/*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("docs/format has %d pages: %v", len(pages), err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(string(index), "("+name+")") {
			t.Errorf("docs/format/README.md doesn't link %s", name)
		}
	}
	for _, m := range regexp.MustCompile(`\(([a-z]+\.md)\)`).FindAllStringSubmatch(string(index), -1) {
		if _, err := os.Stat(filepath.Join("docs/format", m[1])); err != nil {
			t.Errorf("docs/format/README.md links %s: %v", m[1], err)
		}
	}
}

// TestReadmeTargetsExist: each `make x` that the documents name is a target.
func TestReadmeTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile("(?m)(?:`|^)make ([a-z-]+)")
	found := 0
	for _, name := range []string{"README.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range target.FindAllStringSubmatch(string(text), -1) {
			found++
			if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
				t.Errorf("%s names `make %s`; the Makefile has no such target", name, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no document names a make target")
	}
}
