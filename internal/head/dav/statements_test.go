package dav_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// The number of a listing's database statements does not depend on the number of entries.
func TestStatementsOfAListing(t *testing.T) {
	t.Parallel()
	depth.Normal(t)
	var count sqldbtest.Counter
	s := newStackAt(t, uploadtest.Options{DB: sqldb.Options{Connector: count.Connector}})
	withBob(t, s)
	team := s.at(t, s.Who, "", "team").ID
	root := s.at(t, s.Who, "", "").ID
	s.Do(t, "LOCK /dav/files/team", "Depth: infinity", "", exclusive).Want(t, http.StatusOK)
	ask := func(what string, entries int) int {
		t.Helper()
		before := count.Total()
		a := s.Do(t, what, "Depth: 1", davtest.AuthHeader("bob")).Want(t, http.StatusMultiStatus)
		if got := strings.Count(a.Body, "<D:response>"); got < entries {
			t.Fatalf("%s lists %d", what, got)
		}
		return count.Total() - before
	}
	listings := []string{"PROPFIND /dav/shared/team/", "PROPFIND /dav/shared/"}
	few := map[string]int{}
	s.CreateFolders(t, s.Who, team, 0, 10, drive.UserID{})
	s.CreateFolders(t, s.Who, root, 0, 10, s.People["bob"].User)
	s.Clock.Advance(time.Minute)
	for _, what := range listings {
		ask(what, 10) // names and ways are remembered
		few[what] = ask(what, 10)
	}
	s.CreateFolders(t, s.Who, team, 10, uploadtest.LongListing(), drive.UserID{})
	s.CreateFolders(t, s.Who, root, 10, uploadtest.LongListing(), s.People["bob"].User)
	for _, what := range listings {
		ask(what, uploadtest.LongListing())
		if many := ask(what, uploadtest.LongListing()); many > few[what]+30 { // some for each page of what is shared
			t.Errorf("%s: %d statements for 10 entries and %d for %d", what, few[what], many, uploadtest.LongListing())
		}
	}
}

// What a request asks the database about locks does not grow with how many there are, or whose.
func TestStatementsAboutLocks(t *testing.T) {
	t.Parallel()
	var count sqldbtest.Counter
	s := newStackAt(t, uploadtest.Options{DB: sqldb.Options{Connector: count.Connector}})
	withBob(t, s)
	s.CreateUser(t, "cid")
	s.grant(t, "cid", access.Editor)
	lock := func(i int, who string) {
		name := "team/" + who + strconv.Itoa(i)
		s.Do(t, "PUT /dav/files/"+name, "", "x").Want(t, http.StatusCreated)
		s.Do(t, "LOCK /dav/shared/"+name, davtest.AuthHeader(who), "", exclusive).Want(t, http.StatusOK)
	}
	ask := func(locks int) int {
		before := count.Total()
		a := s.Do(t, "PROPFIND /dav/files/team/", "Depth: 1").Want(t, http.StatusMultiStatus)
		if got := strings.Count(a.Body, "<D:locktoken>"); got != locks {
			t.Fatalf("%d locks are listed, want %d", got, locks)
		}
		return count.Total() - before
	}
	lock(0, "bob")
	ask(1) // who is shown what is remembered
	few := ask(1)
	for i := 1; i < 10; i++ {
		lock(i, "bob")
		lock(i, "cid")
	}
	ask(19)
	if many := ask(19); many != few {
		t.Errorf("%d statements for 1 lock and %d for 19 of two users", few, many)
	}
}
