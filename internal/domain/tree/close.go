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

// Admit refuses an operation that will make n nodes if the account would then have more than it may
// have, or if that is more than it may make today: TooLarge {field, reason, limit, sent}. It
// promises nothing: the caller holds the lock on the ledger and counts what else runs.
func Admit(ctx context.Context, t *Tree, q sqldb.Querier, account drive.AccountID, n int64) error {
	var count, changed int64
	err := q.QueryRow(ctx, "SELECT node_count, CASE WHEN changed_on = ? THEN changed ELSE 0 END FROM trees WHERE account_id = ?",
		t.opt.today(), account).Scan(&count, &changed)
	switch {
	case err != nil:
		return wrap(err, "look for room in the tree of", account)
	case count+n > t.opt.MaxNodes:
		return drive.Fail(drive.TooLarge, "field", "nodes", "reason", "nodes", "limit", t.opt.MaxNodes, "sent", count+n)
	case changed+n+1 > t.opt.MaxChanges: // one more shows them when all are made
		return drive.Fail(drive.TooLarge, "field", "nodes", "reason", "changes", "limit", t.opt.MaxChanges, "sent", changed+n)
	}
	return nil
}

// Crowded returns how many accounts have more than nine tenths of the nodes that they may have. It
// reads all trees: some 200 ms for a million accounts.
func Crowded(ctx context.Context, t *Tree, q sqldb.Querier) (n int64, err error) {
	if err = q.QueryRow(ctx, "SELECT COUNT(*) FROM trees WHERE node_count > ?", t.opt.MaxNodes/10*9).Scan(&n); err != nil {
		err = fmt.Errorf("count the accounts near the limit of nodes: %w", err)
	}
	return n, err
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
