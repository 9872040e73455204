package uploadtest

import (
	"context"
	"fmt"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// LongListing returns how many entries a test needs for a long listing; fewer on a database server,
// which is slower.
func LongListing() int {
	if sqldbtest.OnMySQL() {
		return 200
	}
	return 1000
}

// CreateFolders creates the folders n<from> to n<to-1> in a folder. If with is not zero, each is
// shared with that user as editor.
func (s *Site) CreateFolders(t testing.TB, who drive.Who, parent drive.NodeID, from, to int, with drive.UserID) {
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

// plantOne creates one folder and shares it with the user, unless that is zero.
func (s *Site) plantOne(ctx context.Context, tx *sqldb.Tx, who drive.Who, at tree.Place, with drive.UserID) error {
	n, err := s.Tree.CreateFolder(ctx, tx, who.Account, at)
	if err != nil || with.IsZero() {
		return err
	}
	g := access.Grant{Node: n.ID, Account: who.Account, Kind: access.User, Principal: drive.PrincipalID(with), Role: access.Editor, By: who.User}
	_, err = s.Access.Grant(ctx, tx, g)
	return err
}

// Editor creates a user who is editor of a node of another account.
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
		_, err = s.Access.Grant(ctx, tx, g)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return who.User
}
