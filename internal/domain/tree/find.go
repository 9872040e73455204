package tree

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Find returns a node, live or trashed. Another account's node is NotFound, and so is one that a
// purge has begun to delete or a copy has not finished.
func (r Reader) Find(ctx context.Context, q sqldb.Querier, account drive.AccountID, id drive.NodeID) (Node, error) {
	n, err := r.queryNode(ctx, q, "WHERE n.id = ? AND n.account_id = ?", id, account)
	if err == nil && !n.Operation.IsZero() {
		err = drive.Fail(drive.NotFound)
	}
	return n, err
}

// Child returns the live child of a folder by its name.
func (r Reader) Child(ctx context.Context, q sqldb.Querier, account drive.AccountID, parent drive.NodeID, name drive.Name) (Node, bool, error) {
	n, err := r.queryNode(ctx, q, "WHERE n.parent_id = ? AND n.slot = ? AND n.account_id = ?", parent, name, account)
	if drive.IsKind(err, drive.NotFound) {
		return Node{}, false, nil
	}
	return n, err == nil, err
}

// Resolve returns the live node at a path.
func (r Reader) Resolve(ctx context.Context, q sqldb.Querier, account drive.AccountID, path drive.Path) (Node, error) {
	n, rest, err := r.Deepest(ctx, q, account, path)
	if err == nil && len(rest) > 0 {
		err = drive.Fail(drive.NotFound)
	}
	return n, err
}

// Deepest returns the last node that there is on the way down a path, and what is left of the path.
func (r Reader) Deepest(ctx context.Context, q sqldb.Querier, account drive.AccountID, path drive.Path) (Node, drive.Path, error) {
	last, depth, err := r.descend(ctx, q, account, path)
	if err != nil {
		return Node{}, nil, err
	}
	return last[0], path[depth:], nil
}

// descend goes down the path as far as there are nodes, by one statement whatever the depth, and
// returns the last node and the folder above it, in this order, and how many names of the path it
// has used. All are live: a trashed node has no slot by its name. An account without a tree is
// NotFound.
func (r Reader) descend(ctx context.Context, q sqldb.Querier, account drive.AccountID, path drive.Path) (last []Node, depth int, err error) {
	var rest strings.Builder // each name with a slash behind it, which no name contains: the statement takes one off at each level
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

// PathOf returns the path of a node and whether it is live: it is not when it or a folder above it
// is trashed. The path of a node that is not live is the one it had. A node that an operation
// builds or purges is NotFound.
func (r Reader) PathOf(ctx context.Context, q sqldb.Querier, id drive.NodeID) (path drive.Path, live bool, err error) {
	spot, err := r.Locate(ctx, q, id)
	return spot.Path, err == nil && spot.Trashed == 0, err
}

// Spot is where a node is.
type Spot struct {
	Path    drive.Path
	Trashed drive.Time // when it, or the folder above it that is nearest, was trashed; zero: it is live
}

// Locate is PathOf with the time when the node got into the trash.
func (r Reader) Locate(ctx context.Context, q sqldb.Querier, id drive.NodeID) (Spot, error) {
	up, err := r.climb(ctx, q, id)
	switch {
	case err != nil:
		return Spot{}, err
	case up.owned():
		return Spot{}, drive.Fail(drive.NotFound)
	}
	return up.spot(), nil
}

// maxClimb bounds the way up to the root. It is far above drive.MaxDepth, because concurrent moves
// may exceed that.
const maxClimb = 4096

// chain is a node and the folders above it, the root last.
type chain []link

type link struct {
	id        drive.NodeID
	name      drive.Name
	folder    bool
	trashed   drive.Time
	operation drive.OperationID
}

// climb reads the chain of a node; a node that is not there is NotFound.
func (r Reader) climb(ctx context.Context, q sqldb.Querier, id drive.NodeID) (chain, error) {
	rows, err := q.Query(ctx, `WITH RECURSIVE up (id, parent_id, name, type, trashed_at, operation_id, level) AS (
			SELECT id, parent_id, name, type, trashed_at, operation_id, 0 FROM nodes WHERE id = ?
			UNION ALL
			SELECT n.id, n.parent_id, n.name, n.type, n.trashed_at, n.operation_id, up.level + 1
			FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.level < ?)
		SELECT id, name, type = 'folder', trashed_at, operation_id FROM up ORDER BY level`, id, maxClimb)
	up, err := sqldb.Scan(rows, err, func(l *link, scan func(...any) error) error {
		return scan(&l.id, &l.name, &l.folder, &l.trashed, &l.operation)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("climb from node %v: %w", id, err)
	case len(up) == 0:
		return nil, drive.Fail(drive.NotFound)
	case len(up) > maxClimb:
		return nil, fmt.Errorf("node %v is more than %d levels deep", id, maxClimb)
	}
	return up, nil
}

func (c chain) spot() Spot {
	spot := Spot{Path: c.path()}
	if i := slices.IndexFunc(c, func(l link) bool { return l.trashed != 0 }); i >= 0 {
		spot.Trashed = c[i].trashed
	}
	return spot
}

func (c chain) live() bool {
	return len(c) > 0 && !slices.ContainsFunc(c, func(l link) bool { return l.trashed != 0 })
}

// owned reports whether an operation builds or purges the node or a folder above it.
func (c chain) owned() bool {
	return slices.ContainsFunc(c, func(l link) bool { return !l.operation.IsZero() })
}

func (c chain) contains(id drive.NodeID) bool {
	return slices.ContainsFunc(c, func(l link) bool { return l.id == id })
}

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
