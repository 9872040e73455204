package dav_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
	"smartdrive/internal/testkit/depth"
	"smartdrive/internal/usecase/upload/uploadtest"
)

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
	s.Plant(t, s.who, team, 0, 10, drive.UserID{})
	s.Plant(t, s.who, root, 0, 10, s.people["bob"].User)
	s.Clock.Advance(time.Minute)
	for _, what := range listings {
		ask(what, 10) // names and ways are remembered
		few[what] = ask(what, 10)
	}
	s.Plant(t, s.who, team, 10, uploadtest.Long(), drive.UserID{})
	s.Plant(t, s.who, root, 10, uploadtest.Long(), s.people["bob"].User)
	for _, what := range listings {
		ask(what, uploadtest.Long())
		if many := ask(what, uploadtest.Long()); many > few[what]+30 { // some for each page of what is shared
			t.Errorf("%s: %d statements for 10 entries and %d for %d", what, few[what], many, uploadtest.Long())
		}
	}
}
