package files

import (
	"context"
	"errors"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Supersede makes the content of a file the next version of another one of the same place, whose
// name and history stay, and takes the first away: as programs mean it that write a new file and
// move it over the old one. A file with no more than that content is deleted for good, since
// nothing of it is lost; one with a history of its own goes to the trash. Elsewhere (IsElsewhere):
// the two belong to different accounts.
func (f *Files) Supersede(ctx context.Context, who drive.Who, id, target drive.NodeID, e tree.Expect) (NodeView, error) {
	from, err := f.enter(ctx, who, id, access.Edit)
	if err == nil {
		err = from.CheckAway(access.Move)
	}
	if err != nil {
		return NodeView{}, err
	}
	to, err := f.enter(ctx, who, target, access.Replace)
	if err == nil && to.Who.Account != from.Who.Account {
		err = elsewhere()
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

// supersede is the transaction. Sizes move within it in an order in which a full account has room:
// what goes gives its bytes back before they are charged again.
func (f *Files) supersede(ctx context.Context, tx *sqldb.Tx, who drive.Who, id, target drive.NodeID) (tree.Node, error) {
	src, err := f.live(ctx, tx, who, id)
	if err != nil {
		return tree.Node{}, err
	}
	dst, err := f.live(ctx, tx, who, target)
	if err != nil {
		return tree.Node{}, err
	}
	if src.IsFolder() || dst.IsFolder() {
		return tree.Node{}, drive.Bad("id", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFile}, "sent", tree.TypeFolder)
	}
	if err := f.opt.Content.RefAll(ctx, tx, src.Blob); err != nil {
		return tree.Node{}, err
	}
	if err := f.takeAway(ctx, tx, who, src); err != nil {
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

// takeAway deletes a file that has one version, and trashes one that has more.
func (f *Files) takeAway(ctx context.Context, tx *sqldb.Tx, who drive.Who, src tree.Node) error {
	versions, err := f.opt.Tree.Versions(ctx, tx, src.ID, drive.VersionID{}, 2)
	if err != nil {
		return err
	}
	if len(versions) > 1 {
		_, err := f.opt.Tree.Trash(ctx, tx, who.Account, src.ID, 0)
		return err
	}
	if _, err := f.opt.Tree.Doom(ctx, tx, who.Account, src.ID, 0, drive.NewID[drive.OperationID]()); err != nil {
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

// elsewhere says that something cannot go to a place of another account.
func elsewhere() error {
	return drive.Bad("parent", drive.NotAllowed, "allowed", []string{"a folder of the same place (copy it instead)"})
}

// IsElsewhere reports whether something was refused only because it would have gone from one
// account to another: it can be copied.
func IsElsewhere(err error) bool {
	e, ok := errors.AsType[*drive.Error](err)
	return ok && e.Kind == drive.BadRequest && e.Args["field"] == "parent" && e.Args["reason"] == string(drive.NotAllowed)
}
