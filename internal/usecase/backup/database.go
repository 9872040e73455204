package backup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"smartdrive/internal/engine/sqldb"
)

// suffixes are what a database may consist of.
var suffixes = []string{"", "-wal", "-shm"}

// copyDatabase writes a copy that only its owner can read, in place of one that a crash left.
func copyDatabase(ctx context.Context, db *sqldb.DB, path string) error {
	if err := removeDatabase(path); err != nil {
		return err
	}
	if err := writeFile(path, nil); err != nil { // the engine takes an empty file, and keeps its mode
		return err
	}
	var from string
	err := db.QueryRow(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&from)
	if err == nil {
		// One moment of the database, beside its readers and its writer.
		err = execAlone(ctx, from, `VACUUM INTO ?`, path)
	}
	if err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	return syncFile(path)
}

func removeDatabase(path string) error {
	for _, suffix := range suffixes {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// settle makes a database that nobody has open one file: what is in its log moves into it.
func settle(ctx context.Context, path string) error {
	if err := execAlone(ctx, path, `PRAGMA journal_mode = DELETE`); err != nil {
		return err
	}
	for _, suffix := range suffixes[1:] {
		if _, err := os.Lstat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, fmt.Errorf("%s%s is still there", path, suffix))
		}
	}
	return syncFile(path)
}

// execAlone runs a statement that takes a connection of its own: those that sqldb reads with refuse
// whatever writes, and the one that it writes with is always within a transaction.
func execAlone(ctx context.Context, path, statement string, args ...any) error {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement, args...)
	return errors.Join(err, db.Close())
}
