package access

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Succession is a node that goes to another account, and the one that takes its place there: for a
// file that is itself.
type Succession struct{ Node, Heir drive.NodeID }

// Hand gives what is granted at nodes to the nodes that take their place in another account, and
// what their receivers call them with it. The one whose drive it is now (zero: nobody's, it is a
// space) needs no role there.
func (a *Access) Hand(ctx context.Context, tx *sqldb.Tx, from, to drive.AccountID, owner drive.UserID, all ...Succession) error {
	if len(all) == 0 {
		return nil
	}
	var any bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM grants WHERE account_id = ?)`, from).Scan(&any); err != nil || !any {
		return err
	}
	for _, s := range all {
		if err := handOne(ctx, tx, to, owner, s); err != nil {
			return fmt.Errorf("hand over what is granted at node %s: %w", s.Node, err)
		}
	}
	return a.changed(ctx, tx)
}

func handOne(ctx context.Context, tx *sqldb.Tx, to drive.AccountID, owner drive.UserID, s Succession) error {
	if !owner.IsZero() {
		if _, err := tx.Exec(ctx, "DELETE FROM grants WHERE node_id = ? AND principal_id = ?", s.Node, owner.String()); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM mounts WHERE node_id = ? AND user_id = ?", s.Node, owner.String()); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, "UPDATE grants SET node_id = ?, account_id = ? WHERE node_id = ?", s.Heir, to, s.Node); err != nil {
		return err
	}
	if s.Heir == s.Node {
		return nil
	}
	_, err := tx.Exec(ctx, "UPDATE mounts SET node_id = ? WHERE node_id = ?", s.Heir, s.Node)
	return err
}
