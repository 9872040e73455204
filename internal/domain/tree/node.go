package tree

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Type distinguishes files and folders.
type Type string

// The types.
const (
	TypeFile   Type = "file"
	TypeFolder Type = "folder"
)

// Node is the current state of a file or folder.
type Node struct {
	ID        drive.NodeID
	Account   drive.AccountID
	Parent    drive.NodeID // zero: the root
	Name      drive.Name   // empty: the root
	Type      Type
	Rev       int64 // grows with every change of the node
	Seq       int64 // the tree's seq of the node's last change
	MTime     drive.Time
	Created   drive.Time
	Updated   drive.Time
	Trashed   drive.Time        // when the node itself was trashed; zero for descendants of a trashed folder
	Operation drive.OperationID // the operation that builds or purges the trashed node; zero: none

	// Of the current version; zero for a folder.
	Version drive.VersionID
	Blob    drive.BlobID
	Size    drive.ByteSize
	Mime    string
}

// IsRoot reports whether the node is the root of its tree.
func (n Node) IsRoot() bool { return n.Parent.IsZero() }

// IsFolder reports whether the node is a folder.
func (n Node) IsFolder() bool { return n.Type == TypeFolder }

// slot returns the value of the column that keeps live names unique. No name contains a slash.
func (n Node) slot() string {
	if n.Trashed != 0 {
		return "/" + n.ID.String()
	}
	return string(n.Name)
}

// nodeColumns lists the columns that scanNode reads. selectNodes starts most statements that read
// nodes.
const nodeColumns = `n.id, n.account_id, n.parent_id, n.name, n.type, n.rev, n.seq, n.mtime, n.created_at, n.updated_at,
	n.trashed_at, n.operation_id, n.version_id, v.blob_id, COALESCE(v.size, 0), COALESCE(v.mime, '')`

// selectNodes is the query for nodeColumns; the caller appends the conditions.
const selectNodes = `SELECT ` + nodeColumns + ` FROM nodes n LEFT JOIN versions v ON v.id = n.version_id `

// scanNode reads nodeColumns into n.
func scanNode(n *Node, scan func(...any) error) error {
	return scan(&n.ID, &n.Account, &n.Parent, &n.Name, &n.Type, &n.Rev, &n.Seq, &n.MTime, &n.Created, &n.Updated,
		&n.Trashed, &n.Operation, &n.Version, &n.Blob, &n.Size, &n.Mime)
}

// queryNode returns the node that a WHERE clause selects, or NotFound. n is the alias of nodes, v
// of versions.
func (r Reader) queryNode(ctx context.Context, q sqldb.Querier, where string, args ...any) (n Node, err error) {
	err = scanNode(&n, q.QueryRow(ctx, selectNodes+where, args...).Scan)
	return n, err
}

// queryNodes returns the nodes that a WHERE clause selects. n is the alias of nodes, v of versions.
func (r Reader) queryNodes(ctx context.Context, q sqldb.Querier, where string, args ...any) ([]Node, error) {
	rows, err := q.Query(ctx, selectNodes+where, args...)
	return sqldb.Scan(rows, err, scanNode)
}

// insertNodes is the beginning of a statement that inserts the values of nodeRow. It writes the row
// and nothing else: folder totals and Options.OnEffect are the caller's task.
const insertNodes = `INSERT INTO nodes (id, account_id, parent_id, name, name_fold, slot, type, version_id, mtime, rev, seq,
	created_at, updated_at, trashed_at, operation_id)`

// nodeRow returns the values of insertNodes.
func nodeRow(n Node) []any {
	return []any{
		n.ID, n.Account, n.Parent, n.Name, n.Name.Fold(), n.slot(), n.Type, n.Version, n.MTime, n.Rev, n.Seq,
		n.Created, n.Updated, n.Trashed, n.Operation,
	}
}

// insert writes the row of e.Node, adds the node to the sums of the folders above, which are
// written later in tx, and calls Options.OnEffect with e. The caller has allocated e.Node.Seq and
// checked that the name is free.
func (t *Tree) insert(ctx context.Context, tx *sqldb.Tx, e Effect) error {
	if err := insertNode(ctx, tx, e.Node); err != nil {
		return err
	}
	t.sums.nodeCreated(tx, e.Node)
	t.opt.OnEffect(tx, e)
	return nil
}

// insertNode inserts the row of n and nothing else: the caller updates the folder totals and
// reports the change to the feed.
func insertNode(ctx context.Context, tx *sqldb.Tx, n Node) error {
	return wrap(tx.InsertRows(ctx, insertNodes, [][]any{nodeRow(n)}), "insert node", n.ID)
}

// update stores n with its next revision and seq, and reports the effect. was is the node as it was
// read.
func (t *Tree) update(ctx context.Context, tx *sqldb.Tx, was Node, n *Node) error {
	return t.updateBy(ctx, tx, was, n, drive.Who{})
}

// updateBy writes the changed node *n, which was the node before: it allocates a seq and sets
// n.Seq, n.Rev and n.Updated in place, updates the sums of folders, and reports the effect with by
// as the actor. It fails as allocSeqs does.
func (t *Tree) updateBy(ctx context.Context, tx *sqldb.Tx, was Node, n *Node, by drive.Who) error {
	c := seqRequest{n: 1, counted: 1}
	if n.Trashed != 0 { // a deletion is not counted; see allocSeqs
		c.counted = 0
	}
	seq, err := c.alloc(ctx, tx, t, n.Account)
	if err != nil {
		return err
	}
	n.Seq, n.Rev, n.Updated = seq, n.Rev+1, t.now()
	if err := t.sums.nodeChanged(ctx, tx, was, *n); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE nodes SET parent_id = ?, name = ?, name_fold = ?, slot = ?, version_id = ?, mtime = ?, rev = ?,
		seq = ?, updated_at = ?, trashed_at = ?, operation_id = ? WHERE id = ?`, n.Parent, n.Name, n.Name.Fold(), n.slot(), n.Version,
		n.MTime, n.Rev, n.Seq, n.Updated, n.Trashed, n.Operation, n.ID)
	if err != nil {
		return wrap(err, "update node", n.ID)
	}
	t.opt.OnEffect(tx, Effect{Node: *n, Before: was, By: by})
	if n.IsFolder() && was.Trashed == 0 && n.Trashed != 0 {
		if err := t.opt.OnFolderTrashed(ctx, tx, *n); err != nil {
			return err
		}
	}
	return t.addDueTrash(ctx, tx, *n)
}

// wrap adds what was attempted, and on what, to err; nil stays nil.
func wrap(err error, what string, id fmt.Stringer) error {
	if err != nil {
		return fmt.Errorf("%s %v: %w", what, id, err)
	}
	return nil
}
