package tree

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// FindMany returns nodes of the account by id, live or trashed. Those that there are none of are
// not in the map.
func (t *Tree) FindMany(ctx context.Context, q sqldb.Querier, account drive.AccountID, ids ...drive.NodeID) (map[drive.NodeID]Node, error) {
	found := make(map[drive.NodeID]Node, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	args := []any{account}
	for _, id := range ids {
		args = append(args, id)
	}
	all, err := t.queryNodes(ctx, q, "WHERE n.account_id = ? AND n.id IN ("+sqldb.Marks(len(ids))+")", args...)
	if err != nil {
		return nil, fmt.Errorf("find %d nodes: %w", len(ids), err)
	}
	for _, n := range all {
		found[n.ID] = n
	}
	return found, nil
}
