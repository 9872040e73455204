package sqldb_test

import (
	"io/fs"
	"path"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/engine/sqldb"
)

// TestMigrationsExistForBothDialects: each migration exists for both engines and creates the same
// tables. Without a MySQL server no other test would notice a missing one.
func TestMigrationsExistForBothDialects(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(tablesMade(t, "sqlite"), tablesMade(t, "mysql")); diff != "" {
		t.Errorf("the tables that each migration makes, in migrations/sqlite (-) and migrations/mysql (+):\n%s", diff)
	}
}

var createTable = regexp.MustCompile(`(?m)^CREATE TABLE (?:IF NOT EXISTS )?([a-z_]+)`)

// tablesMade returns the tables that each migration of an engine creates, by file name.
func tablesMade(t *testing.T, engine string) map[string][]string {
	t.Helper()
	files, err := fs.Glob(sqldb.Migrations(), "migrations/"+engine+"/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("list the migrations of %s: %d, %v", engine, len(files), err)
	}
	made := map[string][]string{}
	for _, file := range files {
		text, err := fs.ReadFile(sqldb.Migrations(), file)
		if err != nil {
			t.Fatal(err)
		}
		made[path.Base(file)] = nil
		for _, m := range createTable.FindAllStringSubmatch(string(text), -1) {
			made[path.Base(file)] = append(made[path.Base(file)], m[1])
		}
	}
	return made
}
