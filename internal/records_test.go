package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Each declared record type is published by a package other than the stream's own; otherwise its
// consumer would wait forever.
func TestDeclaredRecordsArePublished(t *testing.T) {
	t.Parallel()
	const home = "engine/stream"
	declared := declaredTypes(t, filepath.Join(home, "topic.go"))
	if len(declared) < 8 {
		t.Fatalf("%d types are declared", len(declared))
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			filepath.Dir(path) == filepath.FromSlash(home) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "stream" {
					delete(declared, sel.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range declared {
		t.Errorf("stream.%s is declared, and nobody publishes it", name)
	}
}

// declaredTypes returns the names of the constants of type Type in a file.
func declaredTypes(t *testing.T, path string) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Type" {
			for _, name := range spec.Names {
				all[name.Name] = true
			}
		}
		return true
	})
	return all
}
