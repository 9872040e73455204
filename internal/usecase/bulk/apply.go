package bulk

import (
	"context"
	"errors"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/files"
)

// batch is one transaction that works on consecutive items of a piece. It lives as long as the
// transaction.
type batch struct {
	b      *Bulk
	tx     *sqldb.Tx
	row    row
	inside *files.TxBatch
	before map[drive.NodeID]tree.Node   // nodes of the piece as they were before this batch changed them
	below  map[drive.NodeID]tree.Extent // subtree extents of folders to be moved or copied
}

// apply executes one item. It returns the item's new record, and the child operation that does the
// rest, if any (zero: none). If it fails it may have written something; the caller must roll back.
func (t *batch) apply(ctx context.Context, id drive.NodeID, e entry) (entry, drive.OperationID, error) {
	none := drive.OperationID{}
	var err error
	switch t.row.kind {
	case Trash:
		e, err = t.trash(ctx, id, e)
	case Restore:
		e, err = t.restore(ctx, id, e)
	case Move:
		e, err = t.move(ctx, id, e)
	case Copy:
		made, child, err := t.inside.Copy(ctx, id, files.Copy{Parent: t.row.parent, Conflict: t.row.conflict}, t.below[id])
		e.Outcome, e.Made = changed, made
		return e, child, err
	case Delete:
		var expect tree.Expect
		if e.Want != nil {
			expect.Trashed = e.Want.Trashed
		}
		child, did, err := t.inside.Delete(ctx, id, expect)
		if drive.IsKind(err, drive.Precondition) {
			err = errChanged()
		}
		e.Outcome = outcomeOf(did)
		return e, child, err
	case Unshare:
		err = t.b.opt.Shares.Remove(ctx, t.tx, t.row.account, drive.ShareID(id))
		e.Outcome = outcomeOf(err == nil)
		if drive.IsKind(err, drive.NotFound) { // ended before
			err = nil
		}
	case Subtree:
		err = drive.Fail(drive.Internal)
	}
	return e, none, err
}

// outcomeOf returns changed if did, else unchanged.
func outcomeOf(did bool) outcome {
	if did {
		return changed
	}
	return unchanged
}

// errChanged returns the VersionChanged error for an item that was changed after the operation
// being undone, or after the request to delete it.
func errChanged() error { return drive.Fail(drive.VersionChanged) }

// trash moves node id to the trash within the transaction of the batch. It returns e with the time
// of trashing; its outcome is unchanged if the node was in the trash already.
func (t *batch) trash(ctx context.Context, id drive.NodeID, e entry) (entry, error) {
	n, err := t.b.opt.Tree.Trash(ctx, t.tx, t.row.account, id, 0)
	e.Outcome, e.Trashed = outcomeOf(n.Rev != t.before[id].Rev), n.Trashed
	return e, err
}

// restore restores a node from the trash. In an undo, a node that is out of the trash counts as
// unchanged. A node that was trashed again since the undone operation fails with errChanged.
func (t *batch) restore(ctx context.Context, id drive.NodeID, e entry) (entry, error) {
	was := t.before[id]
	if e.Want != nil && was.Trashed != 0 && was.Trashed != e.Want.Trashed {
		return e, errChanged()
	}
	if e.Want != nil && was.Trashed == 0 { // it is live, or inside a folder trashed since
		e.Outcome = unchanged
		_, err := t.b.opt.Tree.Find(ctx, t.tx, t.row.account, id)
		return e, err
	}
	r := tree.Restore{Parent: t.row.parent, Conflict: t.row.conflict, Extent: t.below[id]}
	n, err := t.b.opt.Tree.Restore(ctx, t.tx, t.row.account, id, r)
	e.Outcome = outcomeOf(n.Rev != was.Rev)
	return e, err
}

// move moves a node to the operation's folder within the transaction of the batch, and returns e
// with where the node was and what it replaced, for an undo. With e.Want set it moves the node back
// instead.
func (t *batch) move(ctx context.Context, id drive.NodeID, e entry) (entry, error) {
	if e.Want != nil {
		return t.undoMove(ctx, id, e)
	}
	was := t.before[id]
	if t.row.conflict == drive.ConflictReplace {
		there, taken, err := t.b.opt.Tree.Child(ctx, t.tx, t.row.account, t.row.parent, was.Name)
		if err != nil {
			return e, err
		}
		if taken && there.ID != id {
			e.Replaced = there.ID
		}
	}
	n, err := t.b.opt.Tree.Edit(ctx, t.tx, t.row.account, id, tree.Edit{Parent: t.row.parent, Conflict: t.row.conflict, Extent: t.below[id]})
	if err == nil {
		err = t.b.opt.Files.InvalidateRights(ctx, t.tx, n)
	}
	e.Outcome, e.Parent, e.Name = outcomeOf(n.Rev != was.Rev), was.Parent, was.Name
	if e.Became = ""; n.Name != was.Name {
		e.Became = n.Name
	}
	return e, err
}

// undoMove undoes a move: it returns a node to its earlier place, and restores the node that the
// move had replaced there.
func (t *batch) undoMove(ctx context.Context, id drive.NodeID, e entry) (entry, error) {
	was, w := t.before[id], e.Want
	if was.Parent == w.Parent && was.Name == w.Name && was.Trashed == 0 {
		e.Outcome = unchanged
		return e, nil
	}
	if !was.ID.IsZero() && (was.Parent != w.From || was.Name != w.As || was.Trashed != 0) {
		return e, errChanged()
	}
	to := tree.Edit{Parent: w.Parent, Name: w.Name, Conflict: drive.ConflictRename, Extent: t.below[id]}
	n, err := t.b.opt.Tree.Edit(ctx, t.tx, t.row.account, id, to)
	if err == nil {
		err = t.b.opt.Files.InvalidateRights(ctx, t.tx, n)
	}
	if err != nil {
		return e, err
	}
	e.Outcome, e.Parent, e.Name = outcomeOf(n.Rev != was.Rev), was.Parent, was.Name
	if e.Became = ""; n.Name != was.Name {
		e.Became = n.Name
	}
	if w.Back.IsZero() {
		return e, nil
	}
	if err := t.restoreReplaced(ctx, w); permanent(err) {
		return e, nil // deleted for good or without a place; the moved node itself is back
	} else if err != nil {
		return e, err
	}
	return e, nil
}

// restoreReplaced restores from the trash the node w.Back that a move had replaced, into the folder
// w.From, under another name if its name is taken. It does nothing if the node is not in the trash.
func (t *batch) restoreReplaced(ctx context.Context, w *condition) error {
	there, err := t.b.opt.Tree.Find(ctx, t.tx, t.row.account, w.Back)
	if err != nil || there.Trashed == 0 {
		return err
	}
	back, err := t.b.opt.Tree.Restore(ctx, t.tx, t.row.account, w.Back, tree.Restore{Parent: w.From, Conflict: drive.ConflictRename})
	if err == nil {
		t.before[w.Back] = back // it may be an item of this piece too, which must then be moved back
	}
	return err
}

// permanent reports whether err is a permanent refusal of the item, so that a repeat would fail
// again.
func permanent(err error) bool {
	return drive.IsKind(err, drive.BadRequest, drive.BadName, drive.NotFound, drive.NameTaken, drive.ParentGone, drive.WrongState,
		drive.VersionChanged, drive.Locked, drive.Cycle, drive.Gone, drive.Precondition, drive.TooLarge, drive.Quota, drive.TooManyOpen)
}

// dailyLimit reports whether err says that the account has used up its daily changes. An item hits
// that limit halfway, when the node in its way is already trashed, so the transaction must be
// rolled back.
func dailyLimit(err error) bool {
	e, ok := errors.AsType[*drive.Error](err)
	return ok && e.Kind == drive.TooLarge && e.Args["reason"] == "changes"
}

// transient reports whether err is about the server's state or ctx, not about an item: the batch
// must be repeated later instead of refusing the item.
func transient(ctx context.Context, err error) bool {
	return ctx.Err() != nil || drive.IsKind(err, drive.Unavailable, drive.Stopping, drive.DiskFull, drive.Rate, drive.InProgress, drive.TooSlow)
}
