package sqldbtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"smartdrive/internal/engine/sqldb"
)

// template is a database file with all migrations and no rows. Making one runs every migration,
// which the race detector slows down to seconds; a copy is one write.
var template = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "smartdrive-template-") //nolint:usetesting // of no one test
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a copy is in memory
	path := filepath.Join(dir, "template.db")
	db, err := sqldb.Open(context.Background(), sqldb.Options{Path: path})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil { // it leaves one file
		return nil, err
	}
	return os.ReadFile(path)
})

// File puts a database of SQLite without rows into a directory of the test's own.
func File(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "side.db")
	if err := prepare(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// prepare puts a database without rows at path, unless something is there.
func prepare(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := template()
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
