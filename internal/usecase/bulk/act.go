package bulk

import (
	"context"
	"errors"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/files"
)

// batch is one transaction's work on a piece.
type batch struct {
	b      *Bulk
	tx     *sqldb.Tx
	row    row
	inside *files.Inside
	before map[drive.NodeID]tree.Node   // the nodes of the piece as they were before their turn
	below  map[drive.NodeID]tree.Extent // of the folders that go somewhere
}

// act does to one item what is wanted. It returns what the record says of it then, and the child
// that does the rest, if there is a rest. An error may leave writes behind, which the caller
// undoes.
func (t *batch) act(ctx context.Context, id drive.NodeID, e entry) (entry, drive.OperationID, error) {
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
		if n, found := t.before[id]; found && e.Want != nil && n.Trashed != e.Want.Trashed {
			return e, none, changedSince()
		}
		child, did, err := t.inside.Delete(ctx, id)
		e.Outcome = outcomeOf(did)
		return e, child, err
	case Unshare:
		err = t.b.opt.Shares.Remove(ctx, t.tx, t.row.account, drive.ShareID(id))
		e.Outcome = outcomeOf(err == nil)
		if drive.IsKind(err, drive.NotFound) { // ended before, as is wanted
			err = nil
		}
	case Subtree:
		err = drive.Fail(drive.Internal)
	}
	return e, none, err
}

func outcomeOf(did bool) outcome {
	if did {
		return changed
	}
	return asItWas
}

// changedSince is the refusal of an undo that would undo somebody else's change.
func changedSince() error { return drive.Fail(drive.VersionChanged) }

func (t *batch) trash(ctx context.Context, id drive.NodeID, e entry) (entry, error) {
	n, err := t.b.opt.Tree.Trash(ctx, t.tx, t.row.account, id, 0)
	e.Outcome, e.Trashed = outcomeOf(n.Rev != t.before[id].Rev), n.Trashed
	return e, err
}

func (t *batch) restore(ctx context.Context, id drive.NodeID, e entry) (entry, error) {
	was := t.before[id]
	if e.Want != nil && was.Trashed != 0 && was.Trashed != e.Want.Trashed {
		return e, changedSince()
	}
	if e.Want != nil && was.Trashed == 0 { // live, or in a folder that somebody has trashed since
		e.Outcome = asItWas
		_, err := t.b.opt.Tree.Find(ctx, t.tx, t.row.account, id)
		return e, err
	}
	r := tree.Restore{Parent: t.row.parent, Conflict: t.row.conflict, Below: t.below[id]}
	n, err := t.b.opt.Tree.Restore(ctx, t.tx, t.row.account, id, r)
	e.Outcome = outcomeOf(n.Rev != was.Rev)
	return e, err
}

func (t *batch) move(ctx context.Context, id drive.NodeID, e entry) (entry, error) {
	if e.Want != nil {
		return t.moveBack(ctx, id, e)
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
	n, err := t.b.opt.Tree.Edit(ctx, t.tx, t.row.account, id, tree.Edit{Parent: t.row.parent, Conflict: t.row.conflict, Below: t.below[id]})
	if err == nil {
		err = t.b.opt.Files.Moved(ctx, t.tx, n)
	}
	e.Outcome, e.Parent, e.Name = outcomeOf(n.Rev != was.Rev), was.Parent, was.Name
	if e.Became = ""; n.Name != was.Name {
		e.Became = n.Name
	}
	return e, err
}

// moveBack puts a node where it was before the move that is undone, and brings back what had made
// room for it there.
func (t *batch) moveBack(ctx context.Context, id drive.NodeID, e entry) (entry, error) {
	was, w := t.before[id], e.Want
	if was.Parent == w.Parent && was.Name == w.Name && was.Trashed == 0 {
		e.Outcome = asItWas
		return e, nil
	}
	if !was.ID.IsZero() && (was.Parent != w.From || was.Name != w.As || was.Trashed != 0) {
		return e, changedSince()
	}
	to := tree.Edit{Parent: w.Parent, Name: w.Name, Conflict: drive.ConflictRename, Below: t.below[id]}
	n, err := t.b.opt.Tree.Edit(ctx, t.tx, t.row.account, id, to)
	if err == nil {
		err = t.b.opt.Files.Moved(ctx, t.tx, n)
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
	if err := t.bringBack(ctx, w); refusal(err) {
		return e, nil // it was deleted for good, or has no place any more: the node itself is back
	} else if err != nil {
		return e, err
	}
	return e, nil
}

func (t *batch) bringBack(ctx context.Context, w *want) error {
	there, err := t.b.opt.Tree.Find(ctx, t.tx, t.row.account, w.Back)
	if err != nil || there.Trashed == 0 {
		return err
	}
	back, err := t.b.opt.Tree.Restore(ctx, t.tx, t.row.account, w.Back, tree.Restore{Parent: w.From, Conflict: drive.ConflictRename})
	if err == nil {
		t.before[w.Back] = back // it may be an item of the piece, too, which now has to go back in its turn
	}
	return err
}

// refusal reports whether an error is the answer to what was asked for, so that asking again
// changes nothing.
func refusal(err error) bool {
	return drive.IsKind(err, drive.BadRequest, drive.BadName, drive.NotFound, drive.NameTaken, drive.ParentGone, drive.WrongState,
		drive.VersionChanged, drive.Locked, drive.Cycle, drive.Gone, drive.Precondition, drive.TooLarge, drive.Quota, drive.TooManyOpen)
}

// overDay reports whether err says that the account has used up its changes of the day. An item
// meets that limit in the middle of its work, when what was in its way has been trashed already, so
// the transaction must not be committed with it.
func overDay(err error) bool {
	e, ok := errors.AsType[*drive.Error](err)
	return ok && e.Kind == drive.TooLarge && e.Args["reason"] == "changes"
}

// passing reports whether an error is that of a moment, and of no item.
func passing(ctx context.Context, err error) bool {
	return ctx.Err() != nil || drive.IsKind(err, drive.Unavailable, drive.Stopping, drive.DiskFull, drive.Rate, drive.InProgress, drive.TooSlow)
}
