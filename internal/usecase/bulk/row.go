package bulk

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// row is an operation as stored in the database, table bulks.
type row struct {
	id       drive.OperationID
	account  drive.AccountID
	user     drive.UserID
	kind     Kind
	parent   drive.NodeID
	conflict drive.Conflict
	source   drive.OperationID
	filled   int64 // undo: pieces of source below this number are still to be copied
	undoneBy drive.OperationID
	state    State
	stopping bool // to be cancelled once its child has ended
	position position
	child    drive.OperationID
	done     int64 // items processed, failed ones too
	failed   int64 // items refused
	total    int64
	created  drive.Time
	updated  drive.Time
}

// position is the next item to process: the number of its piece, and its index in the piece.
type position struct{ piece, item int64 }

// who returns the account and user that the operation acts for.
func (r row) who() drive.Who { return drive.Who{Account: r.account, User: r.user} }

// undoable reports whether an undo would do anything, as far as the row tells: it was not undone,
// its kind has an inverse, and an item may have been changed.
func (r row) undoable() bool {
	return r.undoneBy.IsZero() && r.kind.inverse() != "" && (r.state == Running || r.done > r.failed)
}

// show returns the operation as shown in the API.
func (r row) show() Operation {
	o := Operation{
		ID: r.id, Kind: r.kind, State: r.state, Done: r.done, Failed: r.failed, Total: r.total,
		Undoable: r.undoable(), CreatedAt: r.created, UpdatedAt: r.updated,
	}
	if !r.parent.IsZero() {
		o.Parent = &r.parent
	}
	if !r.source.IsZero() {
		o.Undoes = &r.source
	}
	if !r.undoneBy.IsZero() {
		o.UndoneBy = &r.undoneBy
	}
	return o
}

// selectRows selects the columns of scanRow; a WHERE clause follows.
const selectRows = `SELECT id, account_id, user_id, kind, parent_id, conflict, source_id, filled, undone_by, state, stopping,
	piece, item, child_id, done, failed, total, created_at, updated_at FROM bulks `

// scanRow reads a row of selectRows into r by calling scan, and returns the error of scan.
func scanRow(r *row, scan func(...any) error) error {
	return scan(&r.id, &r.account, &r.user, &r.kind, &r.parent, &r.conflict, &r.source, &r.filled, &r.undoneBy, &r.state, &r.stopping,
		&r.position.piece, &r.position.item, &r.child, &r.done, &r.failed, &r.total, &r.created, &r.updated)
}

// find returns an operation of any account, without checking rights. It returns NotFound if there
// is none.
func (b *Bulk) find(ctx context.Context, q sqldb.Querier, id drive.OperationID) (r row, err error) {
	err = scanRow(&r, q.QueryRow(ctx, selectRows+"WHERE id = ?", id).Scan)
	return r, err
}

// own returns an operation of the account. It returns NotFound for one of another account.
func (b *Bulk) own(ctx context.Context, q sqldb.Querier, account drive.AccountID, id drive.OperationID) (row, error) {
	r, err := b.find(ctx, q, id)
	if err == nil && r.account != account {
		err = drive.Fail(drive.NotFound)
	}
	return r, err
}

// insert inserts the row of a new operation within tx. Its items are inserted separately.
func (b *Bulk) insert(ctx context.Context, tx *sqldb.Tx, r row) error {
	_, err := tx.Exec(ctx, `INSERT INTO bulks (id, account_id, user_id, kind, parent_id, conflict, source_id, filled, undone_by, state, stopping,
		piece, item, child_id, done, failed, total, created_at, updated_at) VALUES (`+sqldb.Placeholders(19)+")",
		r.id, r.account, r.user.String(), r.kind, r.parent, string(r.conflict), r.source, r.filled, r.undoneBy, r.state, r.stopping,
		r.position.piece, r.position.item, r.child, r.done, r.failed, r.total, r.created, r.updated)
	if err != nil {
		return fmt.Errorf("insert operation %v: %w", r.id, err)
	}
	return nil
}

// save updates the mutable columns if state, position and filled still equal those of was;
// otherwise it returns an error that makes the transaction run again.
func (b *Bulk) save(ctx context.Context, tx *sqldb.Tx, was, r row) error {
	r.updated = max(b.now(), r.updated+1) // makes even an otherwise unchanged row count as updated
	n, err := tx.Exec(ctx, `UPDATE bulks SET filled = ?, undone_by = ?, state = ?, stopping = ?, piece = ?, item = ?, child_id = ?,
		done = ?, failed = ?, total = ?, updated_at = ? WHERE id = ? AND state = ? AND piece = ? AND item = ? AND filled = ?`,
		r.filled, r.undoneBy, r.state, r.stopping, r.position.piece, r.position.item, r.child,
		r.done, r.failed, r.total, r.updated, r.id, was.state, was.position.piece, was.position.item, was.filled)
	if err == nil && n != 1 {
		err = sqldb.Rerun(fmt.Errorf("operation %v is not where it was", r.id))
	}
	if err != nil {
		return fmt.Errorf("save operation %v: %w", r.id, err)
	}
	return nil
}
