package fsck

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// grantRow is a grant with another account than its node. Queries by account do not find it, so it
// hides nothing in a listing.
type grantRow struct {
	node     drive.NodeID
	has, due drive.AccountID
}

// Grants of a deleted node are no defect: housekeeping deletes them.
const selectGrantRows = `SELECT DISTINCT g.node_id, g.account_id, n.account_id FROM grants g JOIN nodes n ON n.id = g.node_id `

// scanGrantRow reads a row of selectGrantRows into g by calling scan, and returns the error of
// scan.
func scanGrantRow(g *grantRow, scan func(...any) error) error { return scan(&g.node, &g.has, &g.due) }

// checkGrants is the step "grants": it finds grants whose account is not that of their node. The
// repair gives them the account of the node.
func (p *pass) checkGrants(ctx context.Context) error {
	const page = 500
	err := each(ctx, p, selectGrantRows+"WHERE g.node_id > ? ORDER BY g.node_id LIMIT ?", page, scanGrantRow, func(g grantRow) any { return g.node },
		func(g grantRow) error {
			if g.has == g.due {
				return nil
			}
			return p.found(ctx, defect{
				Finding: Finding{Invariant: "A1", Subject: "grants of node " + g.node.String(), Expected: g.due.String(), Found: g.has.String()},
				fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
					n, err := tx.Exec(ctx, "UPDATE grants SET account_id = ? WHERE node_id = ? AND account_id = ?", g.due, g.node, g.has)
					f.Repaired = n > 0
					return n > 0, err
				},
			})
		})
	if err != nil {
		return fmt.Errorf("check grants: %w", err)
	}
	return nil
}
