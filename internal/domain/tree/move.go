package tree

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Edit is what shall be different about a live node. A zero field leaves things as they are.
type Edit struct {
	Parent   drive.NodeID
	Name     drive.Name
	MTime    drive.Time
	Conflict drive.Conflict // ConflictReplace: what is in the way goes to the trash
	Rev      int64          // the revision that the caller saw; zero: any
	Below    Extent         // of the node, read before the transaction; needed to move a folder
}

// Edit renames, moves and touches a live node; an edit that changes nothing is not a change. The
// errors are those of a new file's place, Cycle (a folder cannot go below itself), Precondition
// {current} when rev is not the current one, and WrongState {state: trashed}.
func (t *Tree) Edit(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.NodeID, e Edit) (Node, error) {
	n, up, err := t.lock(ctx, tx, account, id)
	if err != nil {
		return Node{}, err
	}
	if !up.live() {
		return Node{}, drive.Fail(drive.WrongState, "state", "trashed")
	}
	old := n
	if !e.Parent.IsZero() {
		n.Parent = e.Parent
	}
	if e.Name != "" {
		n.Name = e.Name
	}
	if e.MTime != 0 {
		n.MTime = e.MTime
	}
	if n == old { // perhaps it was done by the first try of this request, whose reply was lost: RFC 9110 §13.1.1
		return n, nil
	}
	if err := checkRev(old, e.Rev); err != nil {
		return Node{}, err
	}
	stays := n.Parent == old.Parent && n.Name == old.Name
	ask := t.opt.Leaves
	if stays {
		ask = t.opt.Replaces
	}
	if err := ask(ctx, tx, old, tx.Actor()); err != nil {
		return Node{}, err
	}
	if !stays {
		p := Place{Parent: n.Parent, Name: n.Name, Conflict: e.Conflict}
		if n.Name, err = t.claim(ctx, tx, n, up, p, e.Below); err != nil {
			return Node{}, err
		}
	}
	if n.MTime != old.MTime && n.Type == TypeFile {
		if _, err := tx.Exec(ctx, "UPDATE versions SET mtime = ? WHERE id = ?", n.MTime, n.Version); err != nil {
			return Node{}, wrap(err, "touch version", n.Version)
		}
	}
	if err := t.update(ctx, tx, old, &n); err != nil || stays {
		return n, err
	}
	return n, t.opt.Arrived(ctx, tx, n)
}

// lock takes the lock on the tree and reads a node that is not the root, with its chain.
func (t *Tree) lock(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.NodeID) (Node, chain, error) {
	if _, err := t.change(ctx, tx, account, 0, 0); err != nil {
		return Node{}, nil, err
	}
	n, err := t.Find(ctx, tx, account, id)
	switch {
	case err != nil:
		return Node{}, nil, err
	case n.IsRoot():
		return Node{}, nil, drive.Bad("id", drive.NotAllowed, "sent", "root")
	}
	up, err := t.climb(ctx, tx, id)
	if err == nil && up.owned() {
		err = drive.Fail(drive.NotFound)
	}
	return n, up, err
}

func checkRev(n Node, rev int64) error {
	if rev != 0 && rev != n.Rev {
		return drive.Fail(drive.Precondition, "current", n.Rev)
	}
	return nil
}

// claim makes sure that the node may go to the place, clears what is in the way according to the
// policy, and returns the name to take. up is the node's chain as it is now.
func (t *Tree) claim(ctx context.Context, tx *sqldb.Tx, n Node, up chain, p Place, below Extent) (drive.Name, error) {
	if err := t.checkCycle(ctx, tx, n, p.Parent); err != nil {
		return "", err
	}
	if err := t.checkParent(ctx, tx, n.Account, p, below); err != nil {
		return "", err
	}
	if err := t.opt.Enters(ctx, tx, Folder{n.Account, p.Parent}, tx.Actor()); err != nil {
		return "", err
	}
	there, taken, err := t.Child(ctx, tx, n.Account, p.Parent, p.Name)
	switch {
	case err != nil:
		return "", err
	case !taken || there.ID == n.ID:
		return p.Name, nil
	case p.Conflict == drive.ConflictRename:
		return t.freeName(ctx, tx, n.Account, p, n.Type)
	case p.Conflict != drive.ConflictReplace:
		return "", nameTaken(p.Name)
	case up.contains(there.ID):
		return "", drive.Fail(drive.Cycle)
	}
	if err := t.opt.Leaves(ctx, tx, there, tx.Actor()); err != nil {
		return "", err
	}
	was := there
	there.Trashed = t.now()
	return p.Name, t.update(ctx, tx, was, &there)
}

func (r Reader) checkCycle(ctx context.Context, tx *sqldb.Tx, n Node, parent drive.NodeID) error {
	if !n.IsFolder() {
		return nil
	}
	up, err := r.climb(ctx, tx, parent)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return drive.Fail(drive.ParentGone)
	case err != nil:
		return err
	case up.contains(n.ID):
		return drive.Fail(drive.Cycle)
	}
	return nil
}

// Extent reads how far a node's live subtree reaches. It looks at every node below: call it outside
// of transactions.
func (r Reader) Extent(ctx context.Context, q sqldb.Querier, id drive.NodeID) (e Extent, err error) {
	err = q.QueryRow(ctx, `WITH RECURSIVE sub (id, levels, bytes) AS (
			SELECT id, 0, 0 FROM nodes WHERE id = ?
			UNION ALL
			SELECT n.id, sub.levels + 1, sub.bytes + 1 + OCTET_LENGTH(n.name)
			FROM sub JOIN nodes n ON n.parent_id = sub.id WHERE n.trashed_at = 0 AND sub.levels < ?)
		SELECT COALESCE(MAX(levels), 0), COALESCE(MAX(bytes), 0) FROM sub`, id, maxClimb).Scan(&e.Levels, &e.Bytes)
	return e, wrap(err, "measure node", id)
}
