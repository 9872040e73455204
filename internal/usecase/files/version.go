package files

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// VersionView is a version of a file as the native API shows it.
type VersionView struct {
	ID        drive.VersionID
	Size      int64
	Mime      string
	MTime     drive.Time
	CreatedAt drive.Time
	CreatedBy drive.UserID
	Digests   map[string]string
	Current   bool
}

// Versions lists the versions of a file, newest first. The cursor is the id of the previous page's
// last version; a malformed one is CursorInvalid.
func (f *Files) Versions(ctx context.Context, who drive.Who, id drive.NodeID, cursor string, limit int) (Page[VersionView], error) {
	limit, err := tree.CheckLimit(limit)
	if err != nil {
		return Page[VersionView]{}, err
	}
	var before drive.VersionID
	if cursor != "" {
		if before, err = drive.ParseID[drive.VersionID](cursor); err != nil {
			return Page[VersionView]{}, drive.Wrap(err, drive.CursorInvalid)
		}
	}
	p, err := f.authorize(ctx, who, id, access.Read)
	if err != nil {
		return Page[VersionView]{}, err
	}
	who = p.Who
	n, err := f.opt.Tree.Find(ctx, f.opt.DB.For(who.Account), who.Account, id)
	if err != nil {
		return Page[VersionView]{}, err
	}
	all, err := f.opt.Tree.Versions(ctx, f.opt.DB.For(who.Account), id, before, limit+1)
	if err != nil {
		return Page[VersionView]{}, err
	}
	next := ""
	if len(all) > limit {
		all = all[:limit]
		next = all[limit-1].ID.String()
	}
	views := make([]VersionView, len(all))
	for i, v := range all {
		if views[i], err = f.viewVersion(ctx, n, v); err != nil {
			return Page[VersionView]{}, err
		}
	}
	return newPage(views, next), nil
}

// viewVersion returns the view of version v of file n, with the digests of its content. It fails
// only if the query for the digests does.
func (f *Files) viewVersion(ctx context.Context, n tree.Node, v tree.Version) (VersionView, error) {
	digests, err := f.opt.Content.Aliases(ctx, f.opt.DB.For(n.Account), v.Blob)
	return VersionView{
		ID: v.ID, Size: int64(v.Size), Mime: v.Mime, MTime: v.MTime, CreatedAt: v.Created, CreatedBy: v.By,
		Digests: digests.Hex(), Current: v.ID == n.Version,
	}, err
}

// RestoreVersion makes the content of an older version current by adding a new version, which is
// charged. If the current version already has that content, time and type, nothing changes, so a
// client may retry after a lost response.
func (f *Files) RestoreVersion(ctx context.Context, who drive.Who, id drive.NodeID, version drive.VersionID, hook Hook) (r Result, err error) {
	p, err := f.authorize(ctx, who, id, access.Edit)
	if err != nil {
		return Result{}, err
	}
	who = p.Who
	err = f.write(ctx, who, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := f.findLive(ctx, tx, who, id)
		if err != nil {
			return err
		}
		if n.Version != version {
			if n, err = f.addVersion(ctx, tx, who, n, version); err != nil {
				return err
			}
		}
		r, err = f.result(ctx, tx, p, n, hook)
		return err
	})
	return r, err
}

// addVersion charges and adds, within tx, a version with the content of an older one, and returns
// the node. If the current version is equal it returns n unchanged. Errors: NotFound, Quota.
func (f *Files) addVersion(ctx context.Context, tx *sqldb.Tx, who drive.Who, n tree.Node, version drive.VersionID) (tree.Node, error) {
	v, err := f.opt.Tree.FindVersion(ctx, tx, n.ID, version)
	if err != nil {
		return tree.Node{}, err
	}
	if n.Blob == v.Blob && n.MTime == v.MTime && n.Mime == v.Mime {
		return n, nil
	}
	if err := f.charge(ctx, tx, who.Account, tree.Node{Blob: v.Blob, Size: v.Size}); err != nil {
		return tree.Node{}, err
	}
	placed, err := f.opt.Tree.AddVersion(ctx, tx, n, tree.File{Blob: v.Blob, Size: v.Size, MTime: v.MTime, Mime: v.Mime, By: who.User, Who: who})
	if err != nil {
		return tree.Node{}, err
	}
	return placed.Node, f.drop(ctx, tx, who.Account, placed.Dropped)
}
