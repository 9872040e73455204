package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"

	"example.org/smartdrive/internal/base/drive"
)

// Options configure Open. The zero value of each field means its default.
type Options struct {
	// Path is the database file; its directory must exist. The caller must hold the lock of the
	// data directory.
	Path string
	// MySQL is the data source of a MySQL or MariaDB database, instead of Path:
	// mysql://user:password@host:port/name, or in the driver's syntax
	// (github.com/go-sql-driver/mysql). The database must exist. Several processes may share it.
	MySQL string
	// Connections is the number of MySQL connections for transactions; half as many are added for
	// reads outside transactions. Default 32.
	Connections int
	// RunTwice runs each function of a MySQL transaction twice and rolls back the first run, for
	// tests: they detect functions that cannot run again.
	RunTwice bool
	// NoForeignKeys disables foreign keys, for internal/move/migrate, which inserts rows in any
	// order.
	NoForeignKeys bool
	// ReadOnly opens the database read-only: it creates and migrates nothing, and Write fails. A
	// missing file fails with fs.ErrNotExist.
	ReadOnly bool
	// OnSchemaChange controls schema changes of an existing database on a server. Default: apply
	// immediately.
	OnSchemaChange Change
	// Connector opens a data source. Tests use it to count calls and inject faults. Default:
	// NewConnector.
	Connector func(dsn string) (driver.Connector, error)
	// OnFull is called when the disk is full, before Write returns DiskFull, so that the caller can
	// release reserved space. It is not called for MySQL.
	OnFull func()
	// Log receives errors that no caller gets. Default: slog.Default.
	Log *slog.Logger
}

// Change decides about a schema change: it must call apply when no other process uses the
// database, or return an error to keep the schema. It runs under the schema lock; db is valid until
// it returns.
type Change func(ctx context.Context, db *DB, apply func() error) error

// DB is an open database. It is safe for concurrent use. During a move to another database it
// passes all calls to a Router.
type DB struct {
	*engine
	router atomic.Pointer[Router]
}

// engine is one database, without routing.
type engine struct {
	dialect Dialect
	writer  writer  // runs all writes
	reads   *sql.DB // connections for reading
	stats   Stats

	preparing sync.Mutex
	prepared  sync.Map     // query text to *sql.Stmt, on the read connections
	texts     atomic.Int64 // number of entries of prepared
}

// Stats counts the work of the database since Open.
type Stats struct {
	Pending atomic.Int64 // Writes in progress, running or waiting
	Writes  atomic.Int64 // committed transactions of Write
	Commits atomic.Int64 // commits of the engine: at most Writes, fewer under load
	Failed  atomic.Int64 // Writes that returned an error
	Reruns  atomic.Int64 // MySQL: transactions repeated after a deadlock or a lock timeout
}

// Querier reads: *DB and the result of DB.For outside of transactions, *Tx inside its own.
type Querier interface {
	// Query runs a query; the caller must close the rows, as Scan does.
	Query(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	// QueryRow runs a query for one row. Its error, or NotFound, is returned by Row.Scan.
	QueryRow(ctx context.Context, query string, args ...any) *Row
	// Dialect returns the SQL dialect, for the few statements that differ.
	Dialect() Dialect
}

var (
	_ Querier = (*DB)(nil)
	_ Querier = (*Tx)(nil)
)

// Row is the result of a query for one row. Errors of the query are returned by Scan, classified.
type Row struct {
	row *sql.Row
	tx  *Tx   // the transaction of the query; nil: none
	err error // returned by Scan instead of a row
}

// Scan copies the columns of the row into dest. It returns the error of the query, if any, and
// NotFound if the query found no row. In a MySQL transaction an error may end the transaction.
func (r *Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	err := classify(r.row.Scan(dest...))
	if r.tx != nil {
		return r.tx.keepFatal(err)
	}
	return err
}

// writer runs functions in write transactions: group for SQLite, pool for MySQL, noWriter for
// Options.ReadOnly.
type writer interface {
	// write runs fn in a transaction and commits it. On an error nothing is stored, unless the
	// error matches ErrInDoubt.
	write(ctx context.Context, fn func(context.Context, *Tx) error) error
	// close waits for accepted writes and closes the connections for writing; later writes fail.
	close() error
}

// Open opens the database and migrates its schema. It fails if a newer release has changed the
// schema, or if the server is too old. The caller must call Close.
func Open(ctx context.Context, opt Options) (*DB, error) {
	if opt.Connector == nil {
		opt.Connector = NewConnector
	}
	opt.Log = cmp.Or(opt.Log, slog.Default())
	if opt.MySQL != "" {
		return openMySQL(ctx, opt)
	}
	return openSQLite(ctx, opt)
}

// NewConnector returns a connector for a data source name as Open makes it: of SQLite if it begins
// with sqliteScheme, else of MySQL. It opens no connection and fails only if the name is malformed.
func NewConnector(dsn string) (driver.Connector, error) {
	if strings.HasPrefix(dsn, sqliteScheme) {
		return sqlite.NewConnector(dsn)
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Logger = &mysql.NopLogger{} // its messages are also returned as errors
	return mysql.NewConnector(cfg)
}

// Stats returns the live counters.
func (db *DB) Stats() *Stats { return &db.stats }

// Close waits for accepted writes and closes the database; later writes fail with Stopping. No
// reads may run or follow. On MySQL it always returns nil.
func (db *DB) Close() error {
	// The last connection to close checkpoints the log, and must be one that may write.
	err := errors.Join(db.reads.Close(), db.writer.close())
	if db.dialect == MySQL { // every COMMIT was answered; errors of ended connections do not matter
		return nil
	}
	return err
}

// Write runs fn in a write transaction and returns when it is committed or rolled back; the package
// comment has the rules for fn and for errors. fn may run more than once. ctx bounds only the wait
// for the start of fn.
func (db *DB) Write(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	if r := db.routed(); r != nil {
		return r.Write(ctx, fn)
	}
	db.stats.Pending.Add(1)
	defer db.stats.Pending.Add(-1)
	return db.writer.write(ctx, fn)
}

// Now returns the time of the database's clock, which all processes of an installation share. For
// SQLite it is the local clock.
func (db *DB) Now(ctx context.Context) (drive.Time, error) {
	if r := db.routed(); r != nil {
		return r.Primary().Now(ctx)
	}
	if db.dialect == SQLite {
		return drive.TimeOf(time.Now()), nil
	}
	var now drive.Time
	err := db.QueryRow(ctx, "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)").Scan(&now)
	if err != nil {
		return 0, fmt.Errorf("read the clock of the database: %w", err)
	}
	return now, nil
}

// Query reads committed rows outside of transactions. The caller must close the rows; Scan of this
// package does. Errors are classified. Rows of one account that were just written are read reliably
// only through For.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return db.read(ctx, drive.AccountID{}, query, args)
}

// QueryRow reads one row outside of transactions. It returns no error itself: Row.Scan returns it,
// and NotFound if there is no row.
func (db *DB) QueryRow(ctx context.Context, query string, args ...any) *Row {
	return db.readRow(ctx, drive.AccountID{}, query, args)
}

// query runs a query on the connections for reading. It uses a cached prepared statement if prepare
// returns one. The caller must close the rows.
func (db *engine) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	stmt, err := db.prepare(ctx, query)
	if err != nil {
		return nil, classify(err)
	}
	if stmt == nil {
		rows, err := db.reads.QueryContext(ctx, query, args...)
		return rows, classify(err)
	}
	rows, err := stmt.QueryContext(ctx, args...)
	return rows, classify(err)
}

// queryRow reads one row from the read connections.
func (db *engine) queryRow(ctx context.Context, query string, args []any) *Row {
	stmt, err := db.prepare(ctx, query)
	if err != nil || stmt == nil { // the row reports the error again
		return &Row{row: db.reads.QueryRowContext(ctx, query, args...)}
	}
	return &Row{row: stmt.QueryRowContext(ctx, args...)}
}

// prepare returns the cached statement of a query, since parsing and planning take longer than most
// reads. It returns nil on MySQL, where preparing costs a round trip, and if the cache is full:
// further texts are lists of varying length and not worth caching.
func (db *engine) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if db.dialect == MySQL {
		return nil, nil
	}
	if stmt, ok := db.prepared.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	if db.texts.Load() >= maxStatements {
		return nil, nil
	}
	db.preparing.Lock()
	defer db.preparing.Unlock()
	if stmt, ok := db.prepared.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := db.reads.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	db.prepared.Store(query, stmt)
	db.texts.Add(1)
	return stmt, nil
}

// Scan reads all rows with scan and closes them; the result is nil if there are none. It returns
// err if that is not nil, so that it can wrap a Query. The caller should bound the number of rows
// by LIMIT.
func Scan[T any](rows *sql.Rows, err error, scan func(*T, func(dest ...any) error) error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		var item T
		if err := scan(&item, rows.Scan); err != nil {
			return nil, fmt.Errorf("scan a row: %w", err)
		}
		all = append(all, item)
	}
	return all, classify(rows.Err())
}
