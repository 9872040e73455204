package tree

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// A drive is handed over to another account with a bounded number of rows per transaction. A file
// keeps its id, versions, history and trash time. A folder does not: it cannot be in two accounts
// while its children move, so a new folder of the same name is created in the other account, and
// the old one is deleted once empty. After each transaction every node is in the same account as
// its parent (N1).

// Handover names the accounts of a handover and the target folder. The caller holds the locks on
// both ledgers.
type Handover struct {
	From, To drive.AccountID
	Folder   drive.NodeID
}

// HandoverChildren returns up to limit children of a folder to hand over, trashed ones first. It
// skips children owned by an operation, which purges or builds them.
func (r Reader) HandoverChildren(ctx context.Context, q sqldb.Querier, folder drive.NodeID, limit int) ([]Node, error) {
	return r.queryNodes(ctx, q, "WHERE n.parent_id = ? AND n.operation_id IS NULL ORDER BY n.slot LIMIT ?", folder, limit)
}

// HandedFiles is the result of HandFiles.
type HandedFiles struct {
	Files    []Node
	Versions int64          // number of versions of the files
	Size     drive.ByteSize // of the versions; the caller moves it from one ledger to the other
}

// HandFiles moves files with all their versions: the first of all, with up to limit versions in
// total, but at least one file. A file whose name is taken gets a free one. It fails with TooLarge
// if the receiver would exceed its limit of nodes or old versions.
func (t *Tree) HandFiles(ctx context.Context, tx *sqldb.Tx, h Handover, all []Node, limit int) (out HandedFiles, err error) {
	if len(all) == 0 {
		return out, nil
	}
	if out, err = firstFiles(ctx, tx, all, limit); err != nil {
		return out, fmt.Errorf("measure files that are handed over: %w", err)
	}
	all, versions := out.Files, out.Versions
	marks, in := sqldb.ListArgs(idsOf(all))
	n := int64(len(all))
	// Not counted among the changes of the day: an administrator asked for the handover.
	last, err := seqRequest{n: n, growth: n}.alloc(ctx, tx, t, h.To)
	if err != nil {
		return out, err
	}
	for i, was := range all {
		if err := t.handFile(ctx, tx, h, was, last-n+1+int64(i)); err != nil {
			return out, err
		}
	}
	for _, query := range []string{
		"UPDATE versions SET account_id = ? WHERE node_id IN (" + marks + ")",
		"UPDATE due SET account_id = ? WHERE kind = 'versions' AND id IN (" + marks + ")",
	} {
		if _, err := tx.Exec(ctx, query, append([]any{h.To}, in...)...); err != nil {
			return out, fmt.Errorf("hand versions over: %w", err)
		}
	}
	// A file that returns to an earlier account has a tombstone there.
	if _, err := tx.Exec(ctx, "DELETE FROM tombstones WHERE node_id IN ("+marks+") AND account_id = ?", append(in, h.To)...); err != nil {
		return out, fmt.Errorf("take tombstones away: %w", err)
	}
	if err := subtractOldVersions(ctx, tx, h.From, versions-n); err != nil {
		return out, err
	}
	if err := t.addOldVersions(ctx, tx, h.To, versions-n); err != nil {
		return out, err
	}
	return out, t.insertTombstones(ctx, tx, h.From, all, true)
}

// firstFiles returns the longest beginning of all whose files have at most limit versions together,
// and the number and total size of these versions. The first file is always included, even if it
// has more. all must not be empty.
func firstFiles(ctx context.Context, q sqldb.Querier, all []Node, limit int) (out HandedFiles, err error) {
	type sum struct {
		node     drive.NodeID
		versions int64
		size     drive.ByteSize
	}
	marks, in := sqldb.ListArgs(idsOf(all))
	rows, err := q.Query(ctx, "SELECT node_id, COUNT(*), SUM(size) FROM versions WHERE node_id IN ("+marks+") GROUP BY node_id", in...)
	sums, err := sqldb.Scan(rows, err, func(s *sum, scan func(...any) error) error { return scan(&s.node, &s.versions, &s.size) })
	if err != nil {
		return out, err
	}
	of := make(map[drive.NodeID]sum, len(sums))
	for _, s := range sums {
		of[s.node] = s
	}
	for i, n := range all {
		if i > 0 && out.Versions+of[n.ID].versions > int64(limit) {
			break
		}
		out.Files = all[:i+1]
		out.Versions += of[n.ID].versions
		out.Size += of[n.ID].size
	}
	return out, nil
}

// idsOf returns the ids of the nodes, in their order.
func idsOf(all []Node) []drive.NodeID {
	ids := make([]drive.NodeID, len(all))
	for i, n := range all {
		ids[i] = n.ID
	}
	return ids
}

// handFile moves the row of one file to the receiving account and folder, under a free name, with
// seq as its number in that tree, and reports the effect there. The caller handles versions, the
// old tree and quotas.
func (t *Tree) handFile(ctx context.Context, tx *sqldb.Tx, h Handover, was Node, seq int64) (err error) {
	n := was
	n.Account, n.Parent, n.Seq, n.Rev, n.Updated = h.To, h.Folder, seq, was.Rev+1, t.now()
	if n.Name, err = t.freeNameIn(ctx, tx, h, n); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE nodes SET account_id = ?, parent_id = ?, name = ?, name_fold = ?, slot = ?, rev = ?, seq = ?, updated_at = ?
		WHERE id = ?`, n.Account, n.Parent, n.Name, n.Name.Fold(), n.slot(), n.Rev, n.Seq, n.Updated, n.ID)
	if err != nil {
		return wrap(err, "hand over node", n.ID)
	}
	t.sums.nodeCreated(tx, n)
	t.opt.OnEffect(tx, Effect{Node: n, HandedOver: true})
	return t.addDueOldTrash(ctx, tx, n)
}

// freeNameIn returns the name that n gets in the target folder: its own unless that is taken.
func (t *Tree) freeNameIn(ctx context.Context, tx *sqldb.Tx, h Handover, n Node) (drive.Name, error) {
	if n.Trashed != 0 {
		return n.Name, nil
	}
	_, taken, err := t.Child(ctx, tx, h.To, h.Folder, n.Name)
	if err != nil || !taken {
		return n.Name, err
	}
	return t.freeName(ctx, tx, h.To, Place{Parent: h.Folder, Name: n.Name}, n.Type)
}

// HandFolder creates a folder with the name, times and trash state of was in the target folder of
// h, and returns it. was itself and its children stay. A taken name is changed; it fails as
// allocSeqs does.
func (t *Tree) HandFolder(ctx context.Context, tx *sqldb.Tx, h Handover, was Node) (Node, error) {
	seq, err := seqRequest{n: 1, growth: 1}.alloc(ctx, tx, t, h.To)
	if err != nil {
		return Node{}, err
	}
	n := t.newNode(h.To, h.Folder, was.Name, TypeFolder)
	n.carry(was)
	n.Seq, n.Created, n.Trashed = seq, was.Created, was.Trashed
	if n.Name, err = t.freeNameIn(ctx, tx, h, n); err != nil {
		return Node{}, err
	}
	if err := t.insert(ctx, tx, Effect{Node: n, From: was.ID, HandedOver: true}); err != nil {
		return Node{}, err
	}
	return n, t.addDueOldTrash(ctx, tx, n)
}

// DeleteEmptyFolder deletes a folder whose contents were handed over and leaves a tombstone. left
// reports that the folder does not exist any more: it was deleted now or before. It is false,
// without an error, if the folder is not empty.
func (t *Tree) DeleteEmptyFolder(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.NodeID) (left bool, err error) {
	n, err := t.queryNode(ctx, tx, "WHERE n.id = ? AND n.account_id = ?", id, account)
	if drive.IsKind(err, drive.NotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	empty, err := t.IsEmpty(ctx, tx, id)
	if err != nil || !empty {
		return false, err
	}
	if err := t.sums.Flush(ctx, tx); err != nil { // the sums of folders above must include what left this folder
		return false, err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM nodes WHERE id = ?", id); err != nil {
		return false, wrap(err, "leave folder", id)
	}
	if err := dropNumbers(ctx, tx, []Node{n}); err != nil {
		return false, err
	}
	if err := t.sums.deleteRows(ctx, tx, []Node{n}); err != nil {
		return false, err
	}
	return true, t.insertTombstones(ctx, tx, account, []Node{n}, true)
}

// IsEmpty reports whether a folder has no children at all: live, trashed, or owned by an operation.
func (r Reader) IsEmpty(ctx context.Context, q sqldb.Querier, folder drive.NodeID) (empty bool, err error) {
	err = q.QueryRow(ctx, "SELECT NOT EXISTS (SELECT 1 FROM nodes WHERE parent_id = ?)", folder).Scan(&empty)
	return empty, wrap(err, "look into folder", folder)
}

// NodeCount returns the number of nodes of an account, trash included, without the root.
func (r Reader) NodeCount(ctx context.Context, q sqldb.Querier, account drive.AccountID) (n int64, err error) {
	err = q.QueryRow(ctx, "SELECT node_count FROM trees WHERE account_id = ?", account).Scan(&n)
	return n, wrap(err, "count the nodes of", account)
}

// addDueOldTrash inserts a due row for the account of a trashed node, or moves the existing row
// back to the time at which the node was trashed, which may be long ago. For a live node it does
// nothing.
func (t *Tree) addDueOldTrash(ctx context.Context, tx *sqldb.Tx, n Node) error {
	if n.Trashed == 0 {
		return nil
	}
	if err := t.addDueTrash(ctx, tx, n); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "UPDATE due SET since = ? WHERE kind = ? AND id = ? AND since > ?", n.Trashed, DueTrash, n.Account.String(), n.Trashed)
	return wrap(err, "record old trash of", n.Account)
}

// addOldVersions adds n old versions from another account to the account's count. It fails with
// TooLarge {field: versions, limit, sent} if that exceeds MaxOldVersions.
func (t *Tree) addOldVersions(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, n int64) error {
	if n <= 0 {
		return nil
	}
	changed, err := tx.Exec(ctx, "UPDATE old_versions SET n = n + ? WHERE account_id = ? AND n + ? <= ?", n, account, n, t.opt.MaxOldVersions)
	if err == nil && changed == 0 && n <= t.opt.MaxOldVersions {
		var made bool
		if made, err = tx.InsertNew(ctx, "INSERT INTO old_versions (account_id, n) VALUES (?, ?)", account, n); made {
			changed = 1
		}
	}
	if err == nil && changed == 0 {
		return drive.Fail(drive.TooLarge, "field", "versions", "reason", "versions", "limit", t.opt.MaxOldVersions, "sent", t.opt.MaxOldVersions+n)
	}
	return wrap(err, "count old versions of", account)
}
