package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"smartdrive/internal/base/drive"
)

// noWriter is the writer of a database that was opened to be looked at.
type noWriter struct{}

func (noWriter) write(context.Context, func(context.Context, *Tx) error) error {
	return drive.Wrap(errors.New("the database was opened to be looked at"), drive.WrongState)
}

func (noWriter) close() error { return nil }

// lookAtSQLite opens a file that is there, and makes none beside it. A log that lies beside the
// file belongs to somebody who writes, or to a crash; without one the file is all there is, and
// nothing of the engine's is needed to read it.
func lookAtSQLite(opt Options) (*DB, error) {
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

// TableCount is how many tables the database has.
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
