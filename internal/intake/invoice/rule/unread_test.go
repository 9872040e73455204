package rule_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"example.org/smartdrive/internal/intake/invoice/rule"
)

func TestUnreadFilesAreSaidInAllLanguages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, english, german, chinese string }{
		{"malformed", "malformed: line 3: the document ends too early", "Zeile 3: das Dokument ist abgeschnitten", "第 3 行：文档过早结束"},
		{"bad-value", `bad-value: line 12: cbc:IssueDate: "gestern is not a date" is not a date`, `Zeile 12: cbc:IssueDate: "gestern is not a date": kein Datum`, `第 12 行：cbc:IssueDate: "gestern is not a date": 不是日期`},
		{"bad-value", `bad-value: line 4: ram:LineTotalAmount: "1" is 40 digits, more than 28: not a decimal number`, `Zeile 4: ram:LineTotalAmount: "1": keine Dezimalzahl, die hier Platz hat: 40 Ziffern, höchstens 28`, `第 4 行：ram:LineTotalAmount: "1": 有 40 位数字，最多 28 位`},
		{"malformed", `malformed: at byte 7: the member "a: \"b\"" is there twice`, `bei Byte 7: das Feld "a: \"b\"" kommt zweimal vor`, `第 7 字节：字段 "a: \"b\"" 重复出现`},
		{"limit", "limit: the archive has more than 10000 members or a directory larger than 4194304 bytes", "das Archiv hat mehr als 10000 Dateien oder ein Verzeichnis über 4194304 Byte", "压缩包的文件超过 10000 个，或目录超过 4194304 字节"},
		{"refused", "refused: what an older release said", "what an older release said", "what an older release said"},
	} {
		for l, want := range map[rule.Language]string{rule.English: strings.TrimPrefix(c.english, c.kind+": "), rule.German: " (" + c.german + ")", rule.Chinese: " (" + c.chinese + ")"} {
			if got := l.Unread(c.kind, c.english); !strings.HasSuffix(got, want) || l == rule.English && got != want {
				t.Errorf("%q in language %d is %q, want %q at its end", c.english, l, got, want)
			}
		}
	}
}

// TestEveryTextOfAReaderIsTranslated checks that unread.tsv has exactly the texts of errors that
// the decoders may return.
func TestEveryTextOfAReaderIsTranslated(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("unread.tsv")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		parts := strings.Split(strings.TrimSpace(line), "\t")
		if len(parts) != 3 || known[parts[0]] {
			t.Fatalf("the line %q is not in three languages, or is there twice", line)
		}
		known[parts[0]] = true
		for _, put := range []string{"{1}", "{2}"} {
			if n := strings.Count(parts[0], put); n != strings.Count(parts[1], put) || n != strings.Count(parts[2], put) {
				t.Errorf("the line %q does not have %s in each language", line, put)
			}
		}
	}
	given := map[string]bool{ // texts that are composed of several parts
		"lines within lines in CII: not supported": true, "line {1}: {2}": true,
		"not a date": true, "not a decimal number": true, "{1} digits, more than {2}: not a decimal number": true,
	}
	for _, dir := range []string{"../syntax", "../xmlscan", "../pdf", "../envelope"} {
		textsOf(t, dir, given)
	}
	for text := range given {
		if !known[text] {
			t.Errorf("unread.tsv does not have %q", text)
		}
	}
	for text := range known {
		if !given[text] {
			t.Errorf("unread.tsv has %q, which no reader gives", text)
		}
	}
}

var verb = regexp.MustCompile(`\\?%[#.\d]*[a-z]`)

// textsOf adds the error texts in the sources of a package: the arguments of functions that make
// errors, and the texts of Error literals.
func textsOf(t *testing.T, dir string, texts map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources in %s: %v", dir, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if slices.Contains([]string{"fail", "damaged", "limited", "badValue"}, lastName(n.Fun)) {
					addTexts(t, n, texts)
				}
			case *ast.CompositeLit:
				if lastName(n.Type) == "Error" {
					addTexts(t, n, texts)
				}
			case *ast.FuncDecl:
				if n.Name.Name == "Named" {
					for _, statement := range n.Body.List {
						addTexts(t, statement, texts)
					}
				}
			}
			return true
		})
	}
}

// lastName returns the name of a function or type without its package.
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

// addTexts adds the string literals of a piece of source in the form of unread.tsv. It skips
// literals without a space, which are names, and literals that begin with a colon, which are
// suffixes.
func addTexts(t *testing.T, in ast.Node, texts map[string]bool) {
	t.Helper()
	ast.Inspect(in, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Error(err)
		}
		if text == "%.60q is %v" || !strings.Contains(text, " ") || strings.HasPrefix(text, ":") {
			return true
		}
		put := 0
		text = verb.ReplaceAllStringFunc(text, func(string) string {
			put++
			return "{" + strconv.Itoa(put) + "}"
		})
		if strings.HasSuffix(text, ": ") {
			text += "{2}"
		}
		texts[text] = true
		return true
	})
}
