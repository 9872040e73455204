package files

import (
	"context"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// authorizer checks what callers may do at a node and determines the account that they then act on.
type authorizer struct {
	access *access.Access
	tree   *tree.Tree
	db     *sqldb.DB
}

// authorize checks that the caller may use the node in the given way. The returned Pass.Who acts on
// the node's account. It fails with NotFound if the caller may not see the node, and with Forbidden
// if the caller sees it and lacks the right.
func (a *authorizer) authorize(ctx context.Context, who drive.Who, id drive.NodeID, use access.Use) (access.Pass, error) {
	return a.access.Enter(ctx, a.db, who, id, use)
}

// authorizePath checks that the caller may use the node at an address in the given way. If the full
// path does not exist, n is its deepest existing folder, rest the missing part, and the check is of
// n. It fails with NotFound if the caller may not see n or the address names no place, and with
// Forbidden if the caller sees n and lacks the right.
func (a *authorizer) authorizePath(ctx context.Context, who drive.Who, at drive.Address, use access.Use) (p access.Pass, n tree.Node, rest drive.Path, err error) {
	to, err := a.access.Find(ctx, a.db, who, at)
	if err != nil {
		return p, n, nil, err
	}
	q := a.db.For(to.Account)
	if n, rest, err = a.tree.Deepest(ctx, q, to.Account, to.Path); err != nil {
		return p, n, nil, err
	}
	if to.Account == who.Account {
		return access.Pass{Who: who, Node: n.ID, Rights: access.All}, n, rest, nil
	}
	p, err = a.authorize(ctx, who, n.ID, use)
	return p, n, rest, err
}

// authorizeAccount authorizes a use of a whole account: of the space named by place, or of the
// caller's own account if place is empty. A shared folder is NotFound.
func (a *authorizer) authorizeAccount(ctx context.Context, who drive.Who, place string, use access.Use) (access.Pass, error) {
	if place == "" {
		return access.Pass{Who: who, Rights: access.All}, nil
	}
	p, _, _, err := a.authorizePath(ctx, who, drive.Address{Place: place, Path: drive.Path{}}, use)
	if err == nil && p.Who.Guest && p.Space == "" { // a shared folder has no trash and no feed
		err = drive.Fail(drive.NotFound)
	}
	return p, err
}

// requireFullView returns Forbidden if any node below the folder is hidden from the caller, who may
// then not act on the folder as a whole.
func (a *authorizer) requireFullView(ctx context.Context, q sqldb.Querier, p access.Pass, folder drive.NodeID) error {
	lens, err := a.access.Lens(ctx, q, p)
	if err != nil {
		return err
	}
	hidden, err := a.tree.AnyWithin(ctx, q, p.Who.Account, folder, lens.Hidden())
	if err == nil && hidden {
		err = drive.Fail(drive.Forbidden, "reason", "role", "role", string(p.Rights.Role()), "needs", string(access.Manager))
	}
	return err
}

// visibleChildren returns the children that the caller may see, of a folder that the caller sees.
// It reuses the slice nodes.
func (a *authorizer) visibleChildren(ctx context.Context, p access.Pass, nodes []tree.Node) ([]tree.Node, error) {
	lens, err := a.access.Lens(ctx, a.db, p)
	if err != nil || !p.Who.Guest {
		return nodes, err
	}
	return slices.DeleteFunc(nodes, func(n tree.Node) bool { return !lens.ShowsChild(n.ID) }), nil
}

// visibleSpots returns, by node id, whether the caller sees each node and from which shared top.
// The nodes may be anywhere in the account. A nil map means that the caller sees all of them, from
// the root.
func (a *authorizer) visibleSpots(ctx context.Context, p access.Pass, nodes []tree.Node) (map[drive.NodeID]access.Visibility, error) {
	if !p.Who.Guest {
		return nil, nil
	}
	lens, err := a.access.Lens(ctx, a.db, p)
	if err != nil || p.Space != "" && !lens.MayHideBelow(p.Top) {
		return nil, err
	}
	ids := make([]drive.NodeID, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID
	}
	spots, err := lens.Visibilities(ctx, a.db, ids)
	if spots == nil && err == nil {
		spots = map[drive.NodeID]access.Visibility{}
	}
	return spots, err
}

// findLive returns a node of the account of who. It fails with WrongState {state: trashed} if the
// node or a folder above it is in the trash, and with NotFound if it does not exist.
func (a *authorizer) findLive(ctx context.Context, q sqldb.Querier, who drive.Who, id drive.NodeID) (tree.Node, error) {
	n, err := a.tree.Find(ctx, q, who.Account, id)
	if err != nil {
		return tree.Node{}, err
	}
	_, live, err := a.tree.PathOf(ctx, q, id)
	if err == nil && !live {
		err = drive.Fail(drive.WrongState, "state", "trashed")
	}
	return n, err
}

// useForConflict returns the use to authorize for putting a node into a folder: Replace if the
// policy replaces existing nodes, else Put.
func useForConflict(c drive.Conflict) access.Use {
	if c == drive.ConflictReplace {
		return access.Replace
	}
	return access.Put
}

// authorizeReplaced returns the error that forbids the caller to trash the node over, which is to
// be replaced. A zero over is allowed.
func (a *authorizer) authorizeReplaced(ctx context.Context, who drive.Who, over drive.NodeID) error {
	if over.IsZero() {
		return nil
	}
	p, err := a.authorize(ctx, who, over, access.Trash)
	if err == nil {
		err = p.CheckRemoval(access.Trash)
	}
	return err
}

// trashReplaced moves the node over to the trash if it is still the child at.Name of at.Parent.
// Otherwise, or if over is zero, it does nothing.
func (a *authorizer) trashReplaced(ctx context.Context, tx *sqldb.Tx, at tree.Place, account drive.AccountID, over drive.NodeID) error {
	if over.IsZero() {
		return nil
	}
	there, taken, err := a.tree.Child(ctx, tx, account, at.Parent, at.Name)
	if err != nil || !taken || there.ID != over {
		return err
	}
	_, err = a.tree.Trash(ctx, tx, account, over, 0)
	return err
}
