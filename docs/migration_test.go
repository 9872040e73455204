package docs_test

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// TestMigrationPagesCountTables: the recorded dry run has as many tables as an installation has.
func TestMigrationPagesCountTables(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "it reads SQLite's catalogue")
	var tables int
	err := sqldbtest.Open(t).QueryRow(t.Context(), `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table'
		AND name NOT LIKE 'migration\_%' ESCAPE '\' AND name NOT LIKE 'goose\_%' ESCAPE '\' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`).Scan(&tables)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"migration.md", "migration.zh-CN.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`\d+ rows of (\d+) tables`).FindSubmatch(text)
		if found == nil || string(found[1]) != strconv.Itoa(tables) {
			t.Errorf("%s shows %q; an installation has %d tables", page, found, tables)
		}
	}
}
