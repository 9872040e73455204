package fsck

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
)

// treeShape is the stored and the actual shape of a tree.
type treeShape struct {
	account drive.AccountID
	count   int64 // trees.node_count
	nodes   int64 // actual nodes without the root
	tops    int64 // nodes without a parent
	root    int64 // 1: the stored root is a node without parent
	below   int64 // nodes below the root
}

// scanTreeShape reads the counts of a tree into s by calling scan, and returns the error of scan.
func scanTreeShape(s *treeShape, scan func(...any) error) error {
	return scan(&s.account, &s.count, &s.nodes, &s.tops, &s.root, &s.below)
}

// selectTreeShape selects the stored and the actual shape of a tree by account.
const selectTreeShape = `WITH RECURSIVE below (id) AS (
		SELECT root_id FROM trees WHERE account_id = ? UNION ALL SELECT n.id FROM nodes n JOIN below ON n.parent_id = below.id)
	SELECT t.account_id, t.node_count,
	(SELECT COUNT(*) - 1 FROM nodes n WHERE n.account_id = t.account_id),
	(SELECT COUNT(*) FROM nodes n WHERE n.account_id = t.account_id AND n.parent_id IS NULL),
	(SELECT COUNT(*) FROM nodes n WHERE n.id = t.root_id AND n.account_id = t.account_id AND n.parent_id IS NULL),
	(SELECT COUNT(*) - 1 FROM below)
	FROM trees t WHERE t.account_id = ?`

// checkTrees walks each tree from its root. A node that the walk does not reach is lost for its
// owner.
func (p *pass) checkTrees(ctx context.Context) error {
	const query = `SELECT account_id FROM trees WHERE account_id > ? ORDER BY account_id LIMIT ?`
	err := each(ctx, p, query, pageSize, scanAccount, func(id drive.AccountID) any { return id }, func(account drive.AccountID) error {
		if err := p.rest(ctx); err != nil {
			return err
		}
		var s treeShape
		err := scanTreeShape(&s, p.DB.QueryRow(ctx, selectTreeShape, account, account).Scan)
		switch {
		case drive.IsKind(err, drive.NotFound): // purged since
			return nil
		case err != nil:
			return err
		}
		return p.checkTree(ctx, s)
	})
	if err != nil {
		return fmt.Errorf("check trees: %w", err)
	}
	return nil
}

// scanAccount reads the id of an account by calling scan, and returns the error of scan.
func scanAccount(id *drive.AccountID, scan func(...any) error) error { return scan(id) }

// checkTree records findings (N1) if an account has not exactly one root, nodes that its root does
// not reach, or a wrong node count. Only the count has a repair.
func (p *pass) checkTree(ctx context.Context, s treeShape) error {
	if s.tops != 1 || s.root != 1 {
		if err := p.found(ctx, defect{Finding: s.finding("N1", "its root and no other", fmt.Sprintf("%d roots", s.tops))}); err != nil {
			return err
		}
	}
	if s.below != s.nodes {
		f := s.finding("N1", fmt.Sprintf("%d nodes below its root", s.nodes), fmt.Sprintf("%d nodes below its root", s.below))
		if err := p.found(ctx, defect{Finding: f}); err != nil {
			return err
		}
	}
	if s.count == s.nodes {
		return nil
	}
	return p.found(ctx, defect{Finding: s.countFinding(), fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
		return fixCount(ctx, tx, s.account, f)
	}})
}

// finding returns a finding about the tree.
func (s treeShape) finding(invariant, expected, found string) Finding {
	return Finding{Invariant: invariant, Subject: "tree of account " + s.account.String(), Expected: expected, Found: found}
}

// countFinding returns the finding of a wrong node count.
func (s treeShape) countFinding() Finding {
	return s.finding("N2", fmt.Sprintf("node count %d", s.nodes), fmt.Sprintf("node count %d", s.count))
}

// fixCount counts the nodes of an account again within tx under the lock of the ledger, stores the
// count and updates f. It returns false, and changes nothing, if the count is right by now or the
// tree is gone.
func fixCount(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, f *Finding) (bool, error) {
	if err := (quota.Ledger{}).Lock(ctx, tx, account); err != nil {
		return false, err
	}
	s := treeShape{account: account}
	err := tx.QueryRow(ctx, `SELECT t.node_count, (SELECT COUNT(*) - 1 FROM nodes n WHERE n.account_id = t.account_id)
		FROM trees t WHERE t.account_id = ?`, account).Scan(&s.count, &s.nodes)
	if drive.IsKind(err, drive.NotFound) || err == nil && s.count == s.nodes {
		return false, nil
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE trees SET node_count = ? WHERE account_id = ?`, s.nodes, account)
	}
	again := s.countFinding()
	f.Expected, f.Found, f.Repaired = again.Expected, again.Found, true
	return true, err
}

// node is a node with related rows. Nil pointers are missing rows.
type node struct {
	id            drive.NodeID
	account       drive.AccountID
	parent        drive.NodeID
	kind          string
	version       drive.VersionID
	tree          *string // root of the account's tree
	parentAccount *string // account of the parent
	parentKind    *string // type of the parent
	versionNode   *string // node of the current version
	versions      int64
}

// scanNode reads a node with its tree, parent and current version into n by calling scan, and
// returns the error of scan.
func scanNode(n *node, scan func(...any) error) error {
	return scan(&n.id, &n.account, &n.parent, &n.kind, &n.version, &n.tree, &n.parentAccount, &n.parentKind, &n.versionNode, &n.versions)
}

// checkNodes finds nodes that do not match their tree, parent or current version (N1). There is no
// repair.
func (p *pass) checkNodes(ctx context.Context) error {
	const query = `SELECT n.id, n.account_id, n.parent_id, n.type, n.version_id, t.root_id, up.account_id, up.type, v.node_id,
		EXISTS (SELECT 1 FROM versions WHERE node_id = n.id)
		FROM nodes n LEFT JOIN trees t ON t.account_id = n.account_id LEFT JOIN nodes up ON up.id = n.parent_id
		LEFT JOIN versions v ON v.id = n.version_id WHERE n.id > ? ORDER BY n.id LIMIT ?`
	err := each(ctx, p, query, pageSize, scanNode, func(n node) any { return n.id }, func(n node) error {
		p.report.Checked.Nodes++
		expected, found := n.mismatch()
		if expected == "" {
			return nil
		}
		return p.found(ctx, defect{Finding: Finding{
			Invariant: "N1", Subject: "node " + n.id.String(), Expected: expected, Found: found, Nodes: []drive.NodeID{n.id},
		}})
	})
	if err != nil {
		return fmt.Errorf("check nodes: %w", err)
	}
	return nil
}

// mismatch returns the expected and the found value of a defective node, for a finding; two empty
// texts if nothing is wrong.
func (n node) mismatch() (expected, found string) {
	switch file := n.kind == "file"; {
	case n.tree == nil:
		return "a tree of account " + n.account.String(), "none"
	case !n.parent.IsZero() && n.parentKind == nil:
		return "parent " + n.parent.String(), "no such node"
	case n.parentKind != nil && (*n.parentKind != "folder" || *n.parentAccount != n.account.String()):
		return "a folder of its account as parent", "a " + *n.parentKind + " of account " + *n.parentAccount
	case !file && (!n.version.IsZero() || n.versions != 0):
		return "a folder without versions", "versions"
	case file && n.versionNode == nil && !n.version.IsZero():
		return "version " + n.version.String(), "no such version"
	case file && (n.versionNode == nil || *n.versionNode != n.id.String()):
		return "a current version of its own", "version " + n.version.String()
	}
	return "", ""
}
