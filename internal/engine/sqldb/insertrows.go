package sqldb

import (
	"cmp"
	"context"
	"math/bits"
	"strings"
)

// Inserting many rows by few statements saves round trips on MySQL, and binding and stepping on
// SQLite. SQLite caches prepared statements (maxStatements), so the number of rows per statement
// takes few different values.

const (
	maxRows     = 64 // rows per statement
	maxRowsLite = 32 // the same on SQLite: the greatest power of two that is prepared
)

// InsertRows inserts rows with the same columns by as few statements as the database allows; no
// rows are no error. head is the statement before VALUES: "INSERT INTO t (a, b)". After an error,
// such as a duplicate key, the rows of earlier statements remain: the caller must abort the
// transaction or call InsertRows in Try.
func (tx *Tx) InsertRows(ctx context.Context, head string, rows [][]any) error {
	for len(rows) > 0 {
		n := min(len(rows), maxRows)
		if tx.dialect == SQLite {
			n = min(1<<(bits.Len(uint(len(rows)))-1), maxRowsLite)
		}
		args := make([]any, 0, n*len(rows[0]))
		for _, row := range rows[:n] {
			args = append(args, row...)
		}
		one := "(" + Placeholders(len(rows[0])) + ")"
		if _, err := tx.Exec(ctx, head+" VALUES "+one+strings.Repeat(", "+one, n-1), args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// ListArgs returns placeholders and arguments for a list of at least one value. Values are repeated
// to a power of two, so that there are few different statement texts.
func ListArgs[T any](values []T) (marks string, args []any) {
	n := 1 << bits.Len(uint(len(values)-1))
	args = make([]any, n)
	for i := range args {
		args[i] = values[min(i, len(values)-1)]
	}
	return Placeholders(n), args
}

// Try runs fn in a savepoint. If fn returns an error or panics, its writes are rolled back and the
// transaction continues; failed is that error or the panic. A non-nil err means that the whole
// transaction must end, because fn returned Rerun, the database reported a deadlock, the connection
// broke or ctx ended; the caller must return err. Try must not be nested.
func (tx *Tx) Try(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) (failed, err error) {
	if _, err := tx.Exec(ctx, "SAVEPOINT attempt"); err != nil {
		return nil, err
	}
	after, late, actor, deferred := len(tx.afterCommit), len(tx.late), tx.actor, tx.deferred
	failed = call(ctx, tx, fn)
	if isConflict(failed) || breaksTransaction(failed) || tx.broken != nil {
		return nil, cmp.Or(tx.broken, failed)
	}
	if failed != nil {
		tx.afterCommit, tx.late, tx.actor, tx.deferred = tx.afterCommit[:after], tx.late[:late], actor, deferred
		if _, err := tx.Exec(ctx, "ROLLBACK TO attempt"); err != nil {
			return nil, err
		}
	}
	_, err = tx.Exec(ctx, "RELEASE SAVEPOINT attempt")
	return unwritten(failed), err
}

// IsContended reports whether a Write failed after repeated conflicts. A smaller transaction may
// succeed.
func IsContended(err error) bool { return isConflict(err) }
