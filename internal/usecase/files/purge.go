package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/engine/sqldb"
)

// DeletePermanently deletes a node with all that is below it and all versions, whether it is in the
// trash or not; rev is the revision that the caller saw, zero any. It returns the operation when
// that goes on in the background.
func (f *Files) DeletePermanently(ctx context.Context, who drive.Who, id drive.NodeID, rev int64) (*Operation, error) {
	pass, err := f.enter(ctx, who, id, access.Delete)
	if err == nil {
		err = pass.CheckAway(access.Delete)
	}
	switch {
	case err == nil:
		who = pass.Who
	case !drive.IsKind(err, drive.NotFound): // else it may have been deleted already
		return nil, err
	}
	nodes, err := f.opt.Tree.Count(ctx, f.opt.DB, id, f.opt.Direct+1)
	if err != nil {
		return nil, err
	}
	var o operation
	err = f.Operations.write(ctx, f.books, who, func(ctx context.Context, tx *sqldb.Tx) error {
		o = newOperation(who, purgeNode, args{Top: id})
		o.Total = nodes
		if _, err := f.opt.Tree.Doom(ctx, tx, who.Account, id, rev, o.ID); err != nil {
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

// EmptyTrash deletes for good what is at this moment in the trash of a space, or the caller's own
// when there is none named. It returns the operation when that goes on in the background.
func (f *Files) EmptyTrash(ctx context.Context, who drive.Who, space string) (*Operation, error) {
	p, err := f.enterAccount(ctx, who, space, access.Delete)
	if err != nil {
		return nil, err
	}
	return f.emptyTrash(ctx, p.Who, f.now())
}

func (f *Files) emptyTrash(ctx context.Context, who drive.Who, before drive.Time) (*Operation, error) {
	nodes, err := f.opt.Tree.CountTrash(ctx, f.opt.DB, who.Account, f.opt.Direct+1)
	if err != nil {
		return nil, err
	}
	var o operation
	err = f.Operations.write(ctx, f.books, who, func(ctx context.Context, tx *sqldb.Tx) error {
		o = newOperation(who, emptyTrash, args{Before: before})
		o.Total = nodes
		return f.Operations.begin(ctx, tx, &o)
	})
	if err != nil {
		return nil, err
	}
	return f.Operations.finish(ctx, o, nodes)
}
