package tree

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Find returns a live or trashed node of the account. It fails with NotFound for a node of another
// account, one that is being purged, and one of an unfinished copy.
func (r Reader) Find(ctx context.Context, q sqldb.Querier, account drive.AccountID, id drive.NodeID) (Node, error) {
	n, err := r.queryNode(ctx, q, "WHERE n.id = ? AND n.account_id = ?", id, account)
	if err == nil && !n.Operation.IsZero() {
		err = drive.Fail(drive.NotFound)
	}
	return n, err
}

// Child returns the live child of a folder with a name; false if there is none.
func (r Reader) Child(ctx context.Context, q sqldb.Querier, account drive.AccountID, parent drive.NodeID, name drive.Name) (Node, bool, error) {
	n, err := r.queryNode(ctx, q, "WHERE n.parent_id = ? AND n.slot = ? AND n.account_id = ?", parent, name, account)
	if drive.IsKind(err, drive.NotFound) {
		return Node{}, false, nil
	}
	return n, err == nil, err
}

// Resolve returns the live node at a path. It fails with NotFound if any part of the path does not
// exist or is in the trash.
func (r Reader) Resolve(ctx context.Context, q sqldb.Querier, account drive.AccountID, path drive.Path) (Node, error) {
	n, rest, err := r.Deepest(ctx, q, account, path)
	if err == nil && len(rest) > 0 {
		err = drive.Fail(drive.NotFound)
	}
	return n, err
}

// Deepest returns the deepest existing live node on a path and the rest of the path below it; rest
// is empty if the whole path exists. At least the root exists: an account without a tree is
// NotFound.
func (r Reader) Deepest(ctx context.Context, q sqldb.Querier, account drive.AccountID, path drive.Path) (Node, drive.Path, error) {
	last, depth, err := r.descend(ctx, q, account, path)
	if err != nil {
		return Node{}, nil, err
	}
	return last[0], path[depth:], nil
}

// descend follows the path as far as live nodes exist, with one statement. last holds the deepest
// node and, if there is one, its parent, in this order; depth is the number of path names used. An
// account without a tree is NotFound.
func (r Reader) descend(ctx context.Context, q sqldb.Querier, account drive.AccountID, path drive.Path) (last []Node, depth int, err error) {
	var rest strings.Builder // each name followed by a slash, which no name contains; the statement removes one name per level
	for _, name := range path {
		rest.WriteString(string(name) + "/")
	}
	rows, err := q.Query(ctx, `WITH RECURSIVE down (node_id, level, rest) AS (
			SELECT root_id, 0, ? FROM trees WHERE account_id = ?
			UNION ALL
			SELECT n.id, down.level + 1, SUBSTR(down.rest, INSTR(down.rest, '/') + 1) FROM down
			JOIN nodes n ON n.parent_id = down.node_id AND n.slot = SUBSTR(down.rest, 1, INSTR(down.rest, '/') - 1)
			WHERE down.rest <> '')
		SELECT `+nodeColumns+`, down.level FROM down LEFT JOIN nodes n ON n.id = down.node_id LEFT JOIN versions v ON v.id = n.version_id
		ORDER BY down.level DESC LIMIT 2`, rest.String(), account)
	last, err = sqldb.Scan(rows, err, func(n *Node, scan func(...any) error) error {
		var level int
		err := scanNode(n, func(dest ...any) error { return scan(append(dest, &level)...) })
		depth = max(depth, level)
		return err
	})
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("walk %s: %w", path, err)
	case len(last) == 0:
		return nil, 0, drive.Fail(drive.NotFound)
	}
	return last, depth, nil
}

// PathOf returns the path of a node and whether it is live, that is, neither it nor a folder above
// it is trashed. The path of a trashed node is its former path. A node that is being purged, or
// belongs to an unfinished copy, is NotFound.
func (r Reader) PathOf(ctx context.Context, q sqldb.Querier, id drive.NodeID) (path drive.Path, live bool, err error) {
	spot, err := r.Locate(ctx, q, id)
	return spot.Path, err == nil && spot.Trashed == 0, err
}

// Location is the location of a node.
type Location struct {
	Path    drive.Path
	Trashed drive.Time // trash time of the node or of the nearest trashed folder above it; zero: live
}

// Locate returns path and trash time of a node. It fails with NotFound if the node does not exist
// or is being deleted permanently (owned by an operation).
func (r Reader) Locate(ctx context.Context, q sqldb.Querier, id drive.NodeID) (Location, error) {
	up, err := r.readChain(ctx, q, id)
	switch {
	case err != nil:
		return Location{}, err
	case up.owned():
		return Location{}, drive.Fail(drive.NotFound)
	}
	return up.location(), nil
}

// maxLevels bounds the way up to the root. It is far above drive.MaxDepth, which concurrent moves
// may exceed.
const maxLevels = 4096

// chain is a node followed by the folders above it; the root is last.
type chain []chainNode

// chainNode is one node of a chain.
type chainNode struct {
	id        drive.NodeID
	name      drive.Name
	folder    bool              // a folder, not a file
	trashed   drive.Time        // when it was trashed itself; zero: never
	operation drive.OperationID // that owns the trashed node, such as a purge; zero: none
}

// readChain returns the node and its ancestors, the node first and the root last. It fails with
// NotFound if the node does not exist, and with an internal error if it has more than maxLevels
// ancestors.
func (r Reader) readChain(ctx context.Context, q sqldb.Querier, id drive.NodeID) (chain, error) {
	rows, err := q.Query(ctx, `WITH RECURSIVE up (id, parent_id, name, type, trashed_at, operation_id, level) AS (
			SELECT id, parent_id, name, type, trashed_at, operation_id, 0 FROM nodes WHERE id = ?
			UNION ALL
			SELECT n.id, n.parent_id, n.name, n.type, n.trashed_at, n.operation_id, up.level + 1
			FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.level < ?)
		SELECT id, name, type = 'folder', trashed_at, operation_id FROM up ORDER BY level`, id, maxLevels)
	up, err := sqldb.Scan(rows, err, func(l *chainNode, scan func(...any) error) error {
		return scan(&l.id, &l.name, &l.folder, &l.trashed, &l.operation)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("climb from node %v: %w", id, err)
	case len(up) == 0:
		return nil, drive.Fail(drive.NotFound)
	case len(up) > maxLevels:
		return nil, fmt.Errorf("node %v is more than %d levels deep", id, maxLevels)
	}
	return up, nil
}

// location returns path and trash time of the first node of c.
func (c chain) location() Location {
	return Location{Path: c.path(), Trashed: c.trashed()}
}

// trashed returns the trash time of the first trashed node of c; zero if none is.
func (c chain) trashed() drive.Time {
	for _, l := range c {
		if l.trashed != 0 {
			return l.trashed
		}
	}
	return 0
}

// live reports whether no node of c is trashed; false for an empty chain.
func (c chain) live() bool {
	return len(c) > 0 && c.trashed() == 0
}

// owned reports whether an operation owns the node or a folder above it: it is being purged or
// copied.
func (c chain) owned() bool {
	return slices.ContainsFunc(c, func(l chainNode) bool { return !l.operation.IsZero() })
}

// contains reports whether a node with the id is in c.
func (c chain) contains(id drive.NodeID) bool {
	return slices.ContainsFunc(c, func(l chainNode) bool { return l.id == id })
}

// path returns the path of the first node of c.
func (c chain) path() drive.Path {
	if len(c) == 0 {
		return nil
	}
	path := make(drive.Path, 0, len(c)-1)
	for _, l := range slices.Backward(c[:len(c)-1]) {
		path = append(path, l.name)
	}
	return path
}
