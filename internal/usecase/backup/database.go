package backup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// suffixes are the file name suffixes of a SQLite database.
var suffixes = []string{"", "-wal", "-shm"}

// copyDatabase writes a copy of the database that only its owner can read, and replaces a copy left
// by a crash. A failed copy is deleted, because on a full disk it would use the last space.
func copyDatabase(ctx context.Context, db *sqldb.DB, path string) error {
	if err := removeDatabase(path); err != nil {
		return err
	}
	if err := writeCopy(ctx, db, path); err != nil {
		return errors.Join(fmt.Errorf("copy the database: %w", err), removeDatabase(path))
	}
	return nil
}

// writeCopy checks the pages of the database, copies it into path while it is in use, checks the
// copy and syncs it. It fails if either is damaged.
func writeCopy(ctx context.Context, db *sqldb.DB, path string) error {
	if err := writeFile(path, nil); err != nil { // the engine accepts an empty file and keeps its mode
		return err
	}
	var from string
	if err := db.QueryRow(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&from); err != nil {
		return err
	}
	if err := checkDatabase(ctx, from); err != nil {
		return err
	}
	// A consistent snapshot, concurrent with readers and the writer.
	if err := execSeparately(ctx, from, `VACUUM INTO ?`, path); err != nil {
		return err
	}
	if err := checkDatabase(ctx, path); err != nil {
		return fmt.Errorf("what was written: %w", err)
	}
	return syncFile(path)
}

// checkDatabase reads all pages of a database in use and returns an error if one is damaged. A copy
// would hide the damage: it omits unreachable pages and rebuilds indexes.
func checkDatabase(ctx context.Context, path string) error {
	found, err := sqldb.CheckFile(ctx, path, false)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("the database %s is damaged: %s. Stop the server, put the file aside, and restore the last good backup with \"smartdrive admin restore\"", path, found[0])
	}
	return err
}

// copySize returns the approximate size of a copy: the used pages of the database.
func copySize(ctx context.Context, db *sqldb.DB) (n drive.ByteSize, err error) {
	err = db.QueryRow(ctx, `SELECT (p.page_count - f.freelist_count) * s.page_size
		FROM pragma_page_count() AS p, pragma_freelist_count() AS f, pragma_page_size() AS s`).Scan(&n)
	return n, err
}

// removeDatabase deletes a database file with its log files. Missing files are no error. It stops
// at the first error.
func removeDatabase(path string) error {
	for _, suffix := range suffixes {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// mergeLog merges the write-ahead log of a database that is not in use into its file and syncs the
// file. It fails if a log file remains.
func mergeLog(ctx context.Context, path string) error {
	if err := execSeparately(ctx, path, `PRAGMA journal_mode = DELETE`); err != nil {
		return err
	}
	for _, suffix := range suffixes[1:] {
		if _, err := os.Lstat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, fmt.Errorf("%s%s is still there", path, suffix))
		}
	}
	return syncFile(path)
}

// execSeparately runs a statement on a connection of its own: the read connections of sqldb refuse
// writes, and its write connection is always in a transaction.
func execSeparately(ctx context.Context, path, statement string, args ...any) error {
	db, err := openSeparately(path)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement, args...)
	return errors.Join(err, db.Close())
}

// openSeparately opens the SQLite file path without the checks and migrations of sqldb. The caller
// closes it. A wrong path shows at the first statement.
func openSeparately(path string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_pragma=busy_timeout(5000)")
}
