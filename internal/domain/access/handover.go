package access

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Successor is a node that is handed over to another account and its successor there; for a file
// they are the same.
type Successor struct{ Node, Heir drive.NodeID }

// HandOver moves grants and mounts from nodes to their successors in another account. owner is the
// user who owns that account and needs no grant there; zero: it is a space.
func (a *Access) HandOver(ctx context.Context, tx *sqldb.Tx, from, to drive.AccountID, owner drive.UserID, all ...Successor) error {
	if len(all) == 0 {
		return nil
	}
	var any bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM grants WHERE account_id = ?)`, from).Scan(&any); err != nil || !any {
		return err
	}
	for _, s := range all {
		if err := handOverGrants(ctx, tx, to, owner, s); err != nil {
			return fmt.Errorf("hand over what is granted at node %s: %w", s.Node, err)
		}
	}
	return a.endEpoch(ctx, tx)
}

// handOverGrants moves the grants of s.Node to s.Heir in account to, and the mounts if both differ.
// If owner is not zero, it deletes the owner's own grant and mount first. The caller must end the
// epoch.
func handOverGrants(ctx context.Context, tx *sqldb.Tx, to drive.AccountID, owner drive.UserID, s Successor) error {
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
