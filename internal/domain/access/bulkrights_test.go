package access_test

import (
	"context"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// TestRightsOfMoreNodesThanParameters: more shared nodes than a statement has parameters are still
// resolved.
func TestRightsOfMoreNodesThanParameters(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 3, 0)
	some := w.shareFolders(t, 3)
	ids := make([]drive.NodeID, 70_000) // SQLite takes 32,766, MySQL 65,535
	copy(ids, some[:1])
	copy(ids[len(ids)/2:], some[1:2])
	copy(ids[len(ids)-1:], some[2:])
	rights, err := w.RightsOf(t.Context(), w.db, w.people[2], ids)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := tree.ByID(t.Context(), w.tree, w.db, ids...)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range some {
		if !rights[id].Rights.Has(access.See) || nodes[id].ID != id {
			t.Errorf("%s of many: %v, %v", id, rights[id], nodes[id])
		}
	}
	if _, err := lock.On(t.Context(), w.db, drive.TimeOf(w.Now), ids); err != nil {
		t.Error(err)
	}
}

// TestGrantsPerPrincipalAreLimited: one drive can only share a bounded number of nodes with one
// user; other drives can still share with that user, and that drive with others.
func TestGrantsPerPrincipalAreLimited(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 4, 0)
	owner, bob, eve := w.Accounts[0], w.people[2].User, w.people[3].User
	const most = 10_000
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		rows := make([][]any, most)
		for i := range rows {
			rows[i] = []any{drive.NewID[drive.NodeID](), drive.PrincipalID(bob), owner.Account, access.User, access.Viewer, "", "", 0, 0, 0}
		}
		return tx.InsertRows(ctx, "INSERT INTO grants (node_id, principal_id, account_id, kind, role, granted_by, note, created_at, updated_at, expires_at)", rows)
	})
	give := func(account drive.AccountID, node drive.NodeID, to drive.UserID) error {
		return w.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := w.Access.Grant(ctx, tx, access.Grant{Node: node, Account: account, Kind: access.User, Principal: drive.PrincipalID(to), Role: access.Viewer})
			return err
		})
	}
	if err := give(owner.Account, owner.Root, bob); !drive.IsKind(err, drive.TooManyOpen) {
		t.Errorf("the 10,001st thing that one drive shares with one person: %v, want %v", err, drive.TooManyOpen)
	}
	if err := give(owner.Account, owner.Root, eve); err != nil {
		t.Errorf("with somebody else: %v", err)
	}
	other := w.people[3].Account
	if err := give(other, drive.NewID[drive.NodeID](), bob); err != nil {
		t.Errorf("from another drive: %v", err)
	}
}
