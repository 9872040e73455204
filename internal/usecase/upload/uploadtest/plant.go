package uploadtest

import (
	"context"
	"fmt"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
)

// Long is how many entries a long listing has: a server of a database takes its time for each.
func Long() int {
	if sqldbtest.OnMySQL() {
		return 200
	}
	return 1000
}

// Plant makes folders in a folder of an account, by the number from one to before another: n7. Each
// is shared with somebody as an editor; zero: with nobody.
func (s *Site) Plant(t testing.TB, who drive.Who, parent drive.NodeID, from, to int, with drive.UserID) {
	t.Helper()
	const atOnce = 50
	for ; from < to; from += atOnce {
		err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for i := from; i < min(from+atOnce, to); i++ {
				if err := s.plantOne(ctx, tx, who, tree.Place{Parent: parent, Name: drive.Name(fmt.Sprintf("n%d", i)), Conflict: drive.ConflictFail}, with); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (s *Site) plantOne(ctx context.Context, tx *sqldb.Tx, who drive.Who, at tree.Place, with drive.UserID) error {
	n, err := s.Tree.CreateFolder(ctx, tx, who.Account, at)
	if err != nil || with.IsZero() {
		return err
	}
	g := access.Grant{Node: n.ID, Account: who.Account, Kind: access.User, Principal: drive.PrincipalID(with), Role: access.Editor, By: who.User}
	_, err = s.Access.Set(ctx, tx, g)
	return err
}

// Editor makes a user, as an editor of a node of somebody else's.
func (s *Site) Editor(t testing.TB, owner drive.AccountID, node drive.NodeID) drive.UserID {
	t.Helper()
	who := s.Account(t, drive.GiB)
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO users (id, account_id, name, slot, password, admin, state, created_at, updated_at, link_epoch)
			VALUES (?, ?, ?, ?, '', 0, 'active', 0, 0, 1)`, who.User, who.Account, who.User, who.User)
		if err != nil {
			return err
		}
		g := access.Grant{Node: node, Account: owner, Kind: access.User, Principal: drive.PrincipalID(who.User), Role: access.Editor, By: who.User}
		_, err = s.Access.Set(ctx, tx, g)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return who.User
}
