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

// openSQLite opens a database file. The caller holds the lock on the data directory.
func openSQLite(ctx context.Context, opt Options) (*DB, error) {
	if opt.Look {
		return lookAtSQLite(opt)
	}
	if err := keepPrivate(opt.Path); err != nil {
		return nil, fmt.Errorf("open %s: %w", opt.Path, err)
	}
	vfs, err := fileSystem()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", opt.Path, err)
	}
	writeConn, err := opt.Connector(writeDSN(opt.Path, vfs, opt.Unchecked))
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

// keepPrivate makes the file before the engine does, which would let others read it. The files
// beside it get its mode.
func keepPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// Common settings: WAL lets readers work beside the writer, FULL makes a commit durable against
// power loss.
const pragmas = "_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
	"&_pragma=cache_size(-8192)&_defensive=1"

// LogSize is how long the log of a SQLite database gets, in bytes, before a commit brings its pages
// to the file of the database, which it then syncs. What many commits have changed, as the ends of
// tables and indexes are, is written there once: SQLite's default of 1,000 pages has it written
// four times as often. Somebody who reads for long, or one large transaction, makes it longer.
const LogSize = logPages * 4096

const logPages = 4000

// writeDSN keeps temporary files in memory: a statement that is undone inside a savepoint needs
// one, of some pages.
func writeDSN(path, vfs string, unchecked bool) string {
	keys := "ON"
	if unchecked {
		keys = "OFF"
	}
	source := dsn(path) + fmt.Sprintf("&_pragma=temp_store(MEMORY)&_pragma=foreign_keys(%s)&_pragma=wal_autocheckpoint(%d)", keys, logPages)
	if vfs != "" { // an empty name is one that SQLite does not know
		source += "&vfs=" + vfs
	}
	return source
}

func readDSN(path string) string { return dsn(path) + "&_pragma=query_only(ON)" }
func dsn(path string) string     { return sqliteScheme + escapePath(path) + "?" + pragmas }

// sqliteScheme begins the data source of a database file.
const sqliteScheme = "file:"

func escapePath(path string) string { return (&url.URL{Path: path}).EscapedPath() }
