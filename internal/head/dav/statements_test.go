package dav_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
	"smartdrive/internal/testkit/depth"
	"smartdrive/internal/usecase/upload/uploadtest"
)

// plant makes folders of a node of ann's by the number, and with share gives bob a role at each.
func (s *stack) plant(t *testing.T, parent drive.NodeID, from, to int, share bool) {
	t.Helper()
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for i := from; i < to; i++ {
			n, err := s.Tree.CreateFolder(ctx, tx, s.who.Account, tree.Place{Parent: parent, Name: drive.Name(fmt.Sprintf("n%d", i)), Conflict: drive.ConflictFail})
			if err != nil {
				return err
			}
			if !share {
				continue
			}
			g := access.Grant{
				Node: n.ID, Account: s.who.Account, Kind: access.User, Principal: drive.PrincipalID(s.people["bob"].User), Role: access.Editor, By: s.who.User,
			}
			if _, err := s.Access.Set(ctx, tx, g); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What a listing asks the database does not grow with what is in it.
func TestStatementsOfAListing(t *testing.T) {
	t.Parallel()
	depth.Normal(t)
	var count sqldbtest.Counter
	s := newStackAt(t, uploadtest.Options{DB: sqldb.Options{Connector: count.Connector}})
	withBob(t, s)
	team := s.at(t, s.who, "", "team").ID
	root := s.at(t, s.who, "", "").ID
	s.do(t, "LOCK /dav/files/team", "Depth: infinity", "", exclusive).want(t, http.StatusOK)
	ask := func(what string, entries int) int {
		t.Helper()
		before := count.Total()
		a := s.do(t, what, "Depth: 1", as("bob")).want(t, http.StatusMultiStatus)
		if got := strings.Count(a.body, "<D:response>"); got < entries {
			t.Fatalf("%s lists %d", what, got)
		}
		return count.Total() - before
	}
	listings := []string{"PROPFIND /dav/shared/team/", "PROPFIND /dav/shared/"}
	few := map[string]int{}
	s.plant(t, team, 0, 10, false)
	s.plant(t, root, 0, 10, true)
	s.Clock.Advance(time.Minute)
	for _, what := range listings {
		ask(what, 10) // names and ways are remembered
		few[what] = ask(what, 10)
	}
	s.plant(t, team, 10, 1000, false)
	s.plant(t, root, 10, 1000, true)
	for _, what := range listings {
		ask(what, 1000)
		if many := ask(what, 1000); many > few[what]+30 { // some for each page of what is shared
			t.Errorf("%s: %d statements for 10 entries and %d for 1,000", what, few[what], many)
		}
	}
}
