package tree

import (
	"context"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Count returns the number of nodes in the subtree of a node, trashed ones included, and stops
// counting at limit.
func (r Reader) Count(ctx context.Context, q sqldb.Querier, id drive.NodeID, limit int64) (int64, error) {
	n, err := r.count(ctx, q, "SELECT id FROM nodes WHERE id = ?", id, limit)
	return n, wrap(err, "count below node", id)
}

// CountTrash returns the number of nodes in the account's trash, descendants included, and stops
// counting at limit.
func (r Reader) CountTrash(ctx context.Context, q sqldb.Querier, account drive.AccountID, limit int64) (int64, error) {
	n, err := r.count(ctx, q, "SELECT id FROM nodes WHERE account_id = ? AND trashed_at > 0 AND operation_id IS NULL", account, limit)
	return n, wrap(err, "count the trash of", account)
}

// maxWalk is the largest limit for which nodes are counted level by level. That is used where a
// recursive statement cannot stop early, and where the next statement may reach another database
// because an installation is migrating (outside of a transaction).
const maxWalk = 10_000

// count counts the nodes that the query tops selects and their descendants, each once, and stops at
// limit. arg is the only argument of tops.
func (r Reader) count(ctx context.Context, q sqldb.Querier, tops string, arg any, limit int64) (n int64, err error) {
	stop, args := "", []any{arg}
	tx, one := q.(*sqldb.Tx)
	switch {
	case one && tx.Dialect() == sqldb.SQLite:
		stop, args = " LIMIT ?", append(args, limit)
	case limit <= maxWalk:
		return countByLevel(ctx, q, tops, arg, int(limit))
	}
	err = q.QueryRow(ctx, `WITH RECURSIVE sub (id) AS (`+tops+`
		UNION SELECT n.id FROM sub JOIN nodes n ON n.parent_id = sub.id`+stop+`) SELECT COUNT(*) FROM sub`, args...).Scan(&n)
	return min(n, limit), err
}

// foldersPerStatement bounds how many folders one statement reads.
const foldersPerStatement = 200

// countByLevel returns the number of nodes in the trees below the nodes that the query tops
// selects, these included, and limit if there are more; arg is the argument of tops. Unlike count,
// it runs one statement per foldersPerStatement nodes instead of a recursive one.
func countByLevel(ctx context.Context, q sqldb.Querier, tops string, arg any, limit int) (int64, error) {
	scan := func(id *drive.NodeID, scan func(...any) error) error { return scan(id) }
	rows, err := q.Query(ctx, tops+" LIMIT ?", arg, limit)
	todo, err := sqldb.Scan(rows, err, scan)
	if err != nil {
		return 0, err
	}
	seen := make(map[drive.NodeID]bool, len(todo))
	for _, id := range todo {
		seen[id] = true
	}
	for len(todo) > 0 && len(seen) < limit {
		var args []any
		for _, id := range todo[:min(len(todo), foldersPerStatement)] {
			args = append(args, id)
		}
		todo = slices.Clone(todo[len(args):])
		rows, err := q.Query(ctx, "SELECT id FROM nodes WHERE parent_id IN ("+sqldb.Placeholders(len(args))+") LIMIT ?", append(args, limit)...)
		below, err := sqldb.Scan(rows, err, scan)
		if err != nil {
			return 0, err
		}
		for _, id := range below {
			if !seen[id] {
				seen[id], todo = true, append(todo, id)
			}
		}
	}
	return int64(min(len(seen), limit)), nil
}
