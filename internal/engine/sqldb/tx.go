package sqldb

import (
	"context"
	"database/sql"
	"fmt"

	"smartdrive/internal/base/drive"
)

// Tx is a write transaction. It belongs to the function it was given to and must not outlive it or
// be used by two goroutines.
type Tx struct {
	dialect  Dialect
	conn     *sql.Conn
	stmts    map[string]*sql.Stmt // of SQLite's one connection; on MySQL arguments are put into the text, which saves a round trip
	after    []func()
	late     []lateRow
	deferred []deferredItem
	actor    drive.Who
	broken   error // MySQL: the first error that has ended, or may have ended, the transaction in the engine
}

// AfterCommit registers fn to run once the transaction is durable, in the order of registration,
// before Write returns. It does not run when the transaction fails. fn must not block.
func (tx *Tx) AfterCommit(fn func()) { tx.after = append(tx.after, fn) }

// lateRow is a row that is inserted when the transaction's function has returned.
type lateRow struct {
	head string
	row  []any
}

// InsertLate inserts a row at the end of the transaction, together with the others of the same
// head (see InsertRows): many of them cost one statement. A transaction that fails, or the Try that
// it was called in, inserts nothing.
func (tx *Tx) InsertLate(head string, row []any) { tx.late = append(tx.late, lateRow{head, row}) }

// ActFor says who does what the transaction does from here on. It decides nothing; it is what the
// activity log names.
func (tx *Tx) ActFor(who drive.Who) { tx.actor = who }

// Actor is who was given to ActFor last. Zero: the program itself.
func (tx *Tx) Actor() drive.Who { return tx.actor }

// finish handles what was deferred and inserts the late rows, in the order in which they came.
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

// Exec runs a statement and returns the number of rows it changed. For an UPDATE that is the number
// of rows matched.
func (tx *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := tx.exec(ctx, query, args)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return n, classify(err)
}

func (tx *Tx) exec(ctx context.Context, query string, args []any) (sql.Result, error) {
	if tx.dialect == MySQL {
		if tx.broken != nil {
			return nil, tx.broken
		}
		res, err := tx.conn.ExecContext(ctx, query, args...)
		return res, tx.note(classify(err))
	}
	stmt, err := tx.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	res, err := stmt.ExecContext(ctx, args...)
	return res, classify(err)
}

// Insert is Exec for a row with an automatic id, which it returns.
func (tx *Tx) Insert(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := tx.exec(ctx, query, args)
	if err != nil {
		return 0, err
	}
	id, err := res.LastInsertId()
	return id, classify(err)
}

// InsertNew inserts a row unless one is there that has a unique key in common with it, and reports
// whether it did: a plain INSERT whose duplicate key is not an error. (INSERT IGNORE would hide
// other errors, and an upsert does not tell whether the row is new.) On MySQL it waits for a
// transaction that has inserted the same key until that one has ended; a row that is there is
// locked for reading, and whoever goes on to change it does better to start again: see Again.
func (tx *Tx) InsertNew(ctx context.Context, query string, args ...any) (bool, error) {
	_, err := tx.exec(ctx, query, args)
	if IsDuplicate(err) {
		return false, nil
	}
	return err == nil, err
}

// Query reads inside the transaction. The rows must be closed before the next statement.
func (tx *Tx) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if tx.dialect == MySQL {
		if tx.broken != nil {
			return nil, tx.broken
		}
		rows, err := tx.conn.QueryContext(ctx, query, args...)
		return rows, tx.note(classify(err))
	}
	stmt, err := tx.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	return rows, classify(err)
}

// QueryRow reads one row inside the transaction.
func (tx *Tx) QueryRow(ctx context.Context, query string, args ...any) *Row {
	if tx.dialect == MySQL {
		if tx.broken != nil {
			return &Row{err: tx.broken}
		}
		return &Row{row: tx.conn.QueryRowContext(ctx, query, args...), tx: tx}
	}
	stmt, err := tx.prepare(ctx, query)
	if err != nil {
		// Let the engine report the same error through the row.
		return &Row{row: tx.conn.QueryRowContext(ctx, query, args...)}
	}
	return &Row{row: stmt.QueryRowContext(ctx, args...)}
}

// maxStatements bounds the statement cache; the project has about a hundred statements, and lists
// with a varying number of placeholders make a few more.
const maxStatements = 512

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

// note keeps the first error that ends the transaction in the engine, so that a function which
// overlooks it cannot commit what is left.
func (tx *Tx) note(err error) error {
	if tx.broken == nil && tx.dialect == MySQL && breaksTransaction(err) {
		tx.broken = err
	}
	return err
}
