package tree

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// folderIndex caches folders and their ancestors by id. It reads level by level, one statement per
// level and idsPerStatement folders. A folder moved between two statements may appear at either
// location, or at none.
type folderIndex map[drive.NodeID]folderRow

// folderRow is a cached folder with the id of its parent.
type folderRow struct {
	chainNode
	parent drive.NodeID
}

const idsPerStatement = 500 // idsPerStatement bounds the ids in one statement.

// load adds to x the parents of the nodes and all folders above them that are not in x, one query
// per level and idsPerStatement folders. Missing folders are left out.
func (x folderIndex) load(ctx context.Context, q sqldb.Querier, nodes []Node) error {
	wanted := map[drive.NodeID]bool{}
	for _, n := range nodes {
		x.request(wanted, n.Parent)
	}
	for level := 0; len(wanted) > 0 && level < maxLevels; level++ {
		above := map[drive.NodeID]bool{}
		batch := make([]any, 0, min(len(wanted), idsPerStatement))
		for id := range wanted {
			if batch = append(batch, id); len(batch) == idsPerStatement {
				if err := x.loadBatch(ctx, q, batch, above); err != nil {
					return err
				}
				batch = batch[:0]
			}
		}
		if len(batch) > 0 {
			if err := x.loadBatch(ctx, q, batch, above); err != nil {
				return err
			}
		}
		wanted = above
	}
	return nil
}

// request adds id to wanted unless it is zero or cached.
func (x folderIndex) request(wanted map[drive.NodeID]bool, id drive.NodeID) {
	if _, known := x[id]; !known && !id.IsZero() {
		wanted[id] = true
	}
}

// loadBatch adds the folders with these ids to x, and the ids of their parents that are not in x to
// above. Ids that do not exist are ignored.
func (x folderIndex) loadBatch(ctx context.Context, q sqldb.Querier, ids []any, above map[drive.NodeID]bool) error {
	rows, err := q.Query(ctx, "SELECT id, parent_id, name, type = 'folder', trashed_at, operation_id FROM nodes WHERE id IN ("+
		sqldb.Placeholders(len(ids))+")", ids...)
	got, err := sqldb.Scan(rows, err, func(f *folderRow, scan func(...any) error) error {
		return scan(&f.id, &f.parent, &f.name, &f.folder, &f.trashed, &f.operation)
	})
	if err != nil {
		return fmt.Errorf("read the places of folders: %w", err)
	}
	for _, f := range got {
		x[f.id] = f
	}
	for _, f := range got {
		x.request(above, f.parent)
	}
	return nil
}

// chain returns the chain of a cached folder; false if it does not reach a root.
func (x folderIndex) chain(id drive.NodeID) (chain, bool) {
	var up chain
	for !id.IsZero() {
		f, known := x[id]
		if !known || len(up) > len(x) { // a cycle: two folders were moved while they were read
			return nil, false
		}
		up, id = append(up, f.chainNode), f.parent
	}
	return up, len(up) > 0
}

// isLive reports whether a cached folder is live, and is the folder below or inside it; a zero
// below matches any.
func (x folderIndex) isLive(id, below drive.NodeID) bool {
	up, ok := x.chain(id)
	return ok && up.live() && !up.owned() && (below.IsZero() || up.contains(below))
}

// AnyWithin reports whether at least one of the nodes is live and is top or below it. It costs one
// statement per level and some hundred nodes.
func (r Reader) AnyWithin(ctx context.Context, q sqldb.Querier, account drive.AccountID, top drive.NodeID, ids []drive.NodeID) (bool, error) {
	found, err := r.FindMany(ctx, q, account, ids...)
	if err != nil {
		return false, err
	}
	nodes := slices.Collect(maps.Values(found))
	p := folderIndex{}
	if err := p.load(ctx, q, nodes); err != nil {
		return false, err
	}
	return slices.ContainsFunc(nodes, func(n Node) bool {
		below := top
		if n.ID == top {
			below = drive.NodeID{}
		}
		return n.Trashed == 0 && n.Operation.IsZero() && (n.IsRoot() && n.ID == top || p.isLive(n.Parent, below))
	}), nil
}

// LocationsOf returns the locations of the nodes' parent folders, by folder id. A folder that does
// not exist, or is owned by an operation, has no entry.
func (r Reader) LocationsOf(ctx context.Context, q sqldb.Querier, nodes []Node) (map[drive.NodeID]Location, error) {
	p, spots := folderIndex{}, map[drive.NodeID]Location{}
	if err := p.load(ctx, q, nodes); err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if up, ok := p.chain(n.Parent); ok && !up.owned() {
			spots[n.Parent] = up.location()
		}
	}
	return spots, nil
}
