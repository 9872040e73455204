package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
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
	err = f.write(ctx, who, func(ctx context.Context, tx *sqldb.Tx) error {
		o = f.newOperation(who, purgeNode, args{Top: id})
		o.Total = nodes
		if _, err := f.opt.Tree.Doom(ctx, tx, who.Account, id, rev, o.ID); err != nil {
			return err
		}
		return f.begin(ctx, tx, &o)
	})
	if drive.IsKind(err, drive.NotFound) {
		if was, failed := f.opt.Tree.Purged(ctx, f.opt.DB, who.Account, id); failed != nil || was {
			return nil, failed
		}
	}
	if err != nil {
		return nil, err
	}
	return f.finish(ctx, o, nodes)
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
	err = f.write(ctx, who, func(ctx context.Context, tx *sqldb.Tx) error {
		o = f.newOperation(who, emptyTrash, args{Before: before})
		o.Total = nodes
		return f.begin(ctx, tx, &o)
	})
	if err != nil {
		return nil, err
	}
	return f.finish(ctx, o, nodes)
}

func (f *Files) stepPurge(ctx context.Context, tx *sqldb.Tx, o *operation) (finished bool, err error) {
	p, err := f.opt.Tree.PurgeStep(ctx, tx, o.account, o.args.Top, f.opt.Batch)
	if err != nil {
		return false, err
	}
	o.Done += p.Nodes
	return p.Done, f.drop(ctx, tx, o.account, p.Versions)
}

// stepEmpty purges the trash from its oldest end. A node that a batch does not finish becomes the
// operation's own, so that nobody restores half of it.
func (f *Files) stepEmpty(ctx context.Context, tx *sqldb.Tx, o *operation) (finished bool, err error) {
	tops, err := f.opt.Tree.ListOwned(ctx, tx, o.account, o.ID, 1)
	if err == nil && len(tops) == 0 {
		tops, err = f.opt.Tree.ListTrashedBefore(ctx, tx, o.account, o.args.Before, f.opt.Batch)
	}
	if err != nil {
		return false, err
	}
	left := f.opt.Batch
	var gone []tree.Version
	for i := 0; i < len(tops) && left > 0; i++ {
		p, err := f.opt.Tree.PurgeStep(ctx, tx, o.account, tops[i].ID, left)
		if err == nil && !p.Done && tops[i].Operation.IsZero() {
			_, err = f.opt.Tree.Doom(ctx, tx, o.account, tops[i].ID, 0, o.ID)
		}
		if err != nil {
			return false, err
		}
		o.Done += p.Nodes
		gone = append(gone, p.Versions...)
		if left -= int(p.Nodes) + len(p.Versions); !p.Done {
			break
		}
	}
	return len(tops) == 0, f.drop(ctx, tx, o.account, gone) // all at once, in the order of their blobs
}
