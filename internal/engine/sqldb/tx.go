package sqldb

import (
	"context"
	"database/sql"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
)

// Tx is a write transaction. Only the function passed to Write may use it, in one goroutine, until
// the function returns.
type Tx struct {
	dialect     Dialect
	conn        *sql.Conn
	stmts       map[string]*sql.Stmt // SQLite only; on MySQL the driver interpolates arguments, which saves a round trip
	afterCommit []func()             // called after the commit, in order
	late        []lateRow            // inserted at the end
	deferred    []deferredItem       // work for the end
	actor       drive.Who
	broken      error // MySQL: the first error that may have ended the transaction on the server
}

// AfterCommit registers fn to run after a successful commit and before Write returns, in the order
// of registration. fn must not block.
func (tx *Tx) AfterCommit(fn func()) { tx.afterCommit = append(tx.afterCommit, fn) }

// lateRow is a row that Tx.InsertLate has queued, to be inserted at the end of the transaction.
type lateRow struct {
	head string // the beginning of the statement, up to VALUES; rows with the same head share one
	row  []any  // values of the row
}

// InsertLate inserts a row at the end of the transaction. Rows with the same head share a statement
// (see InsertRows). A failed transaction, or a failed Try around the call, inserts nothing.
func (tx *Tx) InsertLate(head string, row []any) { tx.late = append(tx.late, lateRow{head, row}) }

// SetActor sets the actor that the activity log records for the following changes. It grants no
// rights.
func (tx *Tx) SetActor(who drive.Who) { tx.actor = who }

// Actor returns the actor of the last SetActor. Zero: the program itself.
func (tx *Tx) Actor() drive.Who { return tx.actor }

// finish runs the work deferred to the end of the transaction, which may defer more, and then
// inserts the late rows, one statement per table. It stops at the first error; the caller must then
// roll back.
func (tx *Tx) finish(ctx context.Context) error {
	for len(tx.deferred) > 0 {
		if err := tx.deferred[0].by.Flush(ctx, tx); err != nil {
			return err
		}
	}
	for len(tx.late) > 0 {
		head := tx.late[0].head
		var rows [][]any
		var others []lateRow
		for _, l := range tx.late {
			if l.head == head {
				rows = append(rows, l.row)
			} else {
				others = append(others, l)
			}
		}
		if err := tx.InsertRows(ctx, head, rows); err != nil {
			return fmt.Errorf("insert %d late rows: %w", len(rows), err)
		}
		tx.late = others
	}
	return nil
}

// Exec executes a statement and returns the number of changed rows; for an UPDATE, the number of
// matched rows. Errors are classified. On MySQL an error may end the transaction, and every later
// call then returns it.
func (tx *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := tx.exec(ctx, query, args)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return n, classify(err)
}

// exec executes a statement and returns a classified error. On MySQL an error may end the whole
// transaction (keepFatal); every later call then returns that error without executing anything. On
// SQLite the statement is prepared and cached.
func (tx *Tx) exec(ctx context.Context, query string, args []any) (sql.Result, error) {
	if tx.dialect == MySQL {
		if tx.broken != nil {
			return nil, tx.broken
		}
		res, err := tx.conn.ExecContext(ctx, query, args...)
		return res, tx.keepFatal(classify(err))
	}
	stmt, err := tx.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	res, err := stmt.ExecContext(ctx, args...)
	return res, classify(err)
}

// Insert executes an INSERT of one row into a table with automatic ids and returns the id of the
// row; 0 with an error. A duplicate key is an error (IsDuplicate).
func (tx *Tx) Insert(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := tx.exec(ctx, query, args)
	if err != nil {
		return 0, err
	}
	id, err := res.LastInsertId()
	return id, classify(err)
}

// InsertNew executes an INSERT and reports whether the row is new; a duplicate key is not an error.
// (INSERT IGNORE would hide other errors, and an upsert does not say whether the row is new.) On
// MySQL it waits for a concurrent transaction with the same key. An existing row is then locked for
// reading; to change it, restart the transaction with Rerun.
func (tx *Tx) InsertNew(ctx context.Context, query string, args ...any) (bool, error) {
	_, err := tx.exec(ctx, query, args)
	if IsDuplicate(err) {
		return false, nil
	}
	return err == nil, err
}

// Query runs a query inside the transaction, which sees its own writes. The caller must close the
// rows before the next statement; Scan of this package does. On MySQL an error may end the
// transaction.
func (tx *Tx) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if tx.dialect == MySQL {
		if tx.broken != nil {
			return nil, tx.broken
		}
		rows, err := tx.conn.QueryContext(ctx, query, args...)
		return rows, tx.keepFatal(classify(err))
	}
	stmt, err := tx.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	return rows, classify(err)
}

// QueryRow reads one row inside the transaction. It returns no error itself: Row.Scan returns it,
// and NotFound if there is no row.
func (tx *Tx) QueryRow(ctx context.Context, query string, args ...any) *Row {
	if tx.dialect == MySQL {
		if tx.broken != nil {
			return &Row{err: tx.broken}
		}
		return &Row{row: tx.conn.QueryRowContext(ctx, query, args...), tx: tx}
	}
	stmt, err := tx.prepare(ctx, query)
	if err != nil {
		// The row reports the error of the engine again.
		return &Row{row: tx.conn.QueryRowContext(ctx, query, args...)}
	}
	return &Row{row: stmt.QueryRowContext(ctx, args...)}
}

// maxStatements bounds the statement cache. The project has some hundred statements; lists with a
// varying number of placeholders add more.
const maxStatements = 512

// prepare returns the cached prepared statement of a query, or prepares and caches it. A full cache
// is emptied first, which closes its statements. The caller must not close the statement.
func (tx *Tx) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt, ok := tx.stmts[query]; ok {
		return stmt, nil
	}
	if len(tx.stmts) >= maxStatements {
		for q, stmt := range tx.stmts {
			delete(tx.stmts, q)
			if err := stmt.Close(); err != nil {
				return nil, fmt.Errorf("close a statement: %w", err)
			}
		}
	}
	stmt, err := tx.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, classify(err)
	}
	tx.stmts[query] = stmt
	return stmt, nil
}

// keepFatal records the first error that ends the transaction on the server and returns err. A
// function that ignores the error then cannot commit the rest.
func (tx *Tx) keepFatal(err error) error {
	if tx.broken == nil && tx.dialect == MySQL && breaksTransaction(err) {
		tx.broken = err
	}
	return err
}
