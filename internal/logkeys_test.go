package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestErrorsHaveOneKeyInTheLog: operators filter by "error", which is telemetry.KeyError; another
// key would hide lines from them.
func TestErrorsHaveOneKeyInTheLog(t *testing.T) {
	t.Parallel()
	calls := 0
	for _, root := range []string{".", "../cmd", "../client"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !logs(call) {
					return true
				}
				calls++
				for _, arg := range call.Args {
					if lit, ok := arg.(*ast.BasicLit); ok && slices.Contains([]string{`"err"`, `"cause"`, `"dead_err"`}, lit.Value) {
						t.Errorf("%s: the key of an error is %s, not \"error\"", set.Position(lit.Pos()), lit.Value)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if calls < 100 {
		t.Errorf("only %d calls that log were found", calls)
	}
}

// logs reports whether a call writes a log line or makes an attribute with slog.
func logs(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch f.Sel.Name {
	case "Debug", "DebugContext", "Info", "InfoContext", "Warn", "WarnContext", "Error", "ErrorContext", "Log", "LogAttrs", "Any", "String", "With":
		return true
	}
	return false
}
