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

// mostMethods is how many methods a type has that one can still hold in the head, with room for
// what comes: a type that passes it is two types.
const mostMethods = 60

// flat lists types whose methods are a list of similar calls that do not call each other.
var flat = map[string]string{
	"client.Client":      "a call of the API each, for programs of others",
	"cmd/smartdrive.cli": "a command each",
}

// A type with too many methods should be several types: its fields no longer belong together.
func TestTypesHaveFewMethods(t *testing.T) {
	t.Parallel()
	methods := map[string]int{}
	for _, dir := range []string{".", "../client", "../cmd", "../test", "../scripts"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			in := strings.TrimPrefix(filepath.ToSlash(filepath.Join("internal", filepath.Dir(path))), "../")
			for _, d := range f.Decls {
				if of := receiver(d); of != "" {
					methods[in+"."+of]++
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(methods) < 500 {
		t.Fatalf("%d types with methods: something is not read", len(methods))
	}
	for of := range flat {
		if methods[of] <= mostMethods {
			t.Errorf("%s has %d methods, and needs no reason", of, methods[of])
		}
		delete(methods, of)
	}
	for of, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods, %d at the most: which of them are another type's?", of, n, mostMethods)
		}
	}
}

// receiver returns the type of a method, "" for other declarations.
func receiver(d ast.Decl) string {
	fn, ok := d.(*ast.FuncDecl)
	if !ok || fn.Recv == nil {
		return ""
	}
	of := fn.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}
