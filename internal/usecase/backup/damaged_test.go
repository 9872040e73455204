package backup_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/internal/usecase/backup"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// A database with a damaged page is not backed up: the copy would hide the damage and replace a
// good backup. The error names the solution.
func TestDamagedDatabaseIsNotBackedUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	path := filepath.Join(r.Dir, "smartdrive.db")
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		t.Fatal(err)
	}
	var page, size int64
	err = db.QueryRowContext(t.Context(), `SELECT s.rootpage, p.page_size FROM sqlite_schema AS s, pragma_page_size() AS p
		WHERE s.type = 'index' AND s.tbl_name = 'findings' LIMIT 1`).Scan(&page, &size)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	good := overwrite(t, path, (page-1)*size, make([]byte, size))
	dest := filepath.Join(t.TempDir(), "backup")
	_, err = backup.Run(t.Context(), r.DB, r.Dir, dest, r.options())
	if err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "admin restore") {
		t.Errorf("the backup says %v", err)
	}
	overwrite(t, path, (page-1)*size, good) // the damage is gone, and it works again
	r.backup(t, dest, r.options())
}

// overwrite writes b into a file and returns the previous bytes.
func overwrite(t *testing.T, path string, at int64, b []byte) []byte {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	was := make([]byte, len(b))
	if _, err := f.ReadAt(was, at); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
	return was
}
