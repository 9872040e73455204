package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"example.org/smartdrive/internal/base/drive"
)

// noWriter is the writer of a database opened with Options.ReadOnly: write fails with WrongState.
type noWriter struct{}

// write calls nothing and fails with WrongState: the database was opened read-only.
func (noWriter) write(context.Context, func(context.Context, *Tx) error) error {
	return drive.Wrap(errors.New("the database was opened to be looked at"), drive.WrongState)
}

// close does nothing.
func (noWriter) close() error { return nil }

// openSQLiteReadOnly opens an existing file and creates no file beside it. If there is no log
// beside the file, the file is complete and can be opened as immutable. A log is in use by a writer
// or left by a crash, and must be read.
func openSQLiteReadOnly(opt Options) (*DB, error) {
	if _, err := os.Stat(opt.Path); err != nil {
		return nil, err
	}
	how := "?mode=ro&_pragma=busy_timeout(5000)&_pragma=query_only(ON)"
	if _, err := os.Stat(opt.Path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		how += "&immutable=1"
	}
	conn, err := opt.Connector(sqliteScheme + escapePath(opt.Path) + how)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", opt.Path, err)
	}
	return &DB{engine: &engine{reads: sql.OpenDB(conn), writer: noWriter{}}}, nil
}

// TableCount returns the number of tables of the database; 0 if it is new. It fails if the database
// cannot be read.
func (db *DB) TableCount(ctx context.Context) (n int, err error) {
	query := "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table'"
	if db.Dialect() == MySQL {
		query = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()"
	}
	if err := db.QueryRow(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the tables: %w", err)
	}
	return n, nil
}
