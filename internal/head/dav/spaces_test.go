package dav_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// What the listing of the spaces asks the database does not grow with how many there are, and it
// shows each as by itself.
func TestStatementsOfTheSpaces(t *testing.T) {
	t.Parallel()
	var count sqldbtest.Counter
	s := newStackAt(t, uploadtest.Options{DB: sqldb.Options{Connector: count.Connector}})
	admin := s.Who
	admin.Admin = true
	made := 0
	add := func(n int) {
		t.Helper()
		for range n {
			made++
			if _, err := s.Spaces.Create(t.Context(), admin, space.NewSpace{Name: fmt.Sprintf("Team %02d", made)}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	list := func() (statements int, body string) {
		t.Helper()
		before := count.Count(sqldbtest.Query)
		body = s.Do(t, "PROPFIND /dav/spaces/", "Depth: 1").Want(t, http.StatusMultiStatus).Body
		if got := strings.Count(body, "<D:response>"); got != 1+made {
			t.Fatalf("%d of %d are listed", got-1, made)
		}
		return count.Count(sqldbtest.Query) - before, body
	}
	add(2)
	list() // names are remembered
	few, _ := list()
	add(20)
	list()
	many, body := list()
	if many > few+1 {
		t.Errorf("%d statements for 2 spaces and %d for %d", few, many, made)
	}
	one := s.Do(t, "PROPFIND /dav/spaces/Team%2007/", "Depth: 0").Want(t, http.StatusMultiStatus).Between(t, "<D:response>", "</D:response>")
	if !strings.Contains(body, one) {
		t.Errorf("in the list it is not\n%s", one)
	}
	s.CreateUser(t, "bob")
	if got := s.Do(t, "PROPFIND /dav/spaces/", "Depth: 1", davtest.AuthHeader("bob")).Want(t, http.StatusMultiStatus).Body; strings.Contains(got, "Team") {
		t.Errorf("a stranger sees %s", got)
	}
}
