package docs

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// otherMessages maps files whose messages are not constants to the reason why the pages do not list
// their messages.
var otherMessages = map[string]string{
	"internal/base/telemetry/outage.go": "the callers of Outage.Record pass the messages, and those are collected",
}

// TestLogLinesAreListed compares docs/log-messages.md, in both languages, with the messages that
// the server logs at WARN and above.
func TestLogLinesAreListed(t *testing.T) {
	t.Parallel()
	there := map[string][]string{} // levels by message
	walk(t, ".go", func(path, text string) {
		if strings.HasSuffix(path, "_test.go") || !strings.HasPrefix(path, "internal/") && !strings.HasPrefix(path, "cmd/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			levels, message := logged(call)
			if levels == "" || otherMessages[path] != "" {
				return true
			}
			lit, ok := message.(*ast.BasicLit)
			if !ok {
				t.Errorf("%s logs a message that is not a literal; list the file in otherMessages, with the reason", path)
				return true
			}
			said := constant.StringVal(constant.MakeFromLiteral(lit.Value, lit.Kind, 0))
			if !slices.Contains(there[said], levels) {
				there[said] = append(there[said], levels)
			}
			return true
		})
	})
	if len(there) < 150 {
		t.Fatalf("only %d messages were found: does this test still recognize loggers?", len(there))
	}
	all := documents(t)
	row := regexp.MustCompile("(?m)^- `(.+?)`\\s+\\(([A-Z]+(?:,\\s[A-Z]+)*)\\)")
	for _, page := range []string{"docs/log-messages.md", "docs/log-messages.zh-CN.md"} {
		listed := map[string]string{}
		for _, m := range row.FindAllStringSubmatch(all[page], -1) {
			if listed[m[1]] != "" {
				t.Errorf("%s lists %q twice", page, m[1])
			}
			listed[m[1]] = strings.Join(strings.Fields(m[2]), " ")
		}
		for message, levels := range there {
			slices.Sort(levels)
			if want := strings.Join(levels, ", "); listed[message] != want {
				t.Errorf("%s: %q is logged at %s; the page says %q", page, message, want, listed[message])
			}
			delete(listed, message)
		}
		for message := range listed {
			t.Errorf("%s lists %q, which nothing logs", page, message)
		}
	}
}

// logged returns the levels from WARN on that a call may log at, "" for none, and the message.
func logged(call *ast.CallExpr) (levels string, message ast.Expr) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", nil
	}
	if f.Sel.Name == "Record" && len(call.Args) >= 4 && isLogger(call.Args[1]) { // telemetry.Outage
		return "WARN", call.Args[2]
	}
	at := map[string]int{"Warn": 0, "Error": 0, "WarnContext": 1, "ErrorContext": 1, "Log": 2, "LogAttrs": 2}
	i, ok := at[f.Sel.Name]
	if !ok || len(call.Args) <= i || !isLogger(f.X) {
		return "", nil
	}
	if i < 2 {
		return strings.ToUpper(strings.TrimSuffix(f.Sel.Name, "Context")), call.Args[i]
	}
	levels, known := map[string]string{"LevelDebug": "", "LevelInfo": "", "LevelWarn": "WARN", "LevelError": "ERROR"}[lastName(call.Args[1])]
	if !known {
		levels = "WARN, ERROR" // a level that is decided at run time
	}
	return levels, call.Args[i]
}

// isLogger recognizes a logger by its name: log, opt.Log, i.log().
func isLogger(x ast.Expr) bool { return strings.EqualFold(lastName(x), "log") }

// lastName returns the last identifier of an expression such as x.y.z or x.z().
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.CallExpr:
		return lastName(x.Fun)
	}
	return ""
}
