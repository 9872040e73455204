package internal

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// drawn matches comment lines that are not prose: tables, lists, drawings, directives, code.
var drawn = regexp.MustCompile(`^//($|\S|\t|\s{2,}|\s[-*•|+#]|\s\d+[.)] |\s[A-Za-z]\d*: |.*\S\s{3,}\S)`)

// TestCommentsWrap checks that prose in comments on lines of their own wraps at 100 columns, where
// a tab counts as four.
func TestCommentsWrap(t *testing.T) {
	t.Parallel()
	const most = 100
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || path != ".." && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(raw), "\n") {
			text := strings.TrimLeft(line, "\t")
			if !strings.HasPrefix(text, "//") || drawn.MatchString(text) {
				continue
			}
			if n := utf8.RuneCountInString(line) + 3*(len(line)-len(text)); n > most {
				t.Errorf("%s:%d: a comment of %d columns", path, i+1, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
