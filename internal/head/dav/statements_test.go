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

// planted is how many entries a long listing has: a server takes its time for each.
func planted() int {
	if sqldbtest.OnMySQL() {
		return 200
	}
	return 1000
}

// plant makes folders of a node of ann's by the number, and with share gives bob a role at each.
func (s *stack) plant(t *testing.T, parent drive.NodeID, from, to int, share bool) {
	t.Helper()
	for ; from < to; from += 50 {
		err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for i := from; i < min(from+50, to); i++ {
				if err := s.plantOne(ctx, tx, tree.Place{Parent: parent, Name: drive.Name(fmt.Sprintf("n%d", i)), Conflict: drive.ConflictFail}, share); err != nil {
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

func (s *stack) plantOne(ctx context.Context, tx *sqldb.Tx, at tree.Place, share bool) error {
	n, err := s.Tree.CreateFolder(ctx, tx, s.who.Account, at)
	if err != nil || !share {
		return err
	}
	bob := drive.PrincipalID(s.people["bob"].User)
	_, err = s.Access.Set(ctx, tx, access.Grant{Node: n.ID, Account: s.who.Account, Kind: access.User, Principal: bob, Role: access.Editor, By: s.who.User})
	return err
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
	s.plant(t, team, 10, planted(), false)
	s.plant(t, root, 10, planted(), true)
	for _, what := range listings {
		ask(what, planted())
		if many := ask(what, planted()); many > few[what]+30 { // some for each page of what is shared
			t.Errorf("%s: %d statements for 10 entries and %d for %d", what, few[what], many, planted())
		}
	}
}
