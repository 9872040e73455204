// Package property stores WebDAV dead properties (RFC 4918 §4.1): values that clients attach to
// files and folders and that the server does not interpret. They stay with a node when it moves.
//
// The package owns the table dav_properties. It reads nodes.
package property

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Name is a property's namespace, which may be empty, and its local name.
type Name struct{ Space, Local string }

// Property is a property with its value.
type Property struct {
	Name

	Value string // inner XML of the element
}

// Limits. A listing holds the properties of a page in memory, so MaxOfAccount bounds that, too.
const (
	MaxName      = 255      // bytes, of namespace and local name each
	MaxValue     = 16 << 10 // bytes
	MaxOfNode    = 100      // properties per node
	MaxOfAccount = 16 << 20 // bytes per account, names included
	maxPairs     = 100_000  // rows that Copy reads
	rowSize      = 100      // bytes that a row counts in addition to its texts
	maxIDs       = 500      // nodes per statement

)

// Change sets or removes a property.
type Change struct {
	Property

	Remove bool // removing a missing property is no error
}

// Find returns the properties of nodes by node id, ordered by name.
func Find(ctx context.Context, q sqldb.Querier, nodes []drive.NodeID) (map[drive.NodeID][]Property, error) {
	found := map[drive.NodeID][]Property{}
	for i := 0; i < len(nodes); i += maxIDs {
		marks, args := sqldb.ListArgs(nodes[i:min(i+maxIDs, len(nodes))])
		type row struct {
			node drive.NodeID
			Property
		}
		rows, err := q.Query(ctx, "SELECT node_id, space, name, value FROM dav_properties WHERE node_id IN ("+marks+") ORDER BY node_id, space, name", args...)
		all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.node, &r.Space, &r.Local, &r.Value) })
		if err != nil {
			return nil, fmt.Errorf("find properties of %d nodes: %w", len(nodes), err)
		}
		for _, r := range all {
			found[r.node] = append(found[r.node], r.Property)
		}
	}
	return found, nil
}

// Any reports whether a node of the account has a property; false if there is no such account.
func Any(ctx context.Context, q sqldb.Querier, account drive.AccountID) (bool, error) {
	var any bool
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM dav_properties WHERE account_id = ?)`, account).Scan(&any)
	if err != nil {
		return false, fmt.Errorf("look for properties of account %v: %w", account, err)
	}
	return any, nil
}

// Set applies changes to a node's properties, in order. The caller holds the lock on the account's
// ledger. It fails with TooLarge {reason: properties} if a name or value is too long or a limit is
// exceeded; the caller must then roll back, because earlier changes are written.
func Set(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, node drive.NodeID, changes []Change) error {
	for _, c := range changes {
		if len(c.Space) > MaxName || len(c.Local) > MaxName || len(c.Value) > MaxValue {
			return drive.Fail(drive.TooLarge, "reason", "properties", "limit", MaxValue)
		}
		if _, err := tx.Exec(ctx, `DELETE FROM dav_properties WHERE node_id = ? AND space = ? AND name = ?`, node, c.Space, c.Local); err != nil {
			return fmt.Errorf("remove a property of node %v: %w", node, err)
		}
		if c.Remove {
			continue
		}
		if _, err := tx.Exec(ctx, `INSERT INTO dav_properties (node_id, space, name, account_id, value, size) VALUES (?, ?, ?, ?, ?, ?)`,
			node, c.Space, c.Local, account, c.Value, len(c.Space)+len(c.Local)+len(c.Value)+rowSize); err != nil {
			return fmt.Errorf("set a property of node %v: %w", node, err)
		}
	}
	return checkLimits(ctx, tx, account, node)
}

// checkLimits fails with TooLarge {properties, limit} if, in tx, the node has more than MaxOfNode
// properties or the account more than MaxOfAccount bytes of them. The caller checks after writing
// and rolls back.
func checkLimits(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, node drive.NodeID) error {
	var count, size int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM dav_properties WHERE node_id = ?`, node).Scan(&count)
	if err == nil {
		err = tx.QueryRow(ctx, `SELECT COALESCE(SUM(size), 0) FROM dav_properties WHERE account_id = ?`, account).Scan(&size)
	}
	switch {
	case err != nil:
		return fmt.Errorf("count the properties of account %v: %w", account, err)
	case count > MaxOfNode:
		return drive.Fail(drive.TooLarge, "reason", "properties", "limit", MaxOfNode)
	case size > MaxOfAccount:
		return drive.Fail(drive.TooLarge, "reason", "properties", "limit", MaxOfAccount)
	}
	return nil
}

// Copy copies the properties of a node to another one, and those of its descendants to descendants
// with the same relative path. The caller holds the lock on the account's ledger. It stops without
// an error when a limit is reached, and ignores properties beyond maxPairs.
func Copy(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, from, to drive.NodeID) error {
	rows, err := tx.Query(ctx, `WITH RECURSIVE pair (a, b, level) AS (
			SELECT id, (SELECT id FROM nodes WHERE id = ?), 0 FROM nodes WHERE id = ?
			UNION ALL
			SELECT s.id, d.id, pair.level + 1 FROM pair JOIN nodes s ON s.parent_id = pair.a AND s.trashed_at = 0
			JOIN nodes d ON d.parent_id = pair.b AND d.slot = s.slot WHERE pair.level < 256)
		SELECT pair.b, p.space, p.name, p.value FROM pair CROSS JOIN dav_properties p ON p.node_id = pair.a LIMIT ?`, to, from, maxPairs)
	type row struct {
		node drive.NodeID
		Property
	}
	all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.node, &r.Space, &r.Local, &r.Value) })
	if err != nil {
		return fmt.Errorf("read the properties of what is copied: %w", err)
	}
	byNode := map[drive.NodeID][]Change{}
	var order []drive.NodeID
	for _, r := range all {
		if _, seen := byNode[r.node]; !seen {
			order = append(order, r.node)
		}
		byNode[r.node] = append(byNode[r.node], Change{Property: r.Property})
	}
	for _, node := range order {
		failed, err := tx.Try(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return Set(ctx, tx, account, node, byNode[node]) })
		if err != nil {
			return err
		}
		if failed != nil {
			if drive.IsKind(failed, drive.TooLarge) {
				return nil
			}
			return failed
		}
	}
	return nil
}

// DeleteAccount deletes the properties of an account.
func DeleteAccount(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM dav_properties WHERE account_id = ?", account); err != nil {
		return fmt.Errorf("forget the properties of account %v: %w", account, err)
	}
	return nil
}

// HandOver changes the account of the properties of nodes that move to another account; it checks
// no limits. All ids become arguments of one statement.
func HandOver(ctx context.Context, tx *sqldb.Tx, to drive.AccountID, nodes []drive.NodeID) error {
	if len(nodes) == 0 {
		return nil
	}
	marks, in := sqldb.ListArgs(nodes)
	if _, err := tx.Exec(ctx, "UPDATE dav_properties SET account_id = ? WHERE node_id IN ("+marks+")", append([]any{to}, in...)...); err != nil {
		return fmt.Errorf("hand properties over: %w", err)
	}
	return nil
}
