package bulk

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// row is a row of bulks.
type row struct {
	id       drive.OperationID
	account  drive.AccountID
	user     drive.UserID
	kind     Kind
	parent   drive.NodeID
	conflict drive.Conflict
	source   drive.OperationID
	filled   int64 // pieces of source that are still to be taken over
	undoneBy drive.OperationID
	state    State
	stopping bool
	place    place
	child    drive.OperationID
	done     int64
	failed   int64
	total    int64
	created  drive.Time
	updated  drive.Time
}

// place is where an operation is: before this item of this piece.
type place struct{ piece, item int64 }

func (r row) who() drive.Who { return drive.Who{Account: r.account, User: r.user} }

// undoable reports whether an undo would do something, as far as the row tells.
func (r row) undoable() bool {
	return r.undoneBy.IsZero() && r.kind.inverse() != "" && (r.state == Running || r.done > r.failed)
}

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

const selectRows = `SELECT id, account_id, user_id, kind, parent_id, conflict, source_id, filled, undone_by, state, stopping,
	piece, item, child_id, done, failed, total, created_at, updated_at FROM bulks `

func scanRow(r *row, scan func(...any) error) error {
	return scan(&r.id, &r.account, &r.user, &r.kind, &r.parent, &r.conflict, &r.source, &r.filled, &r.undoneBy, &r.state, &r.stopping,
		&r.place.piece, &r.place.item, &r.child, &r.done, &r.failed, &r.total, &r.created, &r.updated)
}

func (b *Bulk) find(ctx context.Context, q sqldb.Querier, id drive.OperationID) (r row, err error) {
	err = scanRow(&r, q.QueryRow(ctx, selectRows+"WHERE id = ?", id).Scan)
	return r, err
}

// own is find for an operation of the account; another one's is NotFound.
func (b *Bulk) own(ctx context.Context, q sqldb.Querier, account drive.AccountID, id drive.OperationID) (row, error) {
	r, err := b.find(ctx, q, id)
	if err == nil && r.account != account {
		err = drive.Fail(drive.NotFound)
	}
	return r, err
}

func (b *Bulk) insert(ctx context.Context, tx *sqldb.Tx, r row) error {
	_, err := tx.Exec(ctx, `INSERT INTO bulks (id, account_id, user_id, kind, parent_id, conflict, source_id, filled, undone_by, state, stopping,
		piece, item, child_id, done, failed, total, created_at, updated_at) VALUES (`+sqldb.Marks(19)+")",
		r.id, r.account, r.user.String(), r.kind, r.parent, string(r.conflict), r.source, r.filled, r.undoneBy, r.state, r.stopping,
		r.place.piece, r.place.item, r.child, r.done, r.failed, r.total, r.created, r.updated)
	if err != nil {
		return fmt.Errorf("insert operation %v: %w", r.id, err)
	}
	return nil
}

// save writes what of a row can change, if the operation is where it was read to be.
func (b *Bulk) save(ctx context.Context, tx *sqldb.Tx, was, r row) error {
	r.updated = max(b.now(), r.updated+1) // so that a write that changes nothing else is told from one that finds no row
	n, err := tx.Exec(ctx, `UPDATE bulks SET filled = ?, undone_by = ?, state = ?, stopping = ?, piece = ?, item = ?, child_id = ?,
		done = ?, failed = ?, total = ?, updated_at = ? WHERE id = ? AND state = ? AND piece = ? AND item = ? AND filled = ?`,
		r.filled, r.undoneBy, r.state, r.stopping, r.place.piece, r.place.item, r.child,
		r.done, r.failed, r.total, r.updated, r.id, was.state, was.place.piece, was.place.item, was.filled)
	if err == nil && n != 1 {
		err = sqldb.Again(fmt.Errorf("operation %v is not where it was", r.id))
	}
	if err != nil {
		return fmt.Errorf("save operation %v: %w", r.id, err)
	}
	return nil
}
