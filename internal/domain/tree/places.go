package tree

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// places knows where folders are: many at a time, and each once. It reads level by level, so that
// it costs a statement for each level and some hundred folders. The levels are read one after the
// other: a folder that is moved meanwhile may be shown at either place, or at none.
type places map[drive.NodeID]placed

type placed struct {
	link
	parent drive.NodeID
}

const placesBatch = 500 // ids in one statement

// find learns where the parents of the nodes are.
func (p places) find(ctx context.Context, q sqldb.Querier, nodes []Node) error {
	wanted := map[drive.NodeID]bool{}
	for _, n := range nodes {
		p.want(wanted, n.Parent)
	}
	for level := 0; len(wanted) > 0 && level < maxClimb; level++ {
		above := map[drive.NodeID]bool{}
		batch := make([]any, 0, min(len(wanted), placesBatch))
		for id := range wanted {
			if batch = append(batch, id); len(batch) == placesBatch {
				if err := p.read(ctx, q, batch, above); err != nil {
					return err
				}
				batch = batch[:0]
			}
		}
		if len(batch) > 0 {
			if err := p.read(ctx, q, batch, above); err != nil {
				return err
			}
		}
		wanted = above
	}
	return nil
}

func (p places) want(wanted map[drive.NodeID]bool, id drive.NodeID) {
	if _, known := p[id]; !known && !id.IsZero() {
		wanted[id] = true
	}
}

func (p places) read(ctx context.Context, q sqldb.Querier, ids []any, above map[drive.NodeID]bool) error {
	rows, err := q.Query(ctx, "SELECT id, parent_id, name, type = 'folder', trashed_at, operation_id FROM nodes WHERE id IN ("+
		sqldb.Marks(len(ids))+")", ids...)
	got, err := sqldb.Scan(rows, err, func(f *placed, scan func(...any) error) error {
		return scan(&f.id, &f.parent, &f.name, &f.folder, &f.trashed, &f.operation)
	})
	if err != nil {
		return fmt.Errorf("read the places of folders: %w", err)
	}
	for _, f := range got {
		p[f.id] = f
	}
	for _, f := range got {
		p.want(above, f.parent)
	}
	return nil
}

// chain returns a folder and those above it, the root last; false: it is not known to hang at a
// root.
func (p places) chain(id drive.NodeID) (chain, bool) {
	var up chain
	for !id.IsZero() {
		f, known := p[id]
		if !known || len(up) > len(p) { // longer than all that is known: two were moved while they were read
			return nil, false
		}
		up, id = append(up, f.link), f.parent
	}
	return up, len(up) > 0
}

// live reports whether a folder is live and is, or lies below, the one given; zero: any.
func (p places) live(id, below drive.NodeID) bool {
	up, ok := p.chain(id)
	return ok && up.live() && !up.owned() && (below.IsZero() || up.contains(below))
}

// AnyWithin reports whether one of some nodes of an account is live, and is top or lies below it:
// Within, of many. It costs a statement for each level and some hundred nodes.
func (r Reader) AnyWithin(ctx context.Context, q sqldb.Querier, account drive.AccountID, top drive.NodeID, ids []drive.NodeID) (bool, error) {
	found, err := r.FindMany(ctx, q, account, ids...)
	if err != nil {
		return false, err
	}
	nodes := slices.Collect(maps.Values(found))
	p := places{}
	if err := p.find(ctx, q, nodes); err != nil {
		return false, err
	}
	return slices.ContainsFunc(nodes, func(n Node) bool {
		below := top
		if n.ID == top {
			below = drive.NodeID{}
		}
		return n.Trashed == 0 && n.Operation.IsZero() && (n.IsRoot() && n.ID == top || p.live(n.Parent, below))
	}), nil
}

// SpotsOf is Locate for the folders that hold the nodes. One that is not there, or that an
// operation owns, is missing.
func (r Reader) SpotsOf(ctx context.Context, q sqldb.Querier, nodes []Node) (map[drive.NodeID]Spot, error) {
	p, spots := places{}, map[drive.NodeID]Spot{}
	if err := p.find(ctx, q, nodes); err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if up, ok := p.chain(n.Parent); ok && !up.owned() {
			spots[n.Parent] = up.spot()
		}
	}
	return spots, nil
}
