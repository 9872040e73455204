package sqldb

import (
	"context"
	"database/sql"

	"example.org/smartdrive/internal/base/drive"
)

// Router chooses between the two databases of an installation that moves from one to the other
// (internal/move/migrate). It decides on each call.
type Router interface {
	// Write runs fn in a transaction of the current primary database, with the contract of
	// DB.Write.
	Write(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error
	// Primary returns the primary database known to this process, for its dialect and clock.
	Primary() *DB
	// Reader returns the database for a read outside of transactions, and a second one to use if
	// the read fails; again is nil if there is none. Both have no router. account owns the rows;
	// zero means unknown.
	Reader(ctx context.Context, account drive.AccountID) (from, again *DB, err error)
	// OnRead is notified after a read from a database. With a non-nil err the read failed and is
	// repeated on the other database. It must not block.
	OnRead(ctx context.Context, from *DB, query string, args []any, err error)
}

// Route makes r run all further calls of db; nil makes db run them itself again. Calls that have
// begun are not affected.
func (db *DB) Route(r Router) {
	if r == nil {
		db.router.Store(nil)
		return
	}
	db.router.Store(&r)
}

// Direct returns a DB on the same connections whose calls do not go through the router. Closing db
// closes it.
func (db *DB) Direct() *DB { return &DB{engine: db.engine} }

// routed returns the router, or nil.
func (db *DB) routed() Router {
	if r := db.router.Load(); r != nil {
		return *r
	}
	return nil
}

// For returns a Querier for rows of one account. During a move, a router may read them from the new
// database. Do not use it for rows of other accounts, or to decide about deletions.
func (db *DB) For(account drive.AccountID) Querier {
	if db.routed() == nil {
		return db
	}
	return accountReads{DB: db, account: account}
}

// accountReads is the Querier of one account.
type accountReads struct {
	*DB
	account drive.AccountID
}

// Query reads rows of the account from the database that the Router chooses for it. The caller must
// close the rows.
func (r accountReads) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return r.read(ctx, r.account, query, args)
}

// QueryRow reads one row of the account.
func (r accountReads) QueryRow(ctx context.Context, query string, args ...any) *Row {
	return r.readRow(ctx, r.account, query, args)
}

// read reads rows of an account; zero: unknown. With a router, a failed read is repeated on the
// second database.
func (db *DB) read(ctx context.Context, account drive.AccountID, query string, args []any) (*sql.Rows, error) {
	r := db.routed()
	if r == nil {
		return db.query(ctx, query, args)
	}
	from, again, err := r.Reader(ctx, account)
	if err != nil {
		return nil, err
	}
	rows, err := from.query(ctx, query, args)
	if err != nil && again != nil {
		r.OnRead(ctx, from, query, args, err)
		return again.query(ctx, query, args)
	}
	if err == nil {
		r.OnRead(ctx, from, query, args, nil)
	}
	return rows, err
}

// readRow reads one row of an account from the database that the Router chooses, and from the other
// one if that fails. It always returns a Row; an error is returned by its Scan.
func (db *DB) readRow(ctx context.Context, account drive.AccountID, query string, args []any) *Row {
	r := db.routed()
	if r == nil {
		return db.queryRow(ctx, query, args)
	}
	from, again, err := r.Reader(ctx, account)
	if err != nil {
		return &Row{err: err}
	}
	row := from.queryRow(ctx, query, args)
	if err := row.row.Err(); err != nil && again != nil { // no row is a result, which Scan reports
		r.OnRead(ctx, from, query, args, err)
		return again.queryRow(ctx, query, args)
	}
	r.OnRead(ctx, from, query, args, nil)
	return row
}
