package sqldb

import (
	"context"
	"database/sql"

	"smartdrive/internal/base/drive"
)

// Router stands between a DB that everybody holds and the two databases of an installation that
// moves from one to the other (internal/move/migrate). It decides at each call; the transactions
// that it begins are those of one of the two.
type Router interface {
	// Write runs fn in a transaction of the database that is the truth now, as DB.Write says.
	Write(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error
	// Primary is the database that is the truth, as far as this process knows: for the dialect and
	// the clock.
	Primary() *DB
	// Reader says where a read outside transactions goes, and where it is asked again if that
	// fails; again is nil where there is nobody else to ask. Both are databases without a router.
	// account is whose rows are read; zero: not said, which may be anybody's.
	Reader(ctx context.Context, account drive.AccountID) (from, again *DB, err error)
	// Read is told of a read that was answered, or (err) was not and was asked again elsewhere. It
	// must not block.
	Read(ctx context.Context, from *DB, query string, args []any, err error)
}

// Route makes everything that db is asked from now on go through r; nil: to the database itself
// again.
func (db *DB) Route(r Router) {
	if r == nil {
		db.router.Store(nil)
		return
	}
	db.router.Store(&r)
}

// Direct is the database itself, past any router. It is closed with db.
func (db *DB) Direct() *DB { return &DB{engine: db.engine} }

func (db *DB) routed() Router {
	if r := db.router.Load(); r != nil {
		return *r
	}
	return nil
}

// For reads as db does, and says that what is read is of an account. While the installation moves,
// a router may answer from the side that is new for that account already. Nothing is read for
// another account through it, and nothing that decides what is deleted.
func (db *DB) For(account drive.AccountID) Querier {
	if db.routed() == nil {
		return db
	}
	return accountReads{DB: db, account: account}
}

// accountReads are the reads of one account.
type accountReads struct {
	*DB
	account drive.AccountID
}

func (r accountReads) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return r.read(ctx, r.account, query, args)
}

func (r accountReads) QueryRow(ctx context.Context, query string, args ...any) *Row {
	return r.readRow(ctx, r.account, query, args)
}

// read is Query, of an account's rows.
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
		r.Read(ctx, from, query, args, err)
		return again.query(ctx, query, args)
	}
	if err == nil {
		r.Read(ctx, from, query, args, nil)
	}
	return rows, err
}

// readRow is QueryRow, of an account's rows.
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
	if err := row.row.Err(); err != nil && again != nil { // that there is no row comes with Scan, and is an answer
		r.Read(ctx, from, query, args, err)
		return again.queryRow(ctx, query, args)
	}
	r.Read(ctx, from, query, args, nil)
	return row
}
