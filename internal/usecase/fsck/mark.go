package fsck

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// marks are the checks of what hangs on nodes beside their content.
type marks struct{ *pass }

// misplaced is a row of a node whose account is not that of the node: it is not found when the
// account's are asked for, so that a lock keeps nobody out, and does not count towards its limit.
type misplaced struct {
	key      string // of the row, or of all rows of a node
	has, due drive.AccountID
}

func scanMisplaced(m *misplaced, scan func(...any) error) error { return scan(&m.key, &m.has, &m.due) }

// A node that is not there is no defect: what it had follows it with the next housekeeping.
const (
	selectLocks      = `SELECT l.id, l.account_id, n.account_id FROM dav_locks l JOIN nodes n ON n.id = l.node_id WHERE l.id > ? ORDER BY l.id LIMIT ?`
	selectProperties = `SELECT DISTINCT p.node_id, p.account_id, n.account_id FROM dav_properties p JOIN nodes n ON n.id = p.node_id
		WHERE p.node_id > ? ORDER BY p.node_id LIMIT ?`
)

// checkLocks compares the accounts of locks with those of their nodes.
func (p marks) checkLocks(ctx context.Context) error {
	return p.checkMarks(ctx, "lock ", selectLocks, "UPDATE dav_locks SET account_id = ? WHERE id = ? AND account_id = ?")
}

// checkProperties compares the accounts of properties with those of their nodes.
func (p marks) checkProperties(ctx context.Context) error {
	return p.checkMarks(ctx, "properties of node ", selectProperties, "UPDATE dav_properties SET account_id = ? WHERE node_id = ? AND account_id = ?")
}

func (p marks) checkMarks(ctx context.Context, subject, query, repair string) error {
	const page = 500
	err := each(ctx, p.pass, query, page, scanMisplaced, func(m misplaced) any { return m.key }, func(m misplaced) error {
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

// lost is a node that has a number.
type lost struct {
	node drive.NodeID
	gone bool
}

const selectNumbers = `SELECT m.node_id, n.id IS NULL FROM node_numbers m LEFT JOIN nodes n ON n.id = m.node_id WHERE m.node_id > ? ORDER BY m.node_id LIMIT ?`

// checkNumbers looks for numbers of nodes that are gone: those go in the transaction that deletes
// the node, so that one which is left stays for ever. A repair takes it away.
func (p marks) checkNumbers(ctx context.Context) error {
	const page = 500
	err := each(ctx, p.pass, selectNumbers, page, func(l *lost, scan func(...any) error) error { return scan(&l.node, &l.gone) }, func(l lost) any { return l.node },
		func(l lost) error {
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
