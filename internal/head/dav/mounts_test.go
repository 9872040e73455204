package dav_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/space"
)

// share grants bob a role at a folder of owner.
func (s *stack) share(t *testing.T, owner drive.Who, path string) drive.NodeID {
	t.Helper()
	n := s.at(t, owner, "", path)
	to := space.Principal{Kind: access.User, ID: drive.PrincipalID(s.People["bob"].User)}
	if _, err := s.Spaces.Grant(t.Context(), owner, space.NewGrant{Node: n.ID, To: to, Role: access.Editor}, nil); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(time.Minute)
	return n.ID
}

func (s *stack) unshare(t *testing.T, owner drive.Who, id drive.NodeID) {
	t.Helper()
	if err := s.Spaces.Ungrant(t.Context(), owner, id, drive.PrincipalID(s.People["bob"].User), false); err != nil {
		t.Fatal(err)
	}
}

var hrefs = regexp.MustCompile("<D:href>/dav/shared/([^<]+)/</D:href>")

// mounted returns the names of the items shared with bob.
func (s *stack) mounted(t *testing.T) (names []string) {
	t.Helper()
	a := s.Do(t, "PROPFIND /dav/shared/", "Depth: 1", davtest.AuthHeader("bob")).Want(t, http.StatusMultiStatus)
	for _, m := range hrefs.FindAllStringSubmatch(a.Body, -1) {
		names = append(names, strings.NewReplacer("%20", " ", "%28", "(", "%29", ")").Replace(m[1]))
	}
	return names
}

// A client that knows only paths takes a changed name for a deletion, so a share keeps its name
// when other shares arrive or end.
func TestNamesOfWhatIsSharedStay(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	eve := s.CreateUser(t, "eve")
	mkdir := func(who drive.Who, name drive.Name) {
		if _, err := s.Files.Mkdir(t.Context(), who, files.Mkdir{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, names ...string) {
		t.Helper()
		slices.Sort(names)
		if got := s.mounted(t); !slices.Equal(got, names) {
			t.Fatalf("%s: %q, want %q", what, got, names)
		}
	}
	suffixed := func(name string, id drive.NodeID) string { return fmt.Sprintf("%s (%s)", name, id.String()[28:]) }
	for _, name := range []drive.Name{"team", "plans"} {
		mkdir(s.Who, name)
		mkdir(eve, name)
	}
	// Ids of nodes are in the order in which they are made: the one of eve is the later one, and is
	// shared first.
	eves := s.share(t, eve, "team")
	want("one", "team")
	anns := s.share(t, s.Who, "team")
	other := suffixed("team", anns)
	want("a second one of its name", "team", other)
	s.Do(t, "PUT /dav/shared/team/f", davtest.AuthHeader("bob"), "", "eve's").Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/shared/"+strings.NewReplacer(" ", "%20").Replace(other)+"/f", davtest.AuthHeader("bob"), "", "ann's").Want(t, http.StatusCreated)
	s.Do(t, "GET /dav/files/team/f").Has(t, "ann's")
	s.unshare(t, eve, eves)
	want("the first one goes", other)
	s.share(t, eve, "team")
	want("and comes back", "team", other)
	plans := s.share(t, s.Who, "plans")
	want("something else", "plans", "team", other)
	if _, err := s.Files.Patch(t.Context(), s.Who, plans, files.Patch{Name: "team", Conflict: drive.ConflictRename}); err != nil {
		t.Fatal(err)
	}
	want("which gets another name", "team", other, "team (2)")
	evesPlans := s.share(t, eve, "plans")
	call := func(id drive.NodeID, alias string) {
		t.Helper()
		if err := s.Spaces.SetMount(t.Context(), s.People["bob"], id, access.MountChange{Alias: &alias}); err != nil {
			t.Fatal(err)
		}
		s.Clock.Advance(time.Minute)
	}
	call(evesPlans, "Team")
	want("bob calls another one so", "team", other, "team (2)", suffixed("Team", evesPlans))
	call(evesPlans, "mine")
	want("and otherwise", "team", other, "team (2)", "mine")
	call(plans, "mine")
	want("two that bob calls alike", "team", other, suffixed("mine", plans), "mine")
	s.unshare(t, eve, evesPlans)
	call(plans, "")
	want("one of them goes, and the other is called as it was", "team", other, "team (2)")
}

// A file that is shared individually is read and changed where it is listed. Nothing can be created
// beside it, and no reply claims that a missing item exists.
func TestAFileThatIsSharedByItself(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.Do(t, "PUT /dav/files/solo.txt", "", "ann's").Want(t, http.StatusCreated)
	at := s.share(t, s.Who, "solo.txt")
	bob := davtest.AuthHeader("bob")
	tag := s.Do(t, "GET /dav/shared/solo.txt", bob).Want(t, http.StatusOK).Has(t, "ann's").Header.Get("ETag")
	s.Do(t, "PUT /dav/shared/solo.txt", bob, "If-Match: "+tag, "", "bob's").Want(t, http.StatusNoContent)
	s.Do(t, "PUT /dav/shared/solo.txt", bob, "If-Match: "+tag, "", "late").Want(t, http.StatusPreconditionFailed)
	s.Do(t, "PUT /dav/shared/solo.txt", bob, "", strings.Repeat("large", 2<<20)).Want(t, http.StatusRequestEntityTooLarge)
	name, value, _ := strings.Cut(bob, ": ")
	untold := io.MultiReader(strings.NewReader(strings.Repeat("long", 100<<10))) // of unknown length
	s.Send(t, "PUT /dav/shared/solo.txt", http.Header{name: {value}}, untold).Want(t, http.StatusRequestEntityTooLarge).Has(t, "262144")
	s.Do(t, "PUT /dav/shared/solo.txt", bob, "", "last").Want(t, http.StatusNoContent)
	s.Do(t, "GET /dav/files/solo.txt").Want(t, http.StatusOK).Has(t, "last")
	s.Do(t, "MKCOL /dav/shared/solo.txt", bob).Want(t, http.StatusMethodNotAllowed)
	for _, other := range []string{"PUT /dav/shared/other.txt", "MKCOL /dav/shared/other", "MKCOL /dav/spaces/other", "PUT /dav/spaces/other"} {
		s.Do(t, other, bob).Want(t, http.StatusForbidden).Has(t, "part of how the drive is laid out")
	}
	s.Do(t, "MKCOL /dav/shared", bob).Want(t, http.StatusMethodNotAllowed).Has(t, "&quot;shared&quot;")
	s.unshare(t, s.Who, at)
	s.Do(t, "PUT /dav/shared/solo.txt", bob, "", "too late").Want(t, http.StatusForbidden)
	s.Do(t, "GET /dav/files/solo.txt").Has(t, "last")
}
