package sqldb

import (
	"cmp"
	"context"
	"math/bits"
	"strings"
)

// Many rows by few statements: on MySQL each statement is a round trip, on SQLite each costs its
// binding and stepping. The texts that differ only by the number of rows are few, since SQLite's
// connection keeps each one prepared: see maxStatements.

const (
	maxRows     = 64 // that one statement inserts
	maxRowsLite = 32 // the same on SQLite: the largest power of two that is prepared
)

// InsertRows inserts rows of the same columns. head is the statement up to its VALUES:
// "INSERT INTO t (a, b)". The error of a duplicate key is that of the statement; rows of earlier
// statements stay, so the caller gives the transaction up, or calls InsertRows within Try.
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
		one := "(" + Marks(len(rows[0])) + ")"
		if _, err := tx.Exec(ctx, head+" VALUES "+one+strings.Repeat(", "+one, n-1), args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// In returns the placeholders of a list of at least one value, and the values: some occur again so
// that their number is a power of two, and the texts of statements stay few.
func In[T any](values []T) (marks string, args []any) {
	n := 1 << bits.Len(uint(len(values)-1))
	args = make([]any, n)
	for i := range args {
		args[i] = values[min(i, len(values)-1)]
	}
	return Marks(n), args
}

// Try runs fn in a savepoint. If fn fails, or panics, what it has written is undone, failed is its
// error, with ErrUnwritten where that says something, and the transaction goes on. err is why the
// transaction cannot go on: the caller returns it. That is so when the engine has ended the
// transaction, and for Again. A Try must not run within another.
func (tx *Tx) Try(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) (failed, err error) {
	if _, err := tx.Exec(ctx, "SAVEPOINT attempt"); err != nil {
		return nil, err
	}
	after, late, actor, deferred := len(tx.after), len(tx.late), tx.actor, tx.deferred
	failed = call(ctx, tx, fn)
	if worthRerun(failed) || breaksTransaction(failed) || tx.broken != nil {
		return nil, cmp.Or(tx.broken, failed)
	}
	if failed != nil {
		tx.after, tx.late, tx.actor, tx.deferred = tx.after[:after], tx.late[:late], actor, deferred
		if _, err := tx.Exec(ctx, "ROLLBACK TO attempt"); err != nil {
			return nil, err
		}
	}
	_, err = tx.Exec(ctx, "RELEASE SAVEPOINT attempt")
	return unwritten(failed), err
}

// IsContended reports whether a Write was given up because others were first again and again: one
// that does less at a time may get through.
func IsContended(err error) bool { return worthRerun(err) }
