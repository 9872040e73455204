package sqldbtest

import (
	"context"
	"database/sql/driver"
	"strings"
	"sync"

	"example.org/smartdrive/internal/engine/sqldb"
)

// Call is a kind of call to the database engine.
type Call string

// The kinds of calls. A statement of a transaction is Exec or Query, prepared or not.
const (
	Begin     Call = "begin" // BEGIN IMMEDIATE
	Commit    Call = "commit"
	Rollback  Call = "rollback"  // ROLLBACK of the whole transaction
	Savepoint Call = "savepoint" // SAVEPOINT, RELEASE and ROLLBACK TO of one job
	Exec      Call = "exec"
	Query     Call = "query"
	Prepare   Call = "prepare"
)

// callOf returns the kind of the call that runs a statement; otherwise is the kind of ordinary
// statements.
func callOf(query string, otherwise Call) Call {
	word, rest, _ := strings.Cut(strings.TrimSpace(query), " ")
	switch strings.ToUpper(word) {
	case "BEGIN":
		return Begin
	case "COMMIT":
		return Commit
	case "ROLLBACK":
		if rest == "" {
			return Rollback
		}
		return Savepoint
	case "SAVEPOINT", "RELEASE":
		return Savepoint
	}
	return otherwise
}

// Counter counts calls to the database engine. Set its Connector in sqldb.Options. The zero value
// is ready; it is safe for concurrent use.
type Counter struct {
	mu     sync.Mutex
	counts map[Call]int
}

// Connector returns a connector whose calls are counted, for sqldb.Options. It fails if the data
// source name is malformed.
func (c *Counter) Connector(dsn string) (driver.Connector, error) {
	return Connect(dsn, func(call Call, do func() error) error {
		c.add(call)
		return do()
	})
}

// add counts one call.
func (c *Counter) add(call Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[Call]int{}
	}
	c.counts[call]++
}

// Count returns the number of calls of a kind.
func (c *Counter) Count(call Call) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[call]
}

// Total returns the number of all calls.
func (c *Counter) Total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.counts {
		n += k
	}
	return n
}

// around intercepts a call: it calls do to make the call, or returns an error instead.
type around = func(call Call, do func() error) error

// Reads reports whether a data source is that of the read connections.
func Reads(dsn string) bool {
	return strings.Contains(dsn, "query_only") || strings.Contains(dsn, "_read_only=")
}

// Unsynced returns the data source without syncs, for tests without power loss. It also removes the
// VFS for Linux, which depends on syncs (gather_linux.go of sqldb).
func Unsynced(dsn string) string {
	return strings.NewReplacer("synchronous(FULL)", "synchronous(OFF)", "vfs=smartdrive-datasync", "vfs=unix").Replace(dsn)
}

// Connect opens a data source and passes every call through f, which may call do or return an error
// instead.
func Connect(dsn string, f func(call Call, do func() error) error) (driver.Connector, error) {
	real, err := sqldb.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return wrap(real, dsn, f), nil
}

// wrap returns a connector for real with calls through f.
func wrap(real driver.Connector, dsn string, f around) connector {
	return connector{real, f, dialectOf(dsn)}
}

// connector opens connections with intercepted calls.
type connector struct {
	driver.Connector
	around  around // called around each call
	dialect string // of recorded statements
}

// Connect opens a connection whose calls go through c.around.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{conn, c.around, c.dialect}, nil
}

// connection passes all calls through around. It implements the optional interfaces of the engine's
// connection explicitly, because database/sql detects them by type.
type connection struct {
	driver.Conn
	around  around
	dialect string
}

// BeginTx begins a transaction through c.around, which may fail it before or after.
func (c *connection) BeginTx(ctx context.Context, opts driver.TxOptions) (tx driver.Tx, err error) {
	err = c.around(Begin, func() (err error) {
		tx, err = c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
		return err
	})
	return tx, err
}

// ExecContext records a statement and executes it through c.around, which may fail it before or
// after.
func (c *connection) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	record().sample(c.dialect, query, args)
	err = c.around(callOf(query, Exec), func() (err error) {
		res, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
		return err
	})
	return res, err
}

// QueryContext records a query and runs it through c.around; if that fails the rows are closed.
func (c *connection) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	record().sample(c.dialect, query, args)
	return queried(c.around, func() (driver.Rows, error) {
		return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
	})
}

// PrepareContext prepares a statement through c.around. The calls of the result go through it too.
func (c *connection) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	var stmt driver.Stmt
	err := c.around(Prepare, func() (err error) {
		stmt, err = c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &statement{stmt, query, c.around, c.dialect}, nil
}

// ResetSession resets the wrapped connection.
func (c *connection) ResetSession(ctx context.Context) error {
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

// IsValid reports whether the wrapped connection can be reused.
func (c *connection) IsValid() bool { return c.Conn.(driver.Validator).IsValid() }

// Close rolls back a transaction that faults left open, as the end of a process would.
func (c *connection) Close() error {
	_, _ = c.Conn.(driver.ExecerContext).ExecContext(context.Background(), "ROLLBACK", nil)
	return c.Conn.Close()
}

// Ping pings the wrapped connection.
func (c *connection) Ping(ctx context.Context) error { return c.Conn.(driver.Pinger).Ping(ctx) }

// statement is a prepared statement with intercepted calls.
type statement struct {
	driver.Stmt
	query   string // its text
	around  around // called around each call
	dialect string
}

// ExecContext records and executes the prepared statement through s.around.
func (s *statement) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	record().sample(s.dialect, s.query, args)
	err = s.around(callOf(s.query, Exec), func() (err error) {
		res, err = s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
	return res, err
}

// QueryContext records and runs the prepared query through s.around; if that fails the rows are
// closed.
func (s *statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	record().sample(s.dialect, s.query, args)
	return queried(s.around, func() (driver.Rows, error) { return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}

// queried runs a query through f. If f reports an error although the query succeeded, as for a lost
// reply, it closes the rows and returns nil rows.
func queried(f around, do func() (driver.Rows, error)) (driver.Rows, error) {
	var rows driver.Rows
	err := f(Query, func() (err error) {
		rows, err = do()
		return err
	})
	if err != nil && rows != nil {
		_ = rows.Close()
		rows = nil
	}
	return rows, err
}
