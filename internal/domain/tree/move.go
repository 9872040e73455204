package tree

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Edit lists the changes of a live node. A zero field leaves its property unchanged.
type Edit struct {
	Parent   drive.NodeID
	Name     drive.Name
	MTime    drive.Time
	Conflict drive.Conflict // ConflictReplace: a node of the same name in the target goes to the trash
	Rev      int64          // the revision that the caller saw; zero: any
	Extent   Extent         // extent of a folder, read before the transaction; required to move one
}

// Edit renames, moves and sets the modification time of a live node. An edit that changes nothing
// succeeds and keeps the revision. It fails like PutFile for the new place, with Cycle if a folder
// would move below itself, with Precondition {current} if e.Rev is not the current revision, and
// with WrongState {state: trashed}.
func (t *Tree) Edit(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.NodeID, e Edit) (Node, error) {
	n, up, err := t.lockNode(ctx, tx, account, id)
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
	if n == old { // possibly a retry after a lost response, so not a Precondition failure: RFC 9110 §13.1.1
		return n, nil
	}
	if err := checkRev(old, e.Rev); err != nil {
		return Node{}, err
	}
	stays := n.Parent == old.Parent && n.Name == old.Name
	ask := t.opt.CheckRemove
	if stays {
		ask = t.opt.CheckReplace
	}
	if err := ask(ctx, tx, old, tx.Actor()); err != nil {
		return Node{}, err
	}
	if !stays {
		p := Place{Parent: n.Parent, Name: n.Name, Conflict: e.Conflict}
		if n.Name, err = t.preparePlace(ctx, tx, n, up, p, e.Extent); err != nil {
			return Node{}, err
		}
	}
	if n.MTime != old.MTime && n.Type == TypeFile {
		if _, err := tx.Exec(ctx, "UPDATE versions SET mtime = ? WHERE id = ?", n.MTime, n.Version); err != nil {
			return Node{}, wrap(err, "set the time of version", n.Version)
		}
	}
	if err := t.update(ctx, tx, old, &n); err != nil || stays {
		return n, err
	}
	return n, t.opt.OnPlaced(ctx, tx, n)
}

// lockNode locks the tree and returns a node with its chain. It fails with NotFound for a node
// owned by an operation and with BadRequest for the root.
func (t *Tree) lockNode(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.NodeID) (Node, chain, error) {
	if _, err := t.allocSeqs(ctx, tx, account, 0, 0); err != nil {
		return Node{}, nil, err
	}
	n, err := t.Find(ctx, tx, account, id)
	switch {
	case err != nil:
		return Node{}, nil, err
	case n.IsRoot():
		return Node{}, nil, drive.BadField("id", drive.NotAllowed, "sent", "root")
	}
	up, err := t.readChain(ctx, tx, id)
	if err == nil && up.owned() {
		err = drive.Fail(drive.NotFound)
	}
	return n, up, err
}

// checkRev fails with Precondition {current} unless rev is the node's revision or zero.
func checkRev(n Node, rev int64) error {
	if rev != 0 && rev != n.Rev {
		return drive.Fail(drive.Precondition, "current", n.Rev)
	}
	return nil
}

// preparePlace checks that n may move to p, resolves a conflict by p's policy (ConflictReplace
// trashes the node there), and returns the name to use. up is the current chain of n.
func (t *Tree) preparePlace(ctx context.Context, tx *sqldb.Tx, n Node, up chain, p Place, below Extent) (drive.Name, error) {
	if err := t.checkCycle(ctx, tx, n, p.Parent); err != nil {
		return "", err
	}
	if err := t.checkParent(ctx, tx, n.Account, p, below); err != nil {
		return "", err
	}
	if err := t.opt.CheckAdd(ctx, tx, Folder{n.Account, p.Parent}, tx.Actor()); err != nil {
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
	if err := t.opt.CheckRemove(ctx, tx, there, tx.Actor()); err != nil {
		return "", err
	}
	was := there
	there.Trashed = t.now()
	return p.Name, t.update(ctx, tx, was, &there)
}

// checkCycle fails with Cycle if parent is the folder n or lies below it, and with ParentGone if
// parent does not exist.
func (r Reader) checkCycle(ctx context.Context, tx *sqldb.Tx, n Node, parent drive.NodeID) error {
	if !n.IsFolder() {
		return nil
	}
	up, err := r.readChain(ctx, tx, parent)
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

// Extent measures the live subtree of a node. It reads every descendant; call it outside of
// transactions.
func (r Reader) Extent(ctx context.Context, q sqldb.Querier, id drive.NodeID) (e Extent, err error) {
	err = q.QueryRow(ctx, `WITH RECURSIVE sub (id, levels, bytes) AS (
			SELECT id, 0, 0 FROM nodes WHERE id = ?
			UNION ALL
			SELECT n.id, sub.levels + 1, sub.bytes + 1 + OCTET_LENGTH(n.name)
			FROM sub JOIN nodes n ON n.parent_id = sub.id WHERE n.trashed_at = 0 AND sub.levels < ?)
		SELECT COALESCE(MAX(levels), 0), COALESCE(MAX(bytes), 0) FROM sub`, id, maxLevels).Scan(&e.Levels, &e.Bytes)
	return e, wrap(err, "measure node", id)
}
