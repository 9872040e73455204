package tree

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// FindMany returns nodes of the account by id, live or trashed. Missing nodes have no entry. Unlike
// Find it includes nodes owned by an operation.
func (r Reader) FindMany(ctx context.Context, q sqldb.Querier, account drive.AccountID, ids ...drive.NodeID) (map[drive.NodeID]Node, error) {
	found, err := r.byID(ctx, q, ids)
	// Filtered here: with both conditions SQLite may read all nodes of the account.
	maps.DeleteFunc(found, func(_ drive.NodeID, n Node) bool { return n.Account != account })
	return found, err
}

// IDs returns the ids of up to limit live children of a folder, by name. For the zero folder it
// returns the tops in the account's trash, most recently trashed first.
func (r Reader) IDs(ctx context.Context, q sqldb.Querier, account drive.AccountID, folder drive.NodeID, limit int) ([]drive.NodeID, error) {
	query, args := "SELECT id FROM nodes WHERE parent_id = ? AND account_id = ? AND trashed_at = 0 ORDER BY slot LIMIT ?", []any{folder, account, limit}
	if folder.IsZero() {
		query, args = `SELECT id FROM nodes WHERE account_id = ? AND trashed_at > 0 AND operation_id IS NULL
			ORDER BY trashed_at DESC, id DESC LIMIT ?`, []any{account, limit}
	}
	rows, err := q.Query(ctx, query, args...)
	return sqldb.Scan(rows, err, func(id *drive.NodeID, scan func(...any) error) error { return scan(id) })
}

// ByID returns nodes by id, of any account, live or trashed. Missing nodes have no entry. The
// caller must check that they may be shown.
func ByID(ctx context.Context, t *Tree, q sqldb.Querier, ids ...drive.NodeID) (map[drive.NodeID]Node, error) {
	return t.byID(ctx, q, ids)
}

// nodesPerStatement is how many nodes one statement asks for; SQLite takes 32,766 parameters.
const nodesPerStatement = 1000

// byID returns nodes by id, trashed ones included, with one query per nodesPerStatement ids. Ids
// that do not exist have no entry.
func (r Reader) byID(ctx context.Context, q sqldb.Querier, ids []drive.NodeID) (map[drive.NodeID]Node, error) {
	found := make(map[drive.NodeID]Node, len(ids))
	for some := range slices.Chunk(ids, nodesPerStatement) {
		args := make([]any, len(some))
		for i, id := range some {
			args[i] = id
		}
		all, err := r.queryNodes(ctx, q, "WHERE n.id IN ("+sqldb.Placeholders(len(some))+")", args...)
		if err != nil {
			return nil, fmt.Errorf("find %d nodes: %w", len(ids), err)
		}
		for _, n := range all {
			found[n.ID] = n
		}
	}
	return found, nil
}
