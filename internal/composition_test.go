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

// onlyTests lists options that tests set and the program does not, each with its reason. Numbers
// and durations need none: a test makes them smaller, and its result also holds for the default.
var onlyTests = map[string]string{
	"Now": "a clock of the test's own", "Clock": "a clock of the test's own", "Sleep": "a clock of the test's own",
	"Wall": "a clock of the test's own", "Elapsed": "a clock of the test's own",
	"ConvertTimestamp": "a clock of the test's own", "Dial": "a network of the test's own", "Transport": "a network of the test's own",

	"domain/account.Cost":        "a cheap hash; the program's is DefaultCost",
	"engine/sqldb.Connector":     "faults and counts",
	"engine/sqldb.RunTwice":      "finds what a function must not do that may run again",
	"engine/stream.Levels":       "shorter delays",
	"engine/stream/kafka.Levels": "shorter delays",
	"engine/stream/kafka.Roots":  "a broker of the test's own, which no authority vouches for",
	"head/server.Linger":         "numbers",
	"head/webui.Files":           "pages of the test's own",
}

// A part may be right with every option that its tests give it, and wrong in the program, which
// never gives it one of them. So whatever switches behaviour in a test (not a number, not a name)
// is set by the program, or has a reason here.
func TestProgramSetsOptionsOfTests(t *testing.T) {
	t.Parallel()
	c := composition{fields: map[string]map[string]bool{}, program: map[string]bool{}, tests: map[string]string{}}
	for _, dir := range []string{".", "../cmd", "../test"} {
		if err := filepath.WalkDir(dir, c.read); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.fields) < 25 || len(c.program) < 100 || len(c.tests) < 40 {
		t.Fatalf("%d kinds of options, %d set by the program, %d by tests: something is not read", len(c.fields), len(c.program), len(c.tests))
	}
	used := map[string]bool{}
	for option, where := range c.tests {
		of, field, _ := strings.Cut(option, ".")
		if c.program[option] || !c.fields[of][field] {
			continue
		}
		for _, name := range []string{field, option} {
			used[name] = used[name] || onlyTests[name] != ""
		}
		if onlyTests[field] == "" && onlyTests[option] == "" {
			t.Errorf("%s is set in %s, and the program never does", option, where)
		}
	}
	for name := range onlyTests {
		if !used[name] {
			t.Errorf("%s has a reason and needs none", name)
		}
	}
}

// composition is who sets which option. Options are named by the package below internal and the
// field: "engine/stream/outbox.Relayed".
type composition struct {
	fields  map[string]map[string]bool // of a package's Options and Parts: whether a field switches behaviour
	program map[string]bool
	tests   map[string]string // and where
}

func (c *composition) read(path string, d fs.DirEntry, err error) error {
	if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
		return err
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := filepath.ToSlash(filepath.Dir(path))
	names := map[string]string{"": dir} // of packages, as this file calls them
	for _, i := range f.Imports {
		if at, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "example.org/smartdrive/internal/"); ours {
			name := at[strings.LastIndexByte(at, '/')+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			names[name] = at
		}
	}
	isTest := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(f.Name.Name, "test") || strings.HasPrefix(dir, "../test")
	if !isTest {
		c.declared(f, dir)
	}
	set := func(option string) {
		if isTest {
			c.tests[option] = path
		} else if !strings.HasPrefix(option, dir+".") { // a package that sets its own gives them their defaults
			c.program[option] = true
		}
	}
	for _, d := range f.Decls {
		ast.Inspect(d, optionsSet(names, set))
	}
	return nil
}

// declared notes the fields of a package's options.
func (c *composition) declared(f *ast.File, dir string) {
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || !isOptions(spec.Name.Name) {
			return true
		}
		body, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		if c.fields[dir] == nil {
			c.fields[dir] = map[string]bool{}
		}
		for _, field := range body.Fields.List {
			for _, name := range field.Names {
				c.fields[dir][name.Name] = switches(field.Type)
			}
		}
		return false
	})
}

// isOptions reports whether a type of this name holds options.
func isOptions(name string) bool { return name == "Options" || strings.HasSuffix(name, "Parts") }

// switches reports whether a field of this type may be what turns something on: no number, no text.
func switches(of ast.Expr) bool {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name != "int" && of.Name != "int16" && of.Name != "int32" && of.Name != "int64" && of.Name != "float64" && of.Name != "string"
	case *ast.SelectorExpr:
		return of.Sel.Name != "Duration" && of.Sel.Name != "ByteSize"
	default:
		return true
	}
}

// optionsSet calls set for every option that is assigned, in a literal or as a field of a variable
// that holds options.
func optionsSet(names map[string]string, set func(option string)) func(ast.Node) bool {
	vars := map[string]string{} // the package whose options a variable of this declaration holds
	return func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field: // a parameter
			for _, name := range n.Names {
				if of, ok := optionsOf(n.Type, names); ok {
					vars[name.Name] = of
				}
			}
		case *ast.CompositeLit:
			of, ok := optionsOf(n.Type, names)
			for _, e := range n.Elts {
				if pair, isPair := e.(*ast.KeyValueExpr); ok && isPair {
					set(of + "." + pair.Key.(*ast.Ident).Name)
				}
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if name, ok := to.(*ast.Ident); ok && i < len(n.Rhs) {
					if lit, ok := n.Rhs[i].(*ast.CompositeLit); ok {
						if of, ok := optionsOf(lit.Type, names); ok {
							vars[name.Name] = of
						}
					}
				}
				if field, ok := to.(*ast.SelectorExpr); ok {
					if name, ok := field.X.(*ast.Ident); ok && vars[name.Name] != "" {
						set(vars[name.Name] + "." + field.Sel.Name)
					}
				}
			}
		}
		return true
	}
}

// optionsOf returns the package whose options a type is.
func optionsOf(of ast.Expr, names map[string]string) (string, bool) {
	switch of := of.(type) {
	case *ast.StarExpr:
		return optionsOf(of.X, names)
	case *ast.Ident:
		return names[""], isOptions(of.Name)
	case *ast.SelectorExpr:
		if pkg, ok := of.X.(*ast.Ident); ok && names[pkg.Name] != "" {
			return names[pkg.Name], isOptions(of.Sel.Name)
		}
	}
	return "", false
}
