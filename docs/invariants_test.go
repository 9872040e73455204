package docs_test

import (
	"bytes"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestInvariantsCiteRealTests: a page that says who would notice must not name tests that are gone.
func TestInvariantsCiteRealTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("invariants.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests bytes.Buffer
	err = fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."): // services that run write there
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile("../" + path)
		tests.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	cited := regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`").FindAllSubmatch(page, -1)
	if len(cited) == 0 {
		t.Fatal("no test is cited")
	}
	for _, c := range cited {
		if !bytes.Contains(tests.Bytes(), append([]byte("func "), append(c[1], '(')...)) {
			t.Errorf("there is no %s", c[1])
		}
	}
}
