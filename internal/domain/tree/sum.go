package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// folder_sums has a row for each folder whose sum has been computed: the totals of its live
// descendants, as if the folder itself were live, and the seq of the last change among them. A
// transaction adds its changes to the rows of the changed folder and of those above it, up to the
// first trashed one, in one update at its end. So a row is always exact.
//
// If a folder has no row, none above it has one, up to the first trashed folder. Moving a folder
// without a row into another folder deletes the rows above its new place.

// Sum is the total of the live descendants of a folder; of a trashed folder, of its former ones.
type Sum struct {
	Files, Folders int64
	Size           drive.ByteSize // of the current versions
}

// add adds other to s.
func (s *Sum) add(other Sum) {
	s.Files, s.Folders, s.Size = s.Files+other.Files, s.Folders+other.Folders, s.Size+other.Size
}

// negated returns -s.
func (s Sum) negated() Sum { return Sum{-s.Files, -s.Folders, -s.Size} }

// ChangeTag identifies the state of a folder and its live descendants, like an ETag. It changes
// with every change among them, because each change has a higher seq.
type ChangeTag struct {
	Seq   int64 // of the last change of the folder or a descendant
	Nodes int64 // descendants
	Size  drive.ByteSize
}

// sumTracker collects the sum changes of a transaction and applies them before it commits.
type sumTracker struct{ sqldb.Deferred[sumChange] }

// sumChange is a change of the direct children of a folder.
type sumChange struct {
	folder drive.NodeID
	isNew  bool  // the folder is new and gets a row
	seq    int64 // of the change
	sum    Sum   // to be added to the folder's sum
}

// ownSum returns what a live node adds to the sum of its parent, without its descendants.
func (n Node) ownSum() Sum {
	if n.IsFolder() {
		return Sum{Folders: 1}
	}
	return Sum{Files: 1, Size: n.Size}
}

// nodeCreated adds a new node.
func (s *sumTracker) nodeCreated(tx *sqldb.Tx, n Node) {
	if n.IsFolder() {
		s.Add(tx, sumChange{folder: n.ID, isNew: true})
	}
	if n.Trashed == 0 {
		s.Add(tx, sumChange{folder: n.Parent, seq: n.Seq, sum: n.ownSum()})
	}
}

// nodeLeft subtracts a node without descendants that leaves the account.
func (s *sumTracker) nodeLeft(tx *sqldb.Tx, n Node) {
	if n.Trashed == 0 {
		s.Add(tx, sumChange{folder: n.Parent, seq: n.Seq, sum: n.ownSum().negated()})
	}
}

// nodeChanged records a changed node. Call it before the node's row is written: the sum of a moved
// folder moves along.
func (s *sumTracker) nodeChanged(ctx context.Context, tx *sqldb.Tx, was, n Node) error {
	old, now := was.ownSum(), n.ownSum()
	if stays := was.Parent == n.Parent && (was.Trashed == 0) == (n.Trashed == 0); n.IsFolder() && !stays && (was.Trashed == 0 || n.Trashed == 0) {
		if err := s.Flush(ctx, tx); err != nil {
			return err
		}
		below, known, err := sumOf(ctx, tx, n.ID)
		if err == nil && !known && n.Trashed == 0 {
			err = deleteAncestorSums(ctx, tx, n.Parent)
		}
		if err != nil {
			return err
		}
		old.add(below)
		now.add(below)
	}
	if was.Trashed == 0 {
		s.Add(tx, sumChange{folder: was.Parent, seq: n.Seq, sum: old.negated()})
	}
	if n.Trashed == 0 {
		s.Add(tx, sumChange{folder: n.Parent, seq: n.Seq, sum: now})
	}
	return nil
}

// sumOf returns the stored sum of a folder; known is false if it has no row.
func sumOf(ctx context.Context, q sqldb.Querier, folder drive.NodeID) (s Sum, known bool, err error) {
	err = q.QueryRow(ctx, "SELECT files, folders, size FROM folder_sums WHERE folder_id = ?", folder).Scan(&s.Files, &s.Folders, &s.Size)
	if drive.IsKind(err, drive.NotFound) {
		return Sum{}, false, nil
	}
	return s, err == nil, wrap(err, "read the sum of folder", folder)
}

// insertSums is the beginning of the statement that adds sum rows; the caller appends values or a
// query.
const insertSums = "INSERT INTO folder_sums (folder_id, seq, files, folders, size)"

// applySums adds the changes of a transaction to the rows of their folders and of all folders
// above.
func applySums(ctx context.Context, tx *sqldb.Tx, changes []sumChange) error {
	var made [][]any
	direct := map[drive.NodeID]sumChange{}
	for _, c := range changes {
		if c.isNew {
			made = append(made, []any{c.folder, 0, 0, 0, 0})
			continue
		}
		d := direct[c.folder]
		d.sum.add(c.sum)
		d.seq = max(d.seq, c.seq)
		direct[c.folder] = d
	}
	if err := tx.InsertRows(ctx, insertSums, made); err != nil {
		return fmt.Errorf("insert the sums of %d folders: %w", len(made), err)
	}
	above, err := parentsOf(ctx, tx, direct)
	if err != nil {
		return err
	}
	total := map[drive.NodeID]sumChange{}
	for folder, d := range direct {
		for level := 0; !folder.IsZero(); level++ {
			parent, there := above[folder]
			if !there { // deleted after the change
				break
			}
			if level > len(above) {
				return fmt.Errorf("folder %v lies below itself", folder)
			}
			at := total[folder]
			at.sum.add(d.sum)
			at.seq = max(at.seq, d.seq)
			total[folder], folder = at, parent
		}
	}
	same := map[sumChange][]drive.NodeID{}
	for folder, c := range total {
		if c != (sumChange{}) {
			same[c] = append(same[c], folder)
		}
	}
	for c, folders := range same {
		for some := range slices.Chunk(folders, idsPerStatement) {
			marks, in := sqldb.ListArgs(some)
			if _, err := tx.Exec(ctx, `UPDATE folder_sums SET seq = CASE WHEN seq < ? THEN ? ELSE seq END, files = files + ?, folders = folders + ?,
				size = size + ? WHERE folder_id IN (`+marks+")", append([]any{c.seq, c.seq, c.sum.Files, c.sum.Folders, c.sum.Size}, in...)...); err != nil {
				return fmt.Errorf("add to the sums of %d folders: %w", len(some), err)
			}
		}
	}
	return nil
}

// selectAncestors selects folders and their ancestors up to the first trashed one.
const selectAncestors = `WITH RECURSIVE up (id, parent_id, trashed_at) AS (
		SELECT id, parent_id, trashed_at FROM nodes WHERE id IN (%s)
		UNION
		SELECT n.id, n.parent_id, n.trashed_at FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.trashed_at = 0)
	SELECT id, CASE WHEN trashed_at = 0 THEN parent_id END FROM up`

// parentsOf returns the parent of each folder and of each folder above, by id. Roots and trashed
// folders map to the zero id.
func parentsOf(ctx context.Context, tx *sqldb.Tx, folders map[drive.NodeID]sumChange) (map[drive.NodeID]drive.NodeID, error) {
	ids := make([]drive.NodeID, 0, len(folders))
	for id := range folders {
		ids = append(ids, id)
	}
	above := make(map[drive.NodeID]drive.NodeID, 2*len(ids))
	for some := range slices.Chunk(ids, idsPerStatement) {
		marks, in := sqldb.ListArgs(some)
		rows, err := tx.Query(ctx, fmt.Sprintf(selectAncestors, marks), in...)
		found, err := sqldb.Scan(rows, err, func(p *[2]drive.NodeID, scan func(...any) error) error { return scan(&p[0], &p[1]) })
		if err != nil {
			return nil, fmt.Errorf("climb from %d folders: %w", len(some), err)
		}
		for _, p := range found {
			above[p[0]] = p[1]
		}
	}
	return above, nil
}

// deleteAncestorSums deletes the rows of a folder and of those above it, because a folder without a
// row moves into it.
func deleteAncestorSums(ctx context.Context, tx *sqldb.Tx, folder drive.NodeID) error {
	above, err := parentsOf(ctx, tx, map[drive.NodeID]sumChange{folder: {}})
	if err != nil {
		return err
	}
	ids := make([]drive.NodeID, 0, len(above))
	for id := range above {
		ids = append(ids, id)
	}
	return deleteSums(ctx, tx, ids)
}

// deleteRows first writes the changes of sums that are pending in tx, and then deletes the rows of
// the folders in gone; files in gone are ignored. Its error joins those of both steps.
func (s *sumTracker) deleteRows(ctx context.Context, tx *sqldb.Tx, gone []Node) error {
	var ids []drive.NodeID
	for _, n := range gone {
		if n.IsFolder() {
			ids = append(ids, n.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return errors.Join(s.Flush(ctx, tx), deleteSums(ctx, tx, ids))
}

// deleteSums deletes the stored sums of folders, in statements of idsPerStatement ids. Folders
// without rows are ignored.
func deleteSums(ctx context.Context, tx *sqldb.Tx, folders []drive.NodeID) error {
	for some := range slices.Chunk(folders, idsPerStatement) {
		marks, in := sqldb.ListArgs(some)
		if _, err := tx.Exec(ctx, "DELETE FROM folder_sums WHERE folder_id IN ("+marks+")", in...); err != nil {
			return fmt.Errorf("delete the sums of %d folders: %w", len(some), err)
		}
	}
	return nil
}

// FolderSum is the stored sum of a folder.
type FolderSum struct {
	Account drive.AccountID
	Seq     int64 // of the last change of the folder or a descendant
	Sum     Sum
	Known   bool // false: the sum has not been computed; see StoreSums
}

// ChangeTag returns the change tag of a folder whose sum is known.
func (s FolderSum) ChangeTag() ChangeTag {
	return ChangeTag{s.Seq, s.Sum.Files + s.Sum.Folders, s.Sum.Size}
}

// Sums returns the stored sums of folders by id, of any account, live or trashed. A node that is
// not a folder has no entry. A folder without a stored sum has an entry with Known false.
func Sums(ctx context.Context, q sqldb.Querier, folders []drive.NodeID) (map[drive.NodeID]FolderSum, error) {
	type row struct {
		id drive.NodeID
		FolderSum
	}
	found := make(map[drive.NodeID]FolderSum, len(folders))
	for some := range slices.Chunk(folders, idsPerStatement) {
		marks, in := sqldb.ListArgs(some)
		rows, err := q.Query(ctx, `SELECT n.id, n.account_id, CASE WHEN s.seq > n.seq THEN s.seq ELSE n.seq END, COALESCE(s.files, 0),
			COALESCE(s.folders, 0), COALESCE(s.size, 0), s.folder_id IS NOT NULL
			FROM nodes n LEFT JOIN folder_sums s ON s.folder_id = n.id WHERE n.id IN (`+marks+`) AND n.type = 'folder'`, in...)
		all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error {
			return scan(&r.id, &r.Account, &r.Seq, &r.Sum.Files, &r.Sum.Folders, &r.Sum.Size, &r.Known)
		})
		if err != nil {
			return nil, fmt.Errorf("read the sums of %d folders: %w", len(some), err)
		}
		for _, one := range all {
			found[one.id] = one.FolderSum
		}
	}
	return found, nil
}

// FoldersWithoutSum returns up to limit live child folders, of the given folders, that have no
// stored sum.
func FoldersWithoutSum(ctx context.Context, q sqldb.Querier, in []drive.NodeID, limit int) ([]drive.NodeID, error) {
	marks, args := sqldb.ListArgs(in)
	rows, err := q.Query(ctx, `SELECT n.id FROM nodes n LEFT JOIN folder_sums s ON s.folder_id = n.id WHERE n.parent_id IN (`+marks+`)
		AND n.type = 'folder' AND n.trashed_at = 0 AND s.folder_id IS NULL LIMIT ?`, append(args, limit)...)
	ids, err := sqldb.Scan(rows, err, func(id *drive.NodeID, scan func(...any) error) error { return scan(id) })
	if err != nil {
		return nil, fmt.Errorf("look for folders that were not added up: %w", err)
	}
	return ids, nil
}

// ComputedSums holds sums that ComputeSums computed, for StoreSums.
type ComputedSums struct {
	account drive.AccountID
	folders []drive.NodeID
	sumRows [][]any     // rows of folder_sums
	version treeVersion // of the tree when the sums were read
}

// treeVersion changes with each change of a tree.
type treeVersion struct{ seq, nodes int64 }

// ComputeSums computes the sums of folders of an account from their children, for StoreSums. It
// skips a folder that has a stored sum, and one with a live child folder without one (see
// FoldersWithoutSum). It reads all children with one statement; call it outside of transactions
// where there may be many.
func ComputeSums(ctx context.Context, q sqldb.Querier, account drive.AccountID, folders []drive.NodeID) (ComputedSums, error) {
	type row struct {
		id       drive.NodeID
		seq      int64
		sum      Sum
		complete bool
		at       treeVersion
	}
	a := ComputedSums{account: account, folders: folders}
	marks, in := sqldb.ListArgs(folders)
	rows, err := q.Query(ctx, `SELECT f.id, COALESCE(MAX(CASE WHEN s.seq > n.seq THEN s.seq ELSE n.seq END), 0),
			COALESCE(SUM(CASE n.type WHEN 'file' THEN 1 ELSE s.files END), 0), COALESCE(SUM(CASE n.type WHEN 'folder' THEN 1 + s.folders ELSE 0 END), 0),
			COALESCE(SUM(CASE n.type WHEN 'file' THEN v.size ELSE s.size END), 0),
			COALESCE(SUM(CASE WHEN n.type = 'folder' AND s.folder_id IS NULL THEN 1 ELSE 0 END), 0) = 0, MAX(t.seq), MAX(t.node_count)
		FROM nodes f JOIN trees t ON t.account_id = f.account_id LEFT JOIN nodes n ON n.parent_id = f.id AND n.trashed_at = 0
		LEFT JOIN versions v ON v.id = n.version_id LEFT JOIN folder_sums s ON s.folder_id = n.id
		WHERE f.id IN (`+marks+`) AND f.account_id = ? AND f.type = 'folder' AND NOT EXISTS (SELECT 1 FROM folder_sums o WHERE o.folder_id = f.id)
		GROUP BY f.id`, append(in, account)...)
	all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error {
		return scan(&r.id, &r.seq, &r.sum.Files, &r.sum.Folders, &r.sum.Size, &r.complete, &r.at.seq, &r.at.nodes)
	})
	if err != nil {
		return ComputedSums{}, fmt.Errorf("add up %d folders: %w", len(folders), err)
	}
	for _, r := range all {
		if a.version = r.at; r.complete {
			a.sumRows = append(a.sumRows, []any{r.id, r.seq, r.sum.Files, r.sum.Folders, r.sum.Size})
		}
	}
	return a, nil
}

// StoreSums stores sums that ComputeSums computed. stale reports that nothing was written because
// the tree has changed, or a folder got a row, since they were read: the caller computes them
// again.
func StoreSums(ctx context.Context, tx *sqldb.Tx, a ComputedSums) (stale bool, err error) {
	if len(a.sumRows) == 0 {
		return false, nil
	}
	at, err := lockTree(ctx, tx, a.account)
	if err != nil || at != a.version {
		return err == nil, err
	}
	marks, in := sqldb.ListArgs(a.folders)
	if err := tx.QueryRow(ctx, "SELECT COUNT(*) > 0 FROM folder_sums WHERE folder_id IN ("+marks+")", in...).Scan(&stale); err != nil || stale {
		return stale, wrap(err, "look for the sums of", a.account)
	}
	if err := tx.InsertRows(ctx, insertSums, a.sumRows); err != nil {
		return false, fmt.Errorf("insert the sums of %d folders: %w", len(a.sumRows), err)
	}
	return false, nil
}

// Lock locks a tree: no other transaction changes its nodes or sums until this one ends. An account
// without a tree has nothing to lock.
func Lock(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	_, err := lockTree(ctx, tx, account)
	return err
}

// lockTree locks the account's row of trees until tx ends, which excludes concurrent changes of the
// tree, and returns the tree's version; zero and no error if the account has no tree.
func lockTree(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) (at treeVersion, err error) {
	err = tx.QueryRow(ctx, "SELECT seq, node_count FROM trees WHERE account_id = ?"+tx.ForUpdate(), account).Scan(&at.seq, &at.nodes)
	if drive.IsKind(err, drive.NotFound) {
		return treeVersion{}, nil
	}
	return at, wrap(err, "lock the tree of", account)
}

// ComputeSum returns the sum of the live descendants of a node, and the seq of the last change of
// the node or a descendant, without using the node's own row. It reads descendants down to folders
// that have a row, some 100 ms for 100,000 nodes. For a missing node it returns zeros.
func ComputeSum(ctx context.Context, q sqldb.Querier, id drive.NodeID) (seq int64, s Sum, err error) {
	err = q.QueryRow(ctx, `WITH RECURSIVE sub (id, levels) AS (
			SELECT id, 0 FROM nodes WHERE id = ?
			UNION ALL
			SELECT n.id, sub.levels + 1 FROM sub LEFT JOIN folder_sums s ON s.folder_id = sub.id JOIN nodes n ON n.parent_id = sub.id
			WHERE s.folder_id IS NULL AND n.trashed_at = 0 AND sub.levels < ?)
		SELECT COALESCE(MAX(CASE WHEN s.seq > n.seq THEN s.seq ELSE n.seq END), 0),
			COALESCE(SUM(CASE WHEN n.type = 'folder' THEN COALESCE(s.files, 0) WHEN sub.levels > 0 THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN n.type <> 'folder' THEN 0 ELSE COALESCE(s.folders, 0) + CASE WHEN sub.levels > 0 THEN 1 ELSE 0 END END), 0),
			COALESCE(SUM(CASE WHEN n.type = 'folder' THEN COALESCE(s.size, 0) WHEN sub.levels > 0 THEN COALESCE(v.size, 0) ELSE 0 END), 0)
		FROM sub CROSS JOIN nodes n ON n.id = sub.id LEFT JOIN folder_sums s ON s.folder_id = n.id LEFT JOIN versions v ON v.id = n.version_id`,
		id, maxLevels).Scan(&seq, &s.Files, &s.Folders, &s.Size)
	return seq, s, wrap(err, "walk below node", id)
}

// ChangeTagOf returns the change tag of one node without Size; Nodes includes the node itself. It
// reads the descendants like ComputeSum. A missing or trashed node has the zero ChangeTag.
func ChangeTagOf(ctx context.Context, q sqldb.Querier, id drive.NodeID) (ChangeTag, error) {
	var live bool
	err := q.QueryRow(ctx, "SELECT trashed_at = 0 FROM nodes WHERE id = ?", id).Scan(&live)
	if err != nil || !live {
		if drive.IsKind(err, drive.NotFound) {
			err = nil
		}
		return ChangeTag{}, wrap(err, "sum up node", id)
	}
	seq, s, err := ComputeSum(ctx, q, id)
	return ChangeTag{Seq: seq, Nodes: s.Files + s.Folders + 1}, err
}
