package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
)

// openSQLite opens a database file, creates it if it is missing, and migrates it; the caller must
// hold the lock of the data directory. With Options.ReadOnly it does neither. It starts the
// goroutine that commits writes, which DB.Close ends; on an error everything is closed.
func openSQLite(ctx context.Context, opt Options) (*DB, error) {
	if opt.ReadOnly {
		return openSQLiteReadOnly(opt)
	}
	if err := createPrivate(opt.Path); err != nil {
		return nil, fmt.Errorf("open %s: %w", opt.Path, err)
	}
	vfs, err := fileSystem()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", opt.Path, err)
	}
	writeConn, err := opt.Connector(writeDSN(opt.Path, vfs, opt.NoForeignKeys))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", opt.Path, err)
	}
	writes := sql.OpenDB(writeConn)
	writes.SetMaxOpenConns(1)
	if err := migrate(ctx, writes, SQLite, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("migrate %s: %w", opt.Path, err), writes.Close())
	}
	readConn, err := opt.Connector(readDSN(opt.Path))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", opt.Path, err), writes.Close())
	}
	db := &DB{engine: &engine{reads: sql.OpenDB(readConn)}}
	db.reads.SetMaxOpenConns(max(4, runtime.NumCPU()))
	db.reads.SetMaxIdleConns(max(4, runtime.NumCPU()))
	group, err := startGroup(ctx, writes, &db.stats, opt)
	if err != nil {
		return nil, errors.Join(err, writes.Close(), db.reads.Close())
	}
	db.writer = group
	return db, nil
}

// createPrivate creates the file with mode 0600; SQLite would let others read it. SQLite gives its
// other files the same mode.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// pragmas are the common settings. WAL lets readers run beside the writer; FULL makes commits
// survive a power loss.
const pragmas = "_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
	"&_pragma=cache_size(-8192)&_defensive=1"

// LogSize is the length in bytes at which the log of a SQLite database is checkpointed: its pages
// are written to the database file and synced. A page changed by many commits is then written once.
// SQLite's default of 1,000 pages would write four times as much. A long read or a large
// transaction makes the log longer.
const LogSize = logPages * 4096

// logPages is the size of the write-ahead log in pages; see LogSize.
const logPages = 4000

// writeDSN returns the data source for writing. Temporary files stay in memory: a rollback to a
// savepoint needs one of some pages.
func writeDSN(path, vfs string, unchecked bool) string {
	keys := "ON"
	if unchecked {
		keys = "OFF"
	}
	source := dsn(path) + fmt.Sprintf("&_pragma=temp_store(MEMORY)&_pragma=foreign_keys(%s)&_pragma=wal_autocheckpoint(%d)", keys, logPages)
	if vfs != "" { // SQLite rejects an empty name
		source += "&vfs=" + vfs
	}
	return source
}

// readDSN returns the data source for reading.
func readDSN(path string) string { return dsn(path) + "&_pragma=query_only(ON)" }

// dsn returns the common part of a data source.
func dsn(path string) string { return sqliteScheme + escapePath(path) + "?" + pragmas }

// sqliteScheme is the prefix of the data source of a database file.
const sqliteScheme = "file:"

// escapePath escapes a path for a URL.
func escapePath(path string) string { return (&url.URL{Path: path}).EscapedPath() }
