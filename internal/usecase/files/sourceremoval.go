package files

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// moveSource identifies the source of a move, which goes to the trash once its copy is visible.
type moveSource struct {
	Account drive.AccountID `json:"account"`
	Node    drive.NodeID    `json:"node"`
	// State of the source when the copy began. After a later change the copy may be incomplete.
	Seq   int64 `json:"seq"`
	Nodes int64 `json:"nodes"`
}

// sourceRemoval puts the source of a move into the trash, within one step of the operation.
type sourceRemoval struct {
	handler   *copyHandler
	tx        *sqldb.Tx
	operation *operation
}

// check fails if the source must stay: VersionChanged if it changed since the copy began, Forbidden
// if the user lost the right to remove it or a part is hidden from the user, Locked if another user
// locked it or its parent. Without a source it returns nil.
func (r sourceRemoval) check(ctx context.Context) error {
	w, tx, o := r.handler, r.tx, r.operation
	a := o.args.Copy.MoveSource
	if a == nil {
		return nil
	}
	p, err := w.access.Enter(ctx, tx, drive.Who{User: o.user, Account: o.args.Copy.Home}, a.Node, access.Trash)
	if err == nil {
		err = p.CheckRemoval(access.Trash)
	}
	if err == nil {
		err = w.requireFullView(ctx, tx, p, a.Node)
	}
	if err != nil {
		return err
	}
	now, err := tree.ChangeTagOf(ctx, tx, a.Node)
	if err != nil {
		return err
	}
	if now.Seq != a.Seq || now.Nodes != a.Nodes {
		return drive.Fail(drive.VersionChanged)
	}
	n, err := w.tree.Find(ctx, tx, a.Account, a.Node)
	if err != nil {
		return err
	}
	if err := w.locks.Check(ctx, tx, a.Account, n.Parent, tx.Actor(), false); err != nil {
		return err
	}
	return w.locks.Check(ctx, tx, a.Account, a.Node, tx.Actor(), true)
}

// trash is the last step of a move: it puts the source into the trash and reports success. The
// transaction holds the lock on the source's ledger. If the source is already trashed or deleted,
// trash changes nothing and returns true.
func (r sourceRemoval) trash(ctx context.Context) (finished bool, err error) {
	w, tx, o := r.handler, r.tx, r.operation
	a := o.args.Copy.MoveSource
	tx.SetActor(drive.Who{User: o.user, Account: a.Account})
	n, err := w.tree.Find(ctx, tx, a.Account, a.Node)
	if drive.IsKind(err, drive.NotFound) || err == nil && n.Trashed != 0 {
		return true, nil
	}
	if err == nil {
		err = r.check(ctx)
	}
	if err == nil {
		_, err = w.tree.Trash(ctx, tx, a.Account, a.Node, 0)
	}
	return err == nil, err
}
