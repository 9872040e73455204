package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
)

// docs/who-pays.md lists each table of the database once, with what bounds it, and lists nothing
// else.
func TestEachTableSaysWhoPays(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "who-pays.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Tables\n")
	section, _, _ = strings.Cut(section, "\n## ")
	said := map[string]int{}
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			said[name[1]]++
		}
	}
	for _, name := range tables(t) {
		if said[name] != 1 {
			t.Errorf("docs/who-pays.md has %d rows for the table %s; want one: who pays, and what bounds its rows", said[name], name)
		}
		delete(said, name)
	}
	for name := range said {
		t.Errorf("docs/who-pays.md names %s, which is no table", name)
	}
}

// docs/transactions.md names each table of the database: something writes it.
func TestEachTableHasATransaction(t *testing.T) {
	t.Parallel()
	page := documents(t)["docs/transactions.md"]
	said := map[string]bool{}
	for line := range strings.Lines(page) {
		written := line // of a text what is code, of a table the second cell
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			written = regexp.MustCompile("[a-z_]+").ReplaceAllString(cells[2], "`$0`")
		}
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(written, -1) {
			said[name[1]] = true
		}
	}
	for _, name := range tables(t) {
		if !said[name] {
			t.Errorf("docs/transactions.md has no transaction that writes the table %s", name)
		}
	}
}

// tables returns the tables that the migrations create.
func tables(t *testing.T) (all []string) {
	t.Helper()
	files, err := fs.Glob(sqldb.Migrations(), "migrations/sqlite/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := fs.ReadFile(sqldb.Migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^CREATE TABLE ([a-z_]+)`).FindAllStringSubmatch(string(text), -1) {
			all = append(all, m[1])
		}
	}
	return all
}
