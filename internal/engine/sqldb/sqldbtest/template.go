package sqldbtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
)

// template is a migrated database file without rows. Running all migrations takes seconds under the
// race detector; copying the file is quick.
var template = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "smartdrive-template-") // shared by all tests
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // the content is in memory
	path := filepath.Join(dir, "template.db")
	db, err := sqldb.Open(context.Background(), sqldb.Options{Path: path})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil { // Close leaves a single file
		return nil, err
	}
	return os.ReadFile(path)
})

// File creates a SQLite database without rows in a directory of the test and returns its path.
func File(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "side.db")
	if err := prepare(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// prepare writes a migrated database without rows to path. It does nothing if a file exists there.
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
