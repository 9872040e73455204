package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// away is what goes to the trash once its copy is there.
type away struct {
	Account drive.AccountID `json:"account"`
	Node    drive.NodeID    `json:"node"`
	// What the source was when the copy began: what has changed since is perhaps not in the copy.
	Seq   int64 `json:"seq"`
	Nodes int64 `json:"nodes"`
}

// leaving is the source of a move.
type leaving struct {
	w  *copying
	tx *sqldb.Tx
	o  *operation
}

// check refuses to take away the source that has changed since the copy began, that the caller may
// not take away any more, of which they do not see a part, or which somebody else has locked,
// itself or the folder around it.
func (l leaving) check(ctx context.Context) error {
	w, tx, o := l.w, l.tx, l.o
	a := o.args.Copy.Away
	if a == nil {
		return nil
	}
	p, err := w.access.Enter(ctx, tx, drive.Who{User: o.user, Account: o.args.Copy.Home}, a.Node, access.Trash)
	if err == nil {
		err = p.CheckAway(access.Trash)
	}
	if err == nil {
		err = w.seesAll(ctx, tx, p, a.Node)
	}
	if err != nil {
		return err
	}
	now, err := tree.MarkOf(ctx, tx, a.Node)
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

// leave is the last step of a move: its source goes to the trash. The transaction has the lock on
// the source's ledger. What is there no longer has gone already.
func (l leaving) leave(ctx context.Context) (finished bool, err error) {
	w, tx, o := l.w, l.tx, l.o
	a := o.args.Copy.Away
	tx.ActFor(drive.Who{User: o.user, Account: a.Account})
	n, err := w.tree.Find(ctx, tx, a.Account, a.Node)
	if drive.IsKind(err, drive.NotFound) || err == nil && n.Trashed != 0 {
		return true, nil
	}
	if err == nil {
		err = l.check(ctx)
	}
	if err == nil {
		_, err = w.tree.Trash(ctx, tx, a.Account, a.Node, 0)
	}
	return err == nil, err
}
