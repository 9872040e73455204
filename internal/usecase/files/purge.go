package files

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// DeletePermanently deletes a live or trashed node, its descendants and all versions permanently.
// It returns the operation if the work continues in the background, else nil. A node that was
// purged before is not an error. It fails with Forbidden without the right to delete, with Locked,
// and, if e does not hold, with an error that tree.IsStale recognizes.
func (f *Files) DeletePermanently(ctx context.Context, who drive.Who, id drive.NodeID, e tree.Expect) (*Operation, error) {
	pass, err := f.authorize(ctx, who, id, access.Delete)
	if err == nil {
		err = pass.CheckRemoval(access.Delete)
	}
	switch {
	case err == nil:
		who = pass.Who
	case !drive.IsKind(err, drive.NotFound): // NotFound: it may have been deleted before
		return nil, err
	}
	nodes, err := f.opt.Tree.Count(ctx, f.opt.DB, id, f.opt.Direct+1)
	if err != nil {
		return nil, err
	}
	var o operation
	err = f.Operations.write(ctx, f.accounting, who, func(ctx context.Context, tx *sqldb.Tx) error {
		o = newOperation(who, purgeNode, args{Top: id})
		o.Total = nodes
		if err := e.Check(ctx, tx, f.opt.Tree); err != nil {
			return err
		}
		if _, err := f.opt.Tree.MarkForPurge(ctx, tx, who.Account, id, e, o.ID); err != nil {
			return err
		}
		return f.Operations.begin(ctx, tx, &o)
	})
	if drive.IsKind(err, drive.NotFound) {
		if was, failed := f.opt.Tree.Purged(ctx, f.opt.DB, who.Account, id); failed != nil || was {
			return nil, failed
		}
	}
	if err != nil {
		return nil, err
	}
	return f.Operations.finish(ctx, o, nodes)
}

// EmptyTrash permanently deletes what is in the trash now: of the given space, or of the caller's
// own drive if space is empty. It returns the operation if the work continues in the background,
// else nil.
func (f *Files) EmptyTrash(ctx context.Context, who drive.Who, space string) (*Operation, error) {
	p, err := f.authorizeAccount(ctx, who, space, access.Delete)
	if err != nil {
		return nil, err
	}
	return f.emptyTrash(ctx, p.Who, f.now())
}

// emptyTrash permanently deletes what was trashed up to before in the account of who. If that is
// not finished at once, it returns the running operation; else nil.
func (f *Files) emptyTrash(ctx context.Context, who drive.Who, before drive.Time) (*Operation, error) {
	nodes, err := f.opt.Tree.CountTrash(ctx, f.opt.DB, who.Account, f.opt.Direct+1)
	if err != nil {
		return nil, err
	}
	var o operation
	err = f.Operations.write(ctx, f.accounting, who, func(ctx context.Context, tx *sqldb.Tx) error {
		o = newOperation(who, emptyTrash, args{Before: before})
		o.Total = nodes
		return f.Operations.begin(ctx, tx, &o)
	})
	if err != nil {
		return nil, err
	}
	return f.Operations.finish(ctx, o, nodes)
}
