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

	"smartdrive/internal/base/drive"
)

// Options configure Open. The zero value of each field is its default.
type Options struct {
	// Path is the database file; its directory must exist. The caller holds the lock on the data
	// directory.
	Path string
	// MySQL is the data source of a MySQL or MariaDB database, instead of Path:
	// mysql://user:password@host:port/name, or as the driver writes it
	// (github.com/go-sql-driver/mysql). The database must exist; any number of processes may share
	// it.
	MySQL string
	// Connections to MySQL: for transactions, and half as many for reading beside them. Default:
	// 32.
	Connections int
	// Twice makes each function that would be committed on MySQL run once before, for nothing: for
	// tests, which then find what a function that may run again must not do.
	Twice bool
	// Unchecked opens connections that check no foreign keys and follow none: for
	// internal/move/migrate, which brings rows in any order.
	Unchecked bool
	// Look opens a database to be looked at: nothing is made, its schema stays what it is, and
	// Write refuses. A file that is not there is fs.ErrNotExist.
	Look bool
	// Change changes the schema of a database on a server that is not new. Default: at once.
	Change Change
	// Connector opens a data source; tests count calls and inject faults with it. Default:
	// NewConnector.
	Connector func(dsn string) (driver.Connector, error)
	// OnFull is called when the disk is full, before Write returns DiskFull: the place to give up
	// the ballast file. It is not called for MySQL, whose disk is elsewhere.
	OnFull func()
	// Log receives what no caller can be told. Default: slog.Default.
	Log *slog.Logger
}

// Change calls apply, which changes the schema, once nobody uses the database; else its error keeps
// all as it is. It runs under the lock on the schema, and db is good until it returns.
type Change func(ctx context.Context, db *DB, apply func() error) error

// DB is an open database. It is safe for concurrent use. While an installation moves to another
// database it hands what it is asked on to a Router.
type DB struct {
	*engine
	router atomic.Pointer[Router]
}

// engine is one database.
type engine struct {
	dialect Dialect
	writer  writer
	reads   *sql.DB
	stats   Stats

	preparing sync.Mutex
	prepared  sync.Map     // query text to the *sql.Stmt of the readers
	texts     atomic.Int64 // entries of prepared
}

// Stats counts what the database was asked to do since Open.
type Stats struct {
	Pending atomic.Int64 // Writes that were asked for and have not returned: those that run, and those that wait
	Writes  atomic.Int64 // transactions asked for through Write that were committed
	Commits atomic.Int64 // commits of the engine: at most Writes, fewer under load
	Failed  atomic.Int64 // Writes that returned an error
	Reruns  atomic.Int64 // MySQL: transactions that ran again after a deadlock or a lock that was not had in time
}

// Querier reads: *DB, and what its For returns, from a pool of readers, *Tx inside its transaction.
type Querier interface {
	Query(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) *Row
	Dialect() Dialect
}

var (
	_ Querier = (*DB)(nil)
	_ Querier = (*Tx)(nil)
)

// Row is sql.Row with errors classified: no row is drive.NotFound.
type Row struct {
	row *sql.Row
	tx  *Tx   // that it was read in; nil: outside
	err error // instead of a row
}

// Scan copies the columns; no row is an error of kind NotFound.
func (r *Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	err := classify(r.row.Scan(dest...))
	if r.tx != nil {
		return r.tx.note(err)
	}
	return err
}

// writer runs functions in write transactions: group on SQLite, pool on MySQL.
type writer interface {
	write(ctx context.Context, fn func(context.Context, *Tx) error) error
	close() error
}

// Open opens the database and brings its schema up to date. A database of a newer release is
// refused by name, and a server that is too old too.
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

// NewConnector opens a data source that Open names, of either dialect.
func NewConnector(dsn string) (driver.Connector, error) {
	if strings.HasPrefix(dsn, sqliteScheme) {
		return sqlite.NewConnector(dsn)
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Logger = &mysql.NopLogger{} // what it would say comes back as errors
	return mysql.NewConnector(cfg)
}

// Stats returns the counters.
func (db *DB) Stats() *Stats { return &db.stats }

// Close waits for the writes that were accepted and closes the database. Nobody may read any more.
func (db *DB) Close() error {
	// The last connection to go moves the log into the database, and must be one that may write.
	err := errors.Join(db.reads.Close(), db.writer.close())
	if db.dialect == MySQL { // each COMMIT has its answer, and a connection that the server has ended need not be ended
		return nil
	}
	return err
}

// Write runs fn in a write transaction; see the package comment. The context bounds the wait for
// the writer's turn; once fn has begun, Write waits for the outcome.
func (db *DB) Write(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	if r := db.routed(); r != nil {
		return r.Write(ctx, fn)
	}
	db.stats.Pending.Add(1)
	defer db.stats.Pending.Add(-1)
	return db.writer.write(ctx, fn)
}

// Now returns the time by the clock of the database, which all processes that share it share:
// SQLite's is this machine's.
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

// Query reads outside a transaction.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return db.read(ctx, drive.AccountID{}, query, args)
}

// QueryRow reads one row outside a transaction.
func (db *DB) QueryRow(ctx context.Context, query string, args ...any) *Row {
	return db.readRow(ctx, drive.AccountID{}, query, args)
}

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

func (db *engine) queryRow(ctx context.Context, query string, args []any) *Row {
	stmt, err := db.prepare(ctx, query)
	if err != nil || stmt == nil { // an error comes again, through the row
		return &Row{row: db.reads.QueryRowContext(ctx, query, args...)}
	}
	return &Row{row: stmt.QueryRowContext(ctx, args...)}
}

// prepare returns the readers' statement for a query: parsing and planning take longer than most
// reads. It returns nil when there are so many texts already that new ones must be lists of varying
// length, which are not worth keeping; and on MySQL, where it would be one more round trip.
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

// Scan reads all rows with the scan function and closes them; limit memory with LIMIT in the query.
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
