package tree

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Close closes a tree, unless its user is active: no node comes into it until Open, by no request
// that was let in before. The caller holds the lock on the ledger, as those do who enable a user
// and call Open.
func (t *Tree) Close(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	var active bool
	err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM users WHERE account_id = ? AND state = 'active')", account).Scan(&active)
	if err == nil && !active {
		_, err = tx.Exec(ctx, "UPDATE trees SET closed = 1 WHERE account_id = ?", account)
	}
	if err != nil {
		return fmt.Errorf("close the tree of %v: %w", account, err)
	}
	return nil
}

// Open opens a tree that was closed.
func (t *Tree) Open(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	_, err := tx.Exec(ctx, "UPDATE trees SET closed = 0 WHERE account_id = ? AND closed = 1", account)
	return wrap(err, "open the tree of", account)
}

// CheckRoom refuses what goes from one account to another where there would be more nodes there
// than an account may have, or more old versions: TooLarge {field, reason, limit, sent}. One node
// more than there are is made for them.
func (t *Tree) CheckRoom(ctx context.Context, q sqldb.Querier, from, to drive.AccountID) error {
	var nodes, old int64
	err := q.QueryRow(ctx, "SELECT COALESCE(SUM(node_count), 0) + 1 FROM trees WHERE account_id IN (?, ?)", from, to).Scan(&nodes)
	if err == nil {
		err = q.QueryRow(ctx, "SELECT COALESCE(SUM(n), 0) FROM old_versions WHERE account_id IN (?, ?)", from, to).Scan(&old)
	}
	switch {
	case err != nil:
		return fmt.Errorf("count what %v and %v have: %w", from, to, err)
	case nodes > t.opt.MaxNodes:
		return drive.Fail(drive.TooLarge, "field", "nodes", "reason", "nodes", "limit", t.opt.MaxNodes, "sent", nodes)
	case old > t.opt.MaxOldVersions:
		return drive.Fail(drive.TooLarge, "field", "versions", "reason", "versions", "limit", t.opt.MaxOldVersions, "sent", old)
	}
	return nil
}
