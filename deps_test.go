package oncemq_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/oncemq/oncemq"

// listed is what `go list -json` says of a package, as far as these tests need it.
type listed struct {
	ImportPath  string
	Dir         string
	Imports     []string
	Deps        []string
	GoFiles     []string
	TestGoFiles []string
	Module      *struct{ Path string }
	Standard    bool
}

// packages lists the module's packages.
func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,Deps,GoFiles,TestGoFiles", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list found %d packages", len(all))
	}
	return all
}

// lattice reads the table "who may import whom" of ARCHITECTURE.md: the one place
// where it stands. "everything" allows all; "nothing" none.
func lattice(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| package | may import (internal) |")
	if !ok {
		t.Fatal("ARCHITECTURE.md has no table \"| package | may import (internal) |\"")
	}
	rules := make(map[string][]string)
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "|---") {
			if line == "" && len(rules) > 0 {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 2 {
			t.Fatalf("ARCHITECTURE.md: row %q", line)
		}
		for name := range strings.SplitSeq(cells[0], ",") {
			rules[strings.TrimSpace(name)] = splitList(cells[1])
		}
	}
	return rules
}

func splitList(s string) []string {
	var list []string
	for item := range strings.SplitSeq(s, ",") {
		list = append(list, strings.TrimSpace(item))
	}
	return list
}

// shortName is a package's name in the table: amqp for internal/amqp, oncemq for the
// root, the path for the rest.
func shortName(path string) string {
	if path == module {
		return "oncemq"
	}
	path = strings.TrimPrefix(path, module+"/")
	if strings.HasPrefix(path, "examples/") {
		return "examples"
	}
	return strings.TrimPrefix(path, "internal/")
}

func TestImportsFollowTheLattice(t *testing.T) {
	rules := lattice(t)
	for _, p := range packages(t) {
		name := shortName(p.ImportPath)
		allowed, ok := rules[name]
		if !ok {
			t.Errorf("%s stands in no row of ARCHITECTURE.md's import table", name)
			continue
		}
		if slices.Contains(allowed, "everything") {
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			if to := shortName(imp); !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s; ARCHITECTURE.md allows it %v", name, to, allowed)
			}
		}
	}
}

// TestPureCores: the cores and the vocabulary do no I/O, read no clock, and use no
// chance (architecture.md). time is allowed in amqp and engine as a type; that they
// call no clock is checked in TestCoresReadNoClock.
func TestPureCores(t *testing.T) {
	banned := []string{"context", "sync", "net", "os", "log", "log/slog", "math/rand", "math/rand/v2", "sync/atomic", "crypto/rand", "io/fs", "syscall"}
	pure := map[string][]string{
		"state":    append([]string{"time", "unicode"}, banned...),
		"command":  append([]string{"time", "unicode"}, banned...),
		"selector": append([]string{"time", "unicode"}, banned...),
		"amqp":     banned,
		"engine":   banned,
	}
	seen := 0
	for _, p := range packages(t) {
		list, ok := pure[shortName(p.ImportPath)]
		if !ok {
			continue
		}
		seen++
		for _, imp := range p.Imports {
			if slices.Contains(list, imp) {
				t.Errorf("%s imports %s", p.ImportPath, imp)
			}
		}
	}
	if seen != len(pure) {
		t.Errorf("found %d of the %d pure packages", seen, len(pure))
	}
}

func TestCoresReadNoClock(t *testing.T) {
	for _, dir := range []string{"internal/amqp", "internal/engine", "internal/client", "internal/frontend"} {
		for path, file := range sources(t, dir) {
			ast.Inspect(file, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
					switch sel.Sel.Name {
					case "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick":
						t.Errorf("%s calls time.%s: cores take the time as a value", path, sel.Sel.Name)
					}
				}
				return true
			})
			for _, imp := range file.Imports {
				if imp.Path.Value == `"net"` {
					t.Errorf("%s imports net", path)
				}
			}
		}
	}
}

func TestOneImporterEach(t *testing.T) {
	only := map[string]string{
		"github.com/xdg-go":             "auth",
		"github.com/coder":              "websocket",
		"go.etcd.io/raft":               "replica",
		"github.com/cockroachdb/pebble": "store",
	}
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			for prefix, owner := range only {
				if strings.HasPrefix(imp, prefix) && shortName(p.ImportPath) != owner {
					t.Errorf("%s imports %s; only %s may", p.ImportPath, imp, owner)
				}
			}
		}
	}
}

// TestOneMakerOfTLS: every tls.Config of the product comes from package certs, whose test asserts TLS 1.3.
func TestOneMakerOfTLS(t *testing.T) {
	found := 0
	eachGoFile(t, ".", func(path string, text []byte) {
		if strings.HasSuffix(path, "_test.go") || !strings.Contains(string(text), "crypto/tls") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if sel, ok := lit.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Config" {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "tls" {
					if found++; path != "internal/certs/certs.go" {
						t.Errorf("%s makes a tls.Config; package certs makes them all", path)
					}
				}
			}
			return true
		})
	})
	if found != 1 {
		t.Errorf("%d places make a tls.Config; want one, in package certs", found)
	}
}

func TestDirectModules(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	direct := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, " v") && !strings.Contains(line, "// indirect") && !strings.HasPrefix(line, "module") {
			direct++
		}
	}
	if direct == 0 || direct > 12 {
		t.Errorf("go.mod has %d direct modules; 1 to 12 are allowed", direct)
	}
	for _, p := range packages(t) {
		if p.ImportPath != module && shortName(p.ImportPath) != "client" && shortName(p.ImportPath) != "engine" && shortName(p.ImportPath) != "amqp" {
			continue
		}
		outside := make(map[string]bool)
		for _, imp := range p.Imports {
			if strings.Contains(imp, ".") && !strings.HasPrefix(imp, module) {
				outside[imp] = true
			}
		}
		if len(outside) > 2 {
			t.Errorf("%s imports %d outside modules; 2 are allowed", p.ImportPath, len(outside))
		}
	}
}

func TestSizes(t *testing.T) {
	const fileMax, testMax, funcMax = 500, 1000, 60
	checked := 0
	eachGoFile(t, ".", func(path string, text []byte) {
		checked++
		lines := strings.Count(string(text), "\n")
		limit := fileMax
		if strings.HasSuffix(path, "_test.go") {
			limit = testMax
		}
		if lines > limit {
			t.Errorf("%s has %d lines; the limit is %d", path, lines, limit)
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || strings.HasSuffix(path, "_test.go") {
				continue
			}
			if n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; n > funcMax {
				t.Errorf("%s: %s has %d lines; the limit is %d", path, f.Name.Name, n, funcMax)
			}
		}
	})
	if checked < 50 {
		t.Errorf("only %d files were read", checked)
	}
}

func TestNoVagueNames(t *testing.T) {
	vague := []string{"util", "utils", "common", "helpers", "helper", "misc", "types", "base", "pkg"}
	for _, p := range packages(t) {
		if slices.Contains(vague, filepath.Base(p.ImportPath)) {
			t.Errorf("package name %s says nothing", p.ImportPath)
		}
	}
}

func TestTestsDoNotSleep(t *testing.T) {
	needle := "time." + "Sleep("
	eachGoFile(t, ".", func(path string, text []byte) {
		if strings.HasSuffix(path, "_test.go") && strings.Contains(string(text), needle) {
			t.Errorf("%s sleeps: wait for a condition, or use synctest", path)
		}
	})
}

// eachGoFile calls fn with every Go file of the tree, testdata apart.
func eachGoFile(t *testing.T, root string, fn func(path string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "target" || d.Name() == "node_modules" || (strings.HasPrefix(d.Name(), ".") && path != root)) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			fn(path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sources parses the Go files of one directory, tests apart.
func sources(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	files := make(map[string]*ast.File)
	set := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no Go files in %s", dir)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	return files
}
