package tree

import (
	"context"
	"fmt"
	"math"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// A purge deletes from the leaves to the top, with a bounded number of rows per transaction. The
// top stays trashed and owned by its operation until its last descendant is deleted. After a crash
// the remaining nodes are still a tree, and the next PurgeStep continues.

// MarkForPurge assigns a node to an operation that will purge it; from then on it cannot be found
// or restored. It fails with NotFound if another operation owns the node, and with Precondition
// {current} if e.Rev or e.Trashed does not match. It does not call e.Check.
func (t *Tree) MarkForPurge(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.NodeID, e Expect, op drive.OperationID) (Node, error) {
	n, up, err := t.lockNode(ctx, tx, account, id)
	if err == nil {
		err = checkRev(n, e.Rev)
	}
	if err == nil && e.Trashed != 0 && e.Trashed != up.trashed() {
		err = drive.Fail(drive.Precondition, "current", n.Rev)
	}
	if err == nil && up.live() {
		err = t.opt.CheckRemove(ctx, tx, n, tx.Actor())
	}
	if err != nil {
		return Node{}, err
	}
	was := n
	if n.Trashed == 0 {
		n.Trashed = t.now()
	}
	n.Operation = op
	return n, t.update(ctx, tx, was, &n)
}

// Purged reports whether a node of the account is being purged, or was and still has its tombstone.
func (r Reader) Purged(ctx context.Context, q sqldb.Querier, account drive.AccountID, id drive.NodeID) (bool, error) {
	var n int
	err := q.QueryRow(ctx, `SELECT (SELECT COUNT(*) FROM nodes WHERE id = ? AND account_id = ? AND operation_id IS NOT NULL)
		+ (SELECT COUNT(*) FROM tombstones WHERE node_id = ? AND account_id = ?)`, id, account, id, account).Scan(&n)
	return n > 0, err
}

// ListOwned returns up to limit trashed nodes that the operation owns.
func (r Reader) ListOwned(ctx context.Context, q sqldb.Querier, account drive.AccountID, op drive.OperationID, limit int) ([]Node, error) {
	return r.queryNodes(ctx, q, "WHERE n.account_id = ? AND n.trashed_at > 0 AND n.operation_id = ? LIMIT ?", account, op, limit)
}

// Purge is the result of one purge step.
type Purge struct {
	Nodes    int64     // deleted nodes
	Versions []Version // deleted versions; the caller releases their blobs and subtracts their sizes from the ledger
	Done     bool      // the whole subtree is deleted, top included
}

// PurgeStep deletes up to limit rows (nodes and versions; at most one more) of a subtree whose top
// is trashed. A node inside that was trashed on its own is not deleted: it moves below the root and
// stays in the trash. A top that does not exist is Done; a live one is WrongState.
func (t *Tree) PurgeStep(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, top drive.NodeID, limit int) (Purge, error) {
	if _, err := t.allocSeqs(ctx, tx, account, 0, 0); err != nil {
		return Purge{}, err
	}
	n, err := t.queryNode(ctx, tx, "WHERE n.id = ? AND n.account_id = ?", top, account)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return Purge{Done: true}, nil
	case err != nil:
		return Purge{}, err
	case n.Trashed == 0 || n.IsRoot():
		return Purge{}, drive.Fail(drive.WrongState, "state", "live")
	}
	root, err := t.Root(ctx, tx, account)
	if err != nil {
		return Purge{}, err
	}
	if err := t.sums.Flush(ctx, tx); err != nil { // pending sums must be written before folders are deleted
		return Purge{}, err
	}
	p := purger{t: t, tx: tx, root: root, budget: limit}
	if p.out.Done, _, err = p.remove(ctx, n); err != nil {
		return Purge{}, fmt.Errorf("purge node %v: %w", top, err)
	}
	if err := subtractOldVersions(ctx, tx, account, p.oldVersions); err != nil {
		return Purge{}, err
	}
	if err := dropNumbers(ctx, tx, p.deleted); err != nil {
		return Purge{}, err
	}
	if err := t.sums.deleteRows(ctx, tx, p.deleted); err != nil {
		return Purge{}, err
	}
	return p.out, t.insertTombstones(ctx, tx, account, p.deleted, false)
}

// purger is the state of one purge step.
type purger struct {
	t           *Tree
	tx          *sqldb.Tx
	root        drive.NodeID // where separately trashed nodes move to; zero: they are deleted, too
	budget      int          // rows that may still be written
	deleted     []Node       // nodes deleted so far
	oldVersions int64        // deleted versions that were not a file's current one
	out         Purge
}

// remove deletes a node and its descendants, as far as the budget allows. gone reports whether all
// were deleted. If so, out is what the node counted for in the sum of its parent, which the caller
// subtracts.
func (p *purger) remove(ctx context.Context, n Node) (gone bool, out Sum, err error) {
	if n.IsFolder() {
		empty, below, err := p.removeBelow(ctx, n.ID)
		if !empty || p.budget <= 0 {
			p.t.sums.Add(p.tx, sumChange{folder: n.ID, sum: below.negated()})
			return false, Sum{}, err
		}
		out = below
	} else if bare, err := p.removeVersions(ctx, n.ID); !bare {
		return false, Sum{}, err
	}
	p.budget--
	p.deleted = append(p.deleted, n)
	p.out.Nodes++
	if out.add(n.ownSum()); n.Trashed != 0 {
		out = Sum{}
	}
	_, err = p.tx.Exec(ctx, "DELETE FROM nodes WHERE id = ?", n.ID)
	return err == nil, out, err
}

// childrenPerRead bounds how many children one statement reads; in a deep tree the rest of them
// would be read in vain.
const childrenPerRead = 64

// removeBelow deletes the descendants of a folder, as far as the budget allows. empty reports that
// none is left, and out what they counted for in the folder's sum.
func (p *purger) removeBelow(ctx context.Context, folder drive.NodeID) (empty bool, out Sum, err error) {
	for p.budget > 0 {
		kids, err := p.t.queryNodes(ctx, p.tx, "WHERE n.parent_id = ? ORDER BY n.slot LIMIT ?", folder, min(p.budget, childrenPerRead))
		if err != nil || len(kids) == 0 {
			return err == nil, out, err
		}
		for _, kid := range kids {
			if p.budget <= 0 {
				return false, out, nil
			}
			if kid.Trashed != 0 && !p.root.IsZero() {
				if err := p.moveToRoot(ctx, kid); err != nil {
					return false, out, err
				}
				continue
			}
			gone, freed, err := p.remove(ctx, kid)
			if !gone {
				return false, out, err
			}
			out.add(freed)
		}
	}
	return false, out, nil
}

// removeVersions deletes the versions of a file, oldest first, as far as the budget allows; bare
// reports that none is left. The last version is deleted together with the file, even if that is
// one row over the budget: a concurrent copy must not see a file without content.
func (p *purger) removeVersions(ctx context.Context, file drive.NodeID) (bare bool, err error) {
	rows, err := p.tx.Query(ctx, selectVersions+"WHERE node_id = ? ORDER BY id LIMIT ?", file, p.budget+1)
	all, err := sqldb.Scan(rows, err, scanVersion)
	if err != nil {
		return false, err
	}
	bare = len(all) <= p.budget
	all = all[:min(len(all), p.budget)]
	for _, v := range all {
		if _, err := p.tx.Exec(ctx, "DELETE FROM versions WHERE id = ?", v.ID); err != nil {
			return false, err
		}
	}
	if p.oldVersions += int64(len(all)); bare && len(all) > 0 {
		p.oldVersions-- // the current one is not an old version
	}
	p.budget -= len(all)
	p.out.Versions = append(p.out.Versions, all...)
	return bare, nil
}

// moveToRoot moves a node that was trashed before the folder above it to the root, still trashed,
// so that it survives the deletion of the folder. It costs one row of p.budget.
func (p *purger) moveToRoot(ctx context.Context, n Node) error {
	p.budget--
	was := n
	n.Parent = p.root
	return p.t.update(ctx, p.tx, was, &n)
}

// PurgeAll deletes up to limit rows of an account: tombstones, nodes, versions, trash and finally
// the tree itself. It leaves no tombstones. Repeat it until Done. An account without a tree is
// Done.
func (t *Tree) PurgeAll(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, limit int) (Purge, error) {
	root, err := t.Root(ctx, tx, account)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return Purge{Done: true}, nil
	case err != nil:
		return Purge{}, err
	}
	forgotten, err := t.DropTombstones(ctx, tx, account, math.MaxInt64, limit)
	if err != nil || forgotten > 0 {
		return Purge{}, err
	}
	if err := t.sums.Flush(ctx, tx); err != nil {
		return Purge{}, err
	}
	p := purger{t: t, tx: tx, budget: limit}
	gone, _, err := p.remove(ctx, Node{ID: root, Account: account, Type: TypeFolder})
	if err != nil {
		return Purge{}, fmt.Errorf("purge the tree of %v: %w", account, err)
	}
	if err := subtractOldVersions(ctx, tx, account, p.oldVersions); err != nil {
		return Purge{}, err
	}
	if err := dropNumbers(ctx, tx, p.deleted); err != nil {
		return Purge{}, err
	}
	if err := t.sums.deleteRows(ctx, tx, p.deleted); err != nil {
		return Purge{}, err
	}
	if !gone {
		_, err = t.allocSeqs(ctx, tx, account, 0, -p.out.Nodes)
		return p.out, err
	}
	p.out.Done = true
	if _, err := tx.Exec(ctx, "DELETE FROM old_versions WHERE account_id = ?", account); err != nil {
		return p.out, wrap(err, "delete the count of versions of", account)
	}
	if _, err := tx.Exec(ctx, "DELETE FROM due WHERE account_id = ?", account); err != nil {
		return p.out, wrap(err, "delete what is due of", account)
	}
	_, err = tx.Exec(ctx, "DELETE FROM trees WHERE account_id = ?", account)
	return p.out, wrap(err, "delete the tree of", account)
}

// insertTombstones inserts a tombstone for each node and reports the effects. handed tells that the
// nodes moved to another account, not that they were deleted.
func (t *Tree) insertTombstones(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, gone []Node, handed bool) error {
	n := int64(len(gone))
	if n == 0 {
		return nil
	}
	last, err := t.allocSeqs(ctx, tx, account, n, -n)
	if err != nil {
		return err
	}
	now := t.now()
	for i, node := range gone {
		node.Seq = last - n + 1 + int64(i)
		if _, err := tx.Exec(ctx, "INSERT INTO tombstones (account_id, seq, node_id, deleted_at) VALUES (?, ?, ?, ?)",
			account, node.Seq, node.ID, now); err != nil {
			return wrap(err, "bury node", node.ID)
		}
		if handed {
			t.sums.nodeLeft(tx, node)
		}
		t.opt.OnEffect(tx, Effect{Node: node, Before: node, Deleted: true, HandedOver: handed})
	}
	return addDue(ctx, tx, Due{DueTombstones, account.String(), account, now})
}

// DropTombstones drops up to limit tombstones of the account older than before, oldest first, and
// returns their number. Feed positions before them expire.
func (t *Tree) DropTombstones(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, before drive.Time, limit int) (int64, error) {
	var last int64
	err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(seq), 0) FROM (SELECT seq, deleted_at FROM tombstones WHERE account_id = ?
		ORDER BY seq LIMIT ?) oldest WHERE deleted_at < ?`, account, limit, before).Scan(&last)
	if err != nil || last == 0 {
		return 0, err
	}
	if _, err := tx.Exec(ctx, "UPDATE trees SET forgotten = ? WHERE account_id = ?", last, account); err != nil {
		return 0, fmt.Errorf("forget tombstones: %w", err)
	}
	return tx.Exec(ctx, "DELETE FROM tombstones WHERE account_id = ? AND seq <= ?", account, last)
}
