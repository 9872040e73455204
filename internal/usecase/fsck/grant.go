package fsck

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// astray is a grant whose account is not that of its node: it is not found when the account's are
// asked for, and so hides nothing in a listing.
type astray struct {
	node     drive.NodeID
	has, due drive.AccountID
}

// A node that is not there is no defect: its grants follow it with the next housekeeping.
const selectAstray = `SELECT DISTINCT g.node_id, g.account_id, n.account_id FROM grants g JOIN nodes n ON n.id = g.node_id `

func scanAstray(g *astray, scan func(...any) error) error { return scan(&g.node, &g.has, &g.due) }

// checkGrants compares the accounts of grants with those of their nodes.
func (p *pass) checkGrants(ctx context.Context) error {
	const page = 500
	err := each(ctx, p, selectAstray+"WHERE g.node_id > ? ORDER BY g.node_id LIMIT ?", page, scanAstray, func(g astray) any { return g.node },
		func(g astray) error {
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
