package backup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// suffixes are what a database may consist of.
var suffixes = []string{"", "-wal", "-shm"}

// copyDatabase writes a copy that only its owner can read, in place of one that a crash left. Of
// one that fails nothing stays: on a full disk it would take the last room.
func copyDatabase(ctx context.Context, db *sqldb.DB, path string) error {
	if err := removeDatabase(path); err != nil {
		return err
	}
	if err := writeCopy(ctx, db, path); err != nil {
		return errors.Join(fmt.Errorf("copy the database: %w", err), removeDatabase(path))
	}
	return nil
}

func writeCopy(ctx context.Context, db *sqldb.DB, path string) error {
	if err := writeFile(path, nil); err != nil { // the engine takes an empty file, and keeps its mode
		return err
	}
	var from string
	if err := db.QueryRow(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&from); err != nil {
		return err
	}
	if err := checkDatabase(ctx, from); err != nil {
		return err
	}
	// One moment of the database, beside its readers and its writer.
	if err := execAlone(ctx, from, `VACUUM INTO ?`, path); err != nil {
		return err
	}
	if err := checkDatabase(ctx, path); err != nil {
		return fmt.Errorf("what was written: %w", err)
	}
	return syncFile(path)
}

// checkDatabase reads all pages of a database, beside those who use it, and fails if one is
// damaged. A copy would not show it: it leaves out what cannot be reached, and builds indexes
// again.
func checkDatabase(ctx context.Context, path string) error {
	found, err := sqldb.CheckFile(ctx, path, false)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("the database %s is damaged: %s. Stop the server, put the file aside, and restore the last good backup with \"smartdrive admin restore\"", path, found[0])
	}
	return err
}

// copySize is how large a copy becomes, about: what is in use of the database.
func copySize(ctx context.Context, db *sqldb.DB) (n drive.ByteSize, err error) {
	err = db.QueryRow(ctx, `SELECT (p.page_count - f.freelist_count) * s.page_size
		FROM pragma_page_count() AS p, pragma_freelist_count() AS f, pragma_page_size() AS s`).Scan(&n)
	return n, err
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
	db, err := openAlone(path)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement, args...)
	return errors.Join(err, db.Close())
}

func openAlone(path string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_pragma=busy_timeout(5000)")
}
