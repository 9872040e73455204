package files

import (
	"context"
	"errors"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Supersede makes the content of file id the next version of file target, which keeps its name and
// history, and removes file id. This implements saving by writing a new file and renaming it over
// the old one. File id is deleted permanently if it has one version, since its content is kept,
// else trashed. It fails with an error that IsCrossAccount recognizes if the files belong to
// different accounts.
func (f *Files) Supersede(ctx context.Context, who drive.Who, id, target drive.NodeID, e tree.Expect) (NodeView, error) {
	from, err := f.authorize(ctx, who, id, access.Edit)
	if err == nil {
		err = from.CheckRemoval(access.Move)
	}
	if err != nil {
		return NodeView{}, err
	}
	to, err := f.authorize(ctx, who, target, access.Replace)
	if err == nil && to.Who.Account != from.Who.Account {
		err = errCrossAccount()
	}
	if err != nil {
		return NodeView{}, err
	}
	if id == target {
		return NodeView{}, drive.Fail(drive.Cycle)
	}
	return f.change(ctx, to, e, func(ctx context.Context, tx *sqldb.Tx) (tree.Node, error) {
		return f.supersede(ctx, tx, to.Who, id, target)
	})
}

// supersede is the transaction of Supersede. It frees the bytes of the source before it charges
// them again, so that it works in a full account.
func (f *Files) supersede(ctx context.Context, tx *sqldb.Tx, who drive.Who, id, target drive.NodeID) (tree.Node, error) {
	src, err := f.findLive(ctx, tx, who, id)
	if err != nil {
		return tree.Node{}, err
	}
	dst, err := f.findLive(ctx, tx, who, target)
	if err != nil {
		return tree.Node{}, err
	}
	if src.IsFolder() || dst.IsFolder() {
		return tree.Node{}, drive.BadField("id", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFile}, "sent", tree.TypeFolder)
	}
	if err := f.opt.Content.RefAll(ctx, tx, src.Blob); err != nil {
		return tree.Node{}, err
	}
	if err := f.removeSource(ctx, tx, who, src); err != nil {
		return tree.Node{}, err
	}
	if err := f.opt.Ledger.Apply(ctx, tx, who.Account, quota.Move{Finished: src.Size}); err != nil {
		return tree.Node{}, err
	}
	placed, err := f.opt.Tree.AddVersion(ctx, tx, dst, tree.File{Blob: src.Blob, Size: src.Size, MTime: src.MTime, Mime: drive.MimeOf(dst.Name), By: who.User, Who: who})
	if err != nil {
		return tree.Node{}, err
	}
	return placed.Node, f.drop(ctx, tx, who.Account, placed.Dropped)
}

// removeSource removes, within tx, the file whose content was put elsewhere: it deletes a file with
// one version permanently and trashes a file with more.
func (f *Files) removeSource(ctx context.Context, tx *sqldb.Tx, who drive.Who, src tree.Node) error {
	versions, err := f.opt.Tree.Versions(ctx, tx, src.ID, drive.VersionID{}, 2)
	if err != nil {
		return err
	}
	if len(versions) > 1 {
		_, err := f.opt.Tree.Trash(ctx, tx, who.Account, src.ID, 0)
		return err
	}
	if _, err := f.opt.Tree.MarkForPurge(ctx, tx, who.Account, src.ID, tree.Expect{}, drive.NewID[drive.OperationID]()); err != nil {
		return err
	}
	p, err := f.opt.Tree.PurgeStep(ctx, tx, who.Account, src.ID, f.opt.Batch)
	if err != nil {
		return err
	}
	if !p.Done {
		return errors.New("a file with one version was not deleted by one step")
	}
	return f.drop(ctx, tx, who.Account, p.Versions)
}

// errCrossAccount returns the BadRequest error for a move into another account; IsCrossAccount
// recognizes it.
func errCrossAccount() error {
	return drive.BadField("parent", drive.NotAllowed, "allowed", []string{"a folder of the same place (copy it instead)"})
}

// IsCrossAccount reports whether err refuses a move only because source and target belong to
// different accounts. The caller can copy instead.
func IsCrossAccount(err error) bool {
	e, ok := errors.AsType[*drive.Error](err)
	return ok && e.Kind == drive.BadRequest && e.Args["field"] == "parent" && e.Args["reason"] == string(drive.NotAllowed)
}
