package bulk

import (
	"context"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// inverse returns the kind of the operation that undoes k; "" if k cannot be undone.
func (k Kind) inverse() Kind {
	switch k {
	case Trash:
		return Restore
	case Restore, Copy:
		return Trash
	case Move:
		return Move
	case Delete, Unshare, Subtree:
	}
	return ""
}

// Undo creates the operation that undoes another one, which it stops if it is running. Repeated
// calls return the same operation. hook runs in the same transaction. It fails with NotFound, with
// WrongState if there is nothing to undo, and with TooManyOpen if too many operations of the
// account are unfinished.
func (b *Bulk) Undo(ctx context.Context, who drive.Who, id drive.OperationID, hook Hook) (Operation, error) {
	var r row
	err := b.write(ctx, who, func(ctx context.Context, tx *sqldb.Tx) error {
		of, err := b.own(ctx, tx, who.Account, id)
		if err != nil {
			return err
		}
		if !of.undoneBy.IsZero() {
			if r, err = b.find(ctx, tx, of.undoneBy); !drive.IsKind(err, drive.NotFound) {
				return runHook(ctx, tx, hook, r, err)
			}
		}
		if !of.undoable() {
			return drive.Fail(drive.WrongState, "state", string(of.state))
		}
		if r, err = b.reverse(ctx, tx, who, of); err != nil {
			return err
		}
		was := of
		of.undoneBy = r.id
		if of.state == Running {
			if of.stopping = true; of.child.IsZero() {
				of.state, of.stopping = Cancelled, false
			}
		}
		if err := b.save(ctx, tx, was, of); err != nil {
			return err
		}
		return hook.run(ctx, tx, r.show())
	})
	if err != nil {
		return Operation{}, err
	}
	if r.state == Running {
		b.opt.Start(id) // an operation that has to stop first
	}
	return b.begin(ctx, r)
}

// runHook runs hook for the existing undo r and returns its error. If err is not nil it returns err
// instead.
func runHook(ctx context.Context, tx *sqldb.Tx, hook Hook, r row, err error) error {
	if err != nil {
		return err
	}
	return hook.run(ctx, tx, r.show())
}

// reverse inserts the undo operation. fill creates its pieces later, because the other operation
// may have to stop first.
func (b *Bulk) reverse(ctx context.Context, tx *sqldb.Tx, who drive.Who, of row) (row, error) {
	var last int64
	if err := tx.QueryRow(ctx, "SELECT COALESCE(MAX(n), -1) FROM bulk_items WHERE bulk_id = ?", of.id).Scan(&last); err != nil {
		return row{}, err
	}
	now := b.now()
	r := row{
		id: drive.NewID[drive.OperationID](), account: who.Account, user: who.User, kind: of.kind.inverse(), conflict: drive.ConflictRename,
		source: of.id, filled: last + 1, state: Running, total: of.done - of.failed, created: now, updated: now,
	}
	if err := b.enforceLimits(ctx, tx, r); err != nil {
		return row{}, err
	}
	return r, b.insert(ctx, tx, r)
}

// fillPieces is the number of pieces that one transaction copies.
const fillPieces = 5

// fill copies the changed items of the undone operation into the undo, from its last piece to its
// first, up to fillPieces per call. After the last one it sets filled to zero. If the row was is
// not current any more, it does nothing.
func (b *Bulk) fill(ctx context.Context, was row) error {
	return b.write(ctx, was.who(), func(ctx context.Context, tx *sqldb.Tx) error {
		now, err := b.find(ctx, tx, was.id)
		if err != nil || now.state != Running || now.filled != was.filled {
			return err
		}
		of, err := b.find(ctx, tx, was.source)
		if err != nil {
			return err
		}
		r := now
		rows, err := tx.Query(ctx, selectPieces+"WHERE bulk_id = ? AND n < ? ORDER BY n DESC LIMIT ?", of.id, r.filled, fillPieces)
		pieces, err := sqldb.Scan(rows, err, scanPiece)
		if err != nil {
			return err
		}
		var last int64
		if err := tx.QueryRow(ctx, "SELECT COALESCE(MAX(n), -1) FROM bulk_items WHERE bulk_id = ?", r.id).Scan(&last); err != nil {
			return err
		}
		if last < 0 {
			r.total = 0 // the estimate of Undo included unchanged items
		}
		for _, p := range pieces {
			mirror := of.inversePiece(p)
			if r.filled = p.n; len(mirror.ids) == 0 {
				continue
			}
			last++
			mirror.n = last
			r.total += int64(len(mirror.ids))
			if err := b.insertPiece(ctx, tx, r, mirror); err != nil {
				return fmt.Errorf("insert piece %d: %w", last, err)
			}
		}
		if len(pieces) == 0 {
			r.filled = 0
		}
		return b.save(ctx, tx, now, r)
	})
}

// inversePiece returns the changed items of a piece of r, to be undone, in reverse order: a folder
// that was trashed after a file in it is restored before the file.
func (r row) inversePiece(p piece) (m piece) {
	for i, e := range slices.Backward(p.entries) {
		if e.Outcome != changed {
			continue
		}
		id, w := p.ids[i], (*condition)(nil)
		switch r.kind {
		case Trash:
			w = &condition{Trashed: e.Trashed}
		case Copy:
			id = e.Made
		case Move:
			w = &condition{From: r.parent, As: e.Became, Parent: e.Parent, Name: e.Name, Back: e.Replaced}
			if w.As == "" {
				w.As = e.Name
			}
			if e.Want != nil { // the piece of an undo: each item has its own target
				w.From = e.Want.Parent
			}
		case Restore, Delete, Unshare, Subtree:
		}
		m.ids, m.entries = append(m.ids, id), append(m.entries, entry{Want: w})
	}
	return m
}
