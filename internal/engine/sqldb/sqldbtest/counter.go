package sqldbtest

import (
	"context"
	"database/sql/driver"
	"strings"
	"sync"

	"smartdrive/internal/engine/sqldb"
)

// Call is a kind of call that reaches the engine.
type Call string

// The kinds of calls. A statement of a transaction is Exec or Query, whether it was prepared or
// not.
const (
	Begin     Call = "begin" // BEGIN IMMEDIATE
	Commit    Call = "commit"
	Rollback  Call = "rollback"  // of the whole transaction
	Savepoint Call = "savepoint" // SAVEPOINT, RELEASE, ROLLBACK TO: one job of a group
	Exec      Call = "exec"
	Query     Call = "query"
	Prepare   Call = "prepare"
)

// callOf names the call that runs a statement.
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

// Counter counts the calls that reach the engine. The zero value counts; give its Connector to
// sqldb.Options. It is safe for concurrent use.
type Counter struct {
	mu     sync.Mutex
	counts map[Call]int
}

// Connector opens a data source whose calls are counted.
func (c *Counter) Connector(dsn string) (driver.Connector, error) {
	return Connect(dsn, func(call Call, do func() error) error {
		c.add(call)
		return do()
	})
}

func (c *Counter) add(call Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[Call]int{}
	}
	c.counts[call]++
}

// Count returns how many calls of a kind there were.
func (c *Counter) Count(call Call) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[call]
}

// Total returns how many calls there were in all.
func (c *Counter) Total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.counts {
		n += k
	}
	return n
}

// around runs a call, or does something else instead.
type around = func(call Call, do func() error) error

// Reads reports whether a data source is that of the readers beside the transactions.
func Reads(dsn string) bool {
	return strings.Contains(dsn, "query_only") || strings.Contains(dsn, "_read_only=")
}

// Unsynced is a data source whose commits wait for no disk: for tests in which no power is lost. On
// Linux what writes has a file system of its own, which counts on syncs (gather_linux.go of sqldb).
func Unsynced(dsn string) string {
	return strings.NewReplacer("synchronous(FULL)", "synchronous(OFF)", "vfs=smartdrive-datasync", "vfs=unix").Replace(dsn)
}

// Connect opens a data source of which every call goes through f.
func Connect(dsn string, f func(call Call, do func() error) error) (driver.Connector, error) {
	real, err := sqldb.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return wrap(real, dsn, f), nil
}

func wrap(real driver.Connector, dsn string, f around) connector {
	return connector{real, f, dialectOf(dsn)}
}

type connector struct {
	driver.Connector
	around  around
	dialect string
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{conn, c.around, c.dialect}, nil
}

// connection passes everything on, through around. It needs the powers that the engine's connection
// has; database/sql finds them by their methods, so they are spelt out.
type connection struct {
	driver.Conn
	around  around
	dialect string
}

func (c *connection) BeginTx(ctx context.Context, opts driver.TxOptions) (tx driver.Tx, err error) {
	err = c.around(Begin, func() (err error) {
		tx, err = c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
		return err
	})
	return tx, err
}

func (c *connection) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	record().note(c.dialect, query, args)
	err = c.around(callOf(query, Exec), func() (err error) {
		res, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
		return err
	})
	return res, err
}

func (c *connection) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	record().note(c.dialect, query, args)
	return queried(c.around, func() (driver.Rows, error) {
		return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
	})
}

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

func (c *connection) ResetSession(ctx context.Context) error {
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

func (c *connection) IsValid() bool { return c.Conn.(driver.Validator).IsValid() }

// Close ends a transaction that faults have left open, as the end of a process would.
func (c *connection) Close() error {
	_, _ = c.Conn.(driver.ExecerContext).ExecContext(context.Background(), "ROLLBACK", nil)
	return c.Conn.Close()
}

func (c *connection) Ping(ctx context.Context) error { return c.Conn.(driver.Pinger).Ping(ctx) }

type statement struct {
	driver.Stmt
	query   string
	around  around
	dialect string
}

func (s *statement) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	record().note(s.dialect, s.query, args)
	err = s.around(callOf(s.query, Exec), func() (err error) {
		res, err = s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
	return res, err
}

func (s *statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	record().note(s.dialect, s.query, args)
	return queried(s.around, func() (driver.Rows, error) { return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}

// queried closes the rows of a query whose answer is lost.
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
