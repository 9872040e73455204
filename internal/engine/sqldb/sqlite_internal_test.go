package sqldb

import (
	"database/sql"
	"path/filepath"
	"testing"
)

// TestSQLitesOwnFileSystemIsNotNamed: a data source for SQLite's own file system has no vfs
// parameter, because SQLite rejects an empty name.
func TestSQLitesOwnFileSystemIsNotNamed(t *testing.T) {
	t.Parallel()
	connector, err := NewConnector(writeDSN(filepath.Join(t.TempDir(), "own.db"), "", false))
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE t (id INTEGER PRIMARY KEY)"); err != nil {
		t.Error(err)
	}
}
