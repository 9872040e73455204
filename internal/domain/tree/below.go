package tree

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Below says which children of which folders are wanted. The zero times: of any.
type Below struct {
	Folders  []drive.NodeID // in the order of their ids
	From, To drive.Time     // files last changed in [From, To); folders are wanted whatever theirs

	// After is the last child of the page before; zero: from the first.
	After Node
	Limit int
}

// ChildrenOf returns live children of many folders in one statement: those of one folder after the
// other, in the order of their ids, by name. Folders whose children were read before After may stay
// in the list.
func (r Reader) ChildrenOf(ctx context.Context, q sqldb.Querier, b Below) ([]Node, error) {
	var args []any
	for _, id := range b.Folders {
		if id.String() >= b.After.Parent.String() || b.After.ID.IsZero() {
			args = append(args, id)
		}
	}
	if len(args) == 0 {
		return nil, nil
	}
	where := "WHERE n.parent_id IN (" + sqldb.Marks(len(args)) + ") AND n.trashed_at = 0"
	if b.To != 0 {
		where, args = where+" AND (n.type = ? OR n.mtime >= ? AND n.mtime < ?)", append(args, TypeFolder, b.From, b.To)
	}
	if !b.After.ID.IsZero() { // none of a folder before it is asked for
		where, args = where+" AND (n.parent_id <> ? OR n.slot > ?)", append(args, b.After.Parent, b.After.Name)
	}
	nodes, err := r.queryNodes(ctx, q, where+" ORDER BY n.parent_id, n.slot LIMIT ?", append(args, b.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("list the children of %d folders: %w", len(b.Folders), err)
	}
	return nodes, nil
}
