package fsck

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// nodeMarks checks rows attached to nodes: locks, properties and numbers.
type nodeMarks struct{ *pass }

// markRow is a row with another account than its node. Queries by account do not find it, so a
// lock excludes nobody and does not count toward the limit.
type markRow struct {
	key      string // id of the row, or of the node for all its rows
	has, due drive.AccountID
}

// scanMarkRow reads the key of a mark, its account and that of its node into m by calling scan, and
// returns the error of scan.
func scanMarkRow(m *markRow, scan func(...any) error) error { return scan(&m.key, &m.has, &m.due) }

// Rows of a deleted node are no defect: housekeeping deletes them.
const (
	selectLocks      = `SELECT l.id, l.account_id, n.account_id FROM dav_locks l JOIN nodes n ON n.id = l.node_id WHERE l.id > ? ORDER BY l.id LIMIT ?`
	selectProperties = `SELECT DISTINCT p.node_id, p.account_id, n.account_id FROM dav_properties p JOIN nodes n ON n.id = p.node_id
		WHERE p.node_id > ? ORDER BY p.node_id LIMIT ?`
)

// checkLocks finds WebDAV locks whose account is not that of their node (N6). The repair gives them
// the account of the node.
func (p nodeMarks) checkLocks(ctx context.Context) error {
	return p.checkMarks(ctx, "lock ", selectLocks, "UPDATE dav_locks SET account_id = ? WHERE id = ? AND account_id = ?")
}

// checkProperties finds WebDAV properties whose account is not that of their node (N6). The repair
// gives them the account of the node.
func (p nodeMarks) checkProperties(ctx context.Context) error {
	return p.checkMarks(ctx, "properties of node ", selectProperties, "UPDATE dav_properties SET account_id = ? WHERE node_id = ? AND account_id = ?")
}

// checkMarks finds rows of query whose account is not that of their node (N6); subject begins the
// finding's name. repair is an UPDATE with the arguments right account, key, wrong account.
func (p nodeMarks) checkMarks(ctx context.Context, subject, query, repair string) error {
	const page = 500
	err := each(ctx, p.pass, query, page, scanMarkRow, func(m markRow) any { return m.key }, func(m markRow) error {
		if m.has == m.due {
			return nil
		}
		return p.found(ctx, defect{
			Finding: Finding{Invariant: "N6", Subject: subject + m.key, Expected: m.due.String(), Found: m.has.String()},
			fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
				n, err := tx.Exec(ctx, repair, m.due, m.key, m.has)
				f.Repaired = n > 0
				return n > 0, err
			},
		})
	})
	if err != nil {
		return fmt.Errorf("check the %s: %w", subject, err)
	}
	return nil
}

// numberRow is a node number; gone reports that its node is deleted.
type numberRow struct {
	node drive.NodeID
	gone bool
}

// selectNumbers selects node numbers and whether their node is deleted.
const selectNumbers = `SELECT m.node_id, n.id IS NULL FROM node_numbers m LEFT JOIN nodes n ON n.id = m.node_id WHERE m.node_id > ? ORDER BY m.node_id LIMIT ?`

// checkNumbers finds numbers of deleted nodes. A number is deleted in the transaction that deletes
// its node, so a remaining one stays for ever. The repair deletes it.
func (p nodeMarks) checkNumbers(ctx context.Context) error {
	const page = 500
	err := each(ctx, p.pass, selectNumbers, page, func(l *numberRow, scan func(...any) error) error { return scan(&l.node, &l.gone) }, func(l numberRow) any { return l.node },
		func(l numberRow) error {
			if !l.gone {
				return nil
			}
			return p.found(ctx, defect{
				Finding: Finding{Invariant: "N6", Subject: "number of node " + l.node.String(), Expected: "no number", Found: "a number of a node that is gone"},
				fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
					n, err := tx.Exec(ctx, "DELETE FROM node_numbers WHERE node_id = ? AND NOT EXISTS (SELECT 1 FROM nodes WHERE id = ?)", l.node, l.node)
					f.Repaired = n > 0
					return n > 0, err
				},
			})
		})
	if err != nil {
		return fmt.Errorf("check the numbers of nodes: %w", err)
	}
	return nil
}
