package tree

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Close makes a tree refuse new nodes until Open, unless its user is active. This stops requests
// that were authorized before the user was disabled. The caller holds the lock on the ledger; so
// does a caller that enables a user and calls Open.
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

// Open lets a closed tree accept new nodes again when tx commits. It does nothing if the tree is
// open or the account has none.
func (t *Tree) Open(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	_, err := tx.Exec(ctx, "UPDATE trees SET closed = 0 WHERE account_id = ? AND closed = 1", account)
	return wrap(err, "open the tree of", account)
}

// CheckCapacity checks that the account may get n more nodes, by its limit of nodes and of changes
// per day. It fails with TooLarge {field, reason, limit, sent}, and with NotFound without a tree.
// It reserves nothing: the caller holds the lock on the ledger and includes in n what running
// operations will create.
func CheckCapacity(ctx context.Context, t *Tree, q sqldb.Querier, account drive.AccountID, n int64) error {
	var count, changed int64
	err := q.QueryRow(ctx, "SELECT node_count, CASE WHEN changed_on = ? THEN changed ELSE 0 END FROM trees WHERE account_id = ?",
		t.opt.today(), account).Scan(&count, &changed)
	switch {
	case err != nil:
		return wrap(err, "look for room in the tree of", account)
	case count+n > t.opt.MaxNodes:
		return drive.Fail(drive.TooLarge, "field", "nodes", "reason", "nodes", "limit", t.opt.MaxNodes, "sent", count+n)
	case changed+n+1 > t.opt.MaxChanges: // one more change reveals the branch
		return drive.Fail(drive.TooLarge, "field", "nodes", "reason", "changes", "limit", t.opt.MaxChanges, "sent", changed+n)
	}
	return nil
}

// CountNearLimit returns the number of accounts with more than nine tenths of MaxNodes. It reads
// all trees: some 200 ms for a million accounts.
func CountNearLimit(ctx context.Context, t *Tree, q sqldb.Querier) (n int64, err error) {
	if err = q.QueryRow(ctx, "SELECT COUNT(*) FROM trees WHERE node_count > ?", t.opt.MaxNodes/10*9).Scan(&n); err != nil {
		err = fmt.Errorf("count the accounts near the limit of nodes: %w", err)
	}
	return n, err
}

// CheckHandoverCapacity checks that all nodes and old versions of the account from fit into the
// account to, plus one folder for them. It fails with TooLarge {field, reason, limit, sent}.
func (t *Tree) CheckHandoverCapacity(ctx context.Context, q sqldb.Querier, from, to drive.AccountID) error {
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
