package state

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
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
// unicode tables, no clock, no randomness, no float but in selector, where the result of
// every operation on floats goes through float64(). Sorting is slices.SortFunc by unique
// keys, or slices.Sort.
func TestDeterministicSyntax(t *testing.T) {
	for _, dir := range []string{".", "../command", "../selector"} {
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
			inspect(t, fset, f, info, dir == "../selector")
		}
	}
}

func inspect(t *testing.T, fset *token.FileSet, f *ast.File, info *types.Info, floats bool) {
	if floats {
		roundedFloats(t, fset, f, info)
	}
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
				if !floats && (n.Name == "float64" || n.Name == "float32") {
					t.Errorf("%s: a float", fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

// roundedFloats: an operation on floats is the argument of float64(), which rounds it before another operation can be
// fused with it.
func roundedFloats(t *testing.T, fset *token.FileSet, f *ast.File, info *types.Info) {
	isFloat := func(e ast.Expr) bool {
		typ := info.Types[e]
		if typ.Type == nil || typ.Value != nil {
			return typ.Type == nil
		}
		basic, ok := typ.Type.Underlying().(*types.Basic)
		return ok && basic.Info()&(types.IsFloat|types.IsComplex) != 0
	}
	rounded := make(map[ast.Expr]bool)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if fn, ok := n.Fun.(*ast.Ident); ok && fn.Name == "float64" && len(n.Args) == 1 {
				rounded[ast.Unparen(n.Args[0])] = true
			}
		case *ast.BinaryExpr:
			switch n.Op {
			case token.ADD, token.SUB, token.MUL, token.QUO:
				if isFloat(n) && !rounded[n] {
					t.Errorf("%s: an operation on floats whose result isn't rounded by float64()", fset.Position(n.Pos()))
				}
			}
		case *ast.AssignStmt:
			switch n.Tok {
			case token.ADD_ASSIGN, token.SUB_ASSIGN, token.MUL_ASSIGN, token.QUO_ASSIGN:
				if isFloat(n.Lhs[0]) {
					t.Errorf("%s: an operation on floats whose result isn't rounded by float64()", fset.Position(n.Pos()))
				}
			}
		}
		return true
	})
}
