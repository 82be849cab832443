package state

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What deterministic packages must not import. (unicode/utf8 has no tables.)
var forbidden = map[string]bool{
	"context": true, "time": true, "sync": true, "sync/atomic": true, "net": true, "os": true, "log": true, "log/slog": true,
	"math/rand": true, "math/rand/v2": true, "crypto/rand": true, "hash/maphash": true, "unicode": true, "sort": true, "unsafe": true,
	"reflect": true, "runtime": true,
}

// [4.3]: no map range but into a sorted slice, no unstable sort without a total key, no
// unicode tables, no clock, no randomness, no float. Sorting is slices.SortFunc by
// unique keys, or slices.Sort.
func TestDeterministicSyntax(t *testing.T) {
	for _, dir := range []string{".", "../command"} {
		fset := token.NewFileSet()
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatal(err)
		}
		var files []*ast.File
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
			for _, imp := range f.Imports {
				if forbidden[strings.Trim(imp.Path.Value, `"`)] {
					t.Errorf("%s imports %s", name, imp.Path.Value)
				}
			}
		}
		info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue)}
		conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil), Error: func(error) {}}
		conf.Check(dir, fset, files, info) //nolint:errcheck // what other modules' types are doesn't matter here
		for _, f := range files {
			inspect(t, fset, f, info)
		}
	}
	if _, err := os.Stat("../selector"); err == nil {
		t.Error("package selector is there: add it to this test")
	}
}

func inspect(t *testing.T, fset *token.FileSet, f *ast.File, info *types.Info) {
	for _, d := range f.Decls {
		fn, _ := d.(*ast.FuncDecl)
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.RangeStmt:
				typ := info.Types[n.X].Type
				if typ == nil {
					t.Errorf("%s: the type of what is ranged over isn't known", fset.Position(n.Pos()))
					return true
				}
				if _, isMap := typ.Underlying().(*types.Map); isMap && (fn == nil || fn.Name.Name != "sortedKeys" && fn.Name.Name != "sortedResults" && fn.Name.Name != "sortedSessions") {
					t.Errorf("%s: ranges over a map", fset.Position(n.Pos()))
				}
			case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%s: concurrency", fset.Position(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "maps" {
					t.Errorf("%s: walks over a map", fset.Position(n.Pos()))
				}
			case *ast.Ident:
				if n.Name == "float64" || n.Name == "float32" {
					t.Errorf("%s: a float", fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}
