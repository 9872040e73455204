package tree

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// ChildQuery selects live children of several folders, one page at a time.
type ChildQuery struct {
	Folders []drive.NodeID // in ascending order of ids
	// From and To limit files to those modified in [From, To); zero: no limit. Folders always
	// match.
	From, To drive.Time

	// After is the last child of the previous page; zero: the first page.
	After Node
	Limit int
}

// ChildrenOf returns the next page of b with one statement, ordered by folder id and then by name.
// The caller may leave folders that were already read completely in b.Folders.
func (r Reader) ChildrenOf(ctx context.Context, q sqldb.Querier, b ChildQuery) ([]Node, error) {
	var args []any
	for _, id := range b.Folders {
		if id.String() >= b.After.Parent.String() || b.After.ID.IsZero() {
			args = append(args, id)
		}
	}
	if len(args) == 0 {
		return nil, nil
	}
	where := "WHERE n.parent_id IN (" + sqldb.Placeholders(len(args)) + ") AND n.trashed_at = 0"
	if b.To != 0 {
		where, args = where+" AND (n.type = ? OR n.mtime >= ? AND n.mtime < ?)", append(args, TypeFolder, b.From, b.To)
	}
	if !b.After.ID.IsZero() { // folders before After.Parent are not in args
		where, args = where+" AND (n.parent_id <> ? OR n.slot > ?)", append(args, b.After.Parent, b.After.Name)
	}
	nodes, err := r.queryNodes(ctx, q, where+" ORDER BY n.parent_id, n.slot LIMIT ?", append(args, b.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("list the children of %d folders: %w", len(b.Folders), err)
	}
	return nodes, nil
}
