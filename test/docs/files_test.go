package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	named   = regexp.MustCompile("`((?:internal|cmd|client|test|bench|web|deploy|scripts|docs)/[A-Za-z0-9_./*-]+)`")
	sibling = regexp.MustCompile("^, `([a-z0-9_]+\\.go)`")
)

// Every file or directory of the project that a document names exists. In a list such as
// "`internal/usecase/upload/park.go`, `reclaim.go`", the later ones are siblings of the first.
func TestNamedFilesExist(t *testing.T) {
	t.Parallel()
	for path, text := range documents(t) {
		for _, at := range named.FindAllStringSubmatchIndex(text, -1) {
			name := strings.TrimSuffix(text[at[2]:at[3]], "/...")
			if strings.Contains(name, "NNNN") {
				continue // a number that is to be chosen
			}
			found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(name)))
			if err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which is not there", path, name)
				continue
			}
			dir := found[0]
			if info, err := os.Stat(dir); err == nil && !info.IsDir() {
				dir = filepath.Dir(dir)
			}
			for rest := text[at[1]:]; ; {
				m := sibling.FindStringSubmatch(rest)
				if m == nil {
					break
				}
				if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
					t.Errorf("%s names %s beside %s, where it is not", path, m[1], name)
				}
				rest = rest[len(m[0]):]
			}
		}
	}
}
