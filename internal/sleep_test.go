package internal_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A test that sleeps is slow or flaky, and mostly both. In a testing/synctest bubble sleeping takes
// no time.
func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	packages := map[string]map[string][]byte{} // texts of test files, by folder and path
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && len(d.Name()) > 2 && d.Name()[0] == '.' {
			return fs.SkipDir // tools and services, which come and go
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		dir := filepath.Dir(path)
		if packages[dir] == nil {
			packages[dir] = map[string][]byte{}
		}
		packages[dir][path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, files := range packages {
		for _, s := range sleepers(t, files) {
			t.Errorf("%s outside of a bubble of synctest.Test", s)
		}
	}
}

// The check finds sleeps and ignores those in a synctest bubble.
func TestSleepersAreFound(t *testing.T) {
	t.Parallel()
	const head = "package p\n"
	for text, want := range map[string][]string{
		`func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { go func() { time.Sleep(1) }() }) }`: nil,
		`func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) {}); time.Sleep(1) }`:                 {"p_test.go: TestA sleeps"},
		`func TestA(t *testing.T) { wait := time.Sleep; wait(1) }`:                                            {"p_test.go: TestA sleeps"},
		`func BenchmarkA(b *testing.B) { t.Run("", func(*testing.T) { nap() }) }
		 func nap() { doze() }
		 func doze() { time.Sleep(1) }`: {"p_test.go: BenchmarkA sleeps"},
		`func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { nap() }) }
		 func nap() { time.Sleep(1) }`: nil,
		`type slow struct{}
		 func (slow) Read([]byte) (int, error) { time.Sleep(1); return 0, nil }
		 func TestA(t *testing.T) { io.ReadAll(&slow{}) }
		 func TestB(t *testing.T) { synctest.Test(t, func(t *testing.T) { io.ReadAll(slow{}) }) }`: {"p_test.go: TestA sleeps"},
		`var nap = time.Sleep
		 func TestA(t *testing.T) { nap(1) }
		 func TestB(t *testing.T) { x.nap(options{nap: 1}) }`: {"p_test.go: TestA sleeps"},
	} {
		got := sleepers(t, map[string][]byte{"p_test.go": []byte(head + text)})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", text, diff)
		}
	}
}

// root matches functions that the testing package calls.
var root = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`)

// sleepers says which tests of a package name time.Sleep outside of a call of synctest.Test,
// themselves or by a helper: a function, or a type with a method, that does. Helpers that only
// bubbles use may sleep.
func sleepers(t *testing.T, files map[string][]byte) (all []string) {
	t.Helper()
	if !slices.ContainsFunc(slices.Collect(maps.Values(files)), func(b []byte) bool { return bytes.Contains(b, []byte("time.Sleep")) }) {
		return nil
	}
	parsed := map[string]*ast.File{}
	for path, text := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed[path] = f
	}
	asleep := map[string]bool{} // names of helpers
	for found := true; found; {
		found, all = false, nil
		for _, path := range slices.Sorted(maps.Keys(parsed)) {
			for _, p := range parts(parsed[path]) {
				switch {
				case !sleeps(p.node, asleep):
				case root.MatchString(p.name):
					all = append(all, path+": "+p.name+" sleeps")
				case !asleep[p.name]:
					asleep[p.name], found = true, true
				}
			}
		}
	}
	return all
}

// part is a declaration with the name by which others use it; for a method, that includes its type.
type part struct {
	name string
	node ast.Node
}

func parts(f *ast.File) (all []part) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = typeName(d.Recv.List[0].Type)
			}
			all = append(all, part{name, d})
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					all = append(all, part{s.Name.Name, s.Type})
				case *ast.ValueSpec:
					for _, name := range s.Names {
						all = append(all, part{name.Name, s})
					}
				}
			}
		}
	}
	return all
}

// typeName returns the type name of a receiver.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr: // of a generic type
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// sleeps reports whether a declaration names time.Sleep, or a helper that sleeps, outside of a
// bubble.
func sleeps(d ast.Node, asleep map[string]bool) (found bool) {
	var see func(n ast.Node) bool
	see = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return !isSelector(n.Fun, "synctest", "Test")
		case *ast.SelectorExpr: // a field or method with the name of a helper is something else
			found = found || isSelector(n, "time", "Sleep")
			ast.Inspect(n.X, see)
			return false
		case *ast.KeyValueExpr:
			if _, field := n.Key.(*ast.Ident); field {
				ast.Inspect(n.Value, see)
				return false
			}
		case *ast.Ident:
			found = found || asleep[n.Name]
		}
		return true
	}
	ast.Inspect(d, see)
	return found
}

func isSelector(e ast.Expr, x, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == x
}
