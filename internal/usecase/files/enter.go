package files

import (
	"context"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// doors let callers in: who may do what at a node, and on whose account they act then.
type doors struct {
	access *access.Access
	tree   *tree.Tree
	db     *sqldb.DB
}

// enter lets the caller do something at a node: the Who of the pass acts on the node's account.
func (d *doors) enter(ctx context.Context, who drive.Who, id drive.NodeID, use access.Use) (access.Pass, error) {
	return d.access.Enter(ctx, d.db, who, id, use)
}

// enterPath is enter for the node at an address; with what there is not of the path yet.
func (d *doors) enterPath(ctx context.Context, who drive.Who, at drive.Address, use access.Use) (p access.Pass, n tree.Node, rest drive.Path, err error) {
	to, err := d.access.Find(ctx, d.db, who, at)
	if err != nil {
		return p, n, nil, err
	}
	q := d.db.For(to.Account)
	if n, rest, err = d.tree.Deepest(ctx, q, to.Account, to.Path); err != nil {
		return p, n, nil, err
	}
	if to.Account == who.Account {
		return access.Pass{Who: who, Node: n.ID, Rights: access.All}, n, rest, nil
	}
	p, err = d.enter(ctx, who, n.ID, use)
	return p, n, rest, err
}

// enterAccount lets the caller do something to an account as a whole: the one of a space, or their
// own when place is empty.
func (d *doors) enterAccount(ctx context.Context, who drive.Who, place string, use access.Use) (access.Pass, error) {
	if place == "" {
		return access.Pass{Who: who, Rights: access.All}, nil
	}
	p, _, _, err := d.enterPath(ctx, who, drive.Address{Place: place, Path: drive.Path{}}, use)
	if err == nil && p.Who.Guest && p.Space == "" { // a folder has no trash and no feed of its own
		err = drive.Fail(drive.NotFound)
	}
	return p, err
}

// seesAll refuses what is about all that is below a folder to somebody from whom a part is hidden.
func (d *doors) seesAll(ctx context.Context, q sqldb.Querier, p access.Pass, folder drive.NodeID) error {
	lens, err := d.access.Lens(ctx, q, p)
	if err != nil {
		return err
	}
	hidden, err := d.tree.AnyWithin(ctx, q, p.Who.Account, folder, lens.Hidden())
	if err == nil && hidden {
		err = drive.Fail(drive.Forbidden, "reason", "role", "role", string(p.Rights.Role()), "needs", string(access.Manager))
	}
	return err
}

// seenChildren leaves out what the caller may not see of the children of a folder that they see.
func (d *doors) seenChildren(ctx context.Context, p access.Pass, nodes []tree.Node) ([]tree.Node, error) {
	lens, err := d.access.Lens(ctx, d.db, p)
	if err != nil || !p.Who.Guest {
		return nodes, err
	}
	return slices.DeleteFunc(nodes, func(n tree.Node) bool { return !lens.ShowsChild(n.ID) }), nil
}

// spots tells, of nodes anywhere in the account, which ones the caller sees and from where; nil:
// all of them, from the root.
func (d *doors) spots(ctx context.Context, p access.Pass, nodes []tree.Node) (map[drive.NodeID]access.Spot, error) {
	if !p.Who.Guest {
		return nil, nil
	}
	lens, err := d.access.Lens(ctx, d.db, p)
	if err != nil || p.Space != "" && !lens.Narrows(p.Top) {
		return nil, err
	}
	ids := make([]drive.NodeID, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID
	}
	spots, err := lens.Spots(ctx, d.db, ids)
	if spots == nil && err == nil {
		spots = map[drive.NodeID]access.Spot{}
	}
	return spots, err
}

// live finds a node that is not in the trash.
func (d *doors) live(ctx context.Context, q sqldb.Querier, who drive.Who, id drive.NodeID) (tree.Node, error) {
	n, err := d.tree.Find(ctx, q, who.Account, id)
	if err != nil {
		return tree.Node{}, err
	}
	_, live, err := d.tree.PathOf(ctx, q, id)
	if err == nil && !live {
		err = drive.Fail(drive.WrongState, "state", "trashed")
	}
	return n, err
}

// useOf is what one must be allowed to put something that is there already into a folder: what is
// in its way goes when the policy is replace.
func useOf(c drive.Conflict) access.Use {
	if c == drive.ConflictReplace {
		return access.Replace
	}
	return access.Put
}

// mayClear refuses to let somebody take away what is in the way; zero: nothing is.
func (d *doors) mayClear(ctx context.Context, who drive.Who, over drive.NodeID) error {
	if over.IsZero() {
		return nil
	}
	p, err := d.enter(ctx, who, over, access.Trash)
	if err == nil {
		err = p.CheckAway(access.Trash)
	}
	return err
}

// clear puts what is in the way into the trash, if it still is in the way: at a name of a folder.
func (d *doors) clear(ctx context.Context, tx *sqldb.Tx, at tree.Place, account drive.AccountID, over drive.NodeID) error {
	if over.IsZero() {
		return nil
	}
	there, taken, err := d.tree.Child(ctx, tx, account, at.Parent, at.Name)
	if err != nil || !taken || there.ID != over {
		return err
	}
	_, err = d.tree.Trash(ctx, tx, account, over, 0)
	return err
}
