package dav_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Whatever happens to shared items, each is found by its name in the listing and by no other name.
func TestShareIsFoundByItsListedName(t *testing.T) {
	t.Parallel()
	s := newNames(t)
	bob := s.People["bob"]
	check := func(what string) {
		t.Helper()
		// Asked for before the listing, as by a client that knows its names, and after it.
		ask := []drive.Name{"team", "Team", "plans", "mine", "none"}
		before := map[drive.Name]drive.NodeID{}
		for _, name := range ask {
			if m, err := s.Spaces.MountedAs(t.Context(), bob, name); err == nil {
				before[name] = m.Node
			} else if !drive.IsKind(err, drive.NotFound) {
				t.Fatal(err)
			}
		}
		all, err := s.Spaces.Mounted(t.Context(), bob)
		if err != nil {
			t.Fatal(err)
		}
		listed := map[drive.Name]drive.NodeID{}
		for _, m := range all {
			listed[m.As] = m.Node
			if found, err := s.Spaces.MountedAs(t.Context(), bob, m.As); err != nil || found.Node != m.Node {
				t.Errorf("%s: %q is %v (%v), and listed %v", what, m.As, found.Node, err, m.Node)
			}
		}
		for _, name := range ask {
			if before[name] != listed[name] {
				t.Errorf("%s: %q was %v, and is listed as %v", what, name, before[name], listed[name])
			}
		}
	}
	anns := s.given(s.Who, "team")
	check("one")
	eves := s.given(s.eve, "team")
	check("two of a name")
	alias, none := "plans", ""
	s.mount(anns, access.MountChange{Alias: &alias})
	check("one is called otherwise")
	if _, err := s.Files.Patch(t.Context(), s.eve, eves, files.Patch{Name: "Team"}); err != nil {
		t.Fatal(err)
	}
	check("the other is renamed by its owner")
	hidden, shown := true, false
	s.mount(eves, access.MountChange{Hidden: &hidden})
	check("hidden")
	s.mount(eves, access.MountChange{Hidden: &shown})
	s.mount(anns, access.MountChange{Alias: &none})
	check("as before")
	if _, err := s.Files.Trash(t.Context(), s.Who, anns, tree.Expect{}); err != nil {
		t.Fatal(err)
	}
	check("in the trash")
	if err := s.Spaces.Ungrant(t.Context(), s.eve, eves, drive.PrincipalID(bob.User), false); err != nil {
		t.Fatal(err)
	}
	check("taken away")
	if _, err := s.Spaces.MountedAs(t.Context(), bob, "Team"); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("what was taken away is found: %v", err)
	}
}

// What gives nothing any more has no name, either: something else of that name is found by it
// before anybody has listed it.
func TestNameOfRevokedShareIsFree(t *testing.T) {
	t.Parallel()
	for _, shut := range []string{"nobody gives roles to others", "the space is deleted"} {
		t.Run(shut, func(t *testing.T) {
			t.Parallel()
			s := newNames(t)
			admin, bob := s.Who, s.People["bob"]
			admin.Admin = true
			design, err := s.Spaces.Create(t.Context(), admin, space.NewSpace{Name: "Design"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Do(t, "MKCOL /dav/spaces/Design/team").Want(t, http.StatusCreated)
			old := s.at(t, s.Who, "Design", "team").ID
			to := space.Principal{Kind: access.User, ID: drive.PrincipalID(bob.User)}
			if _, err := s.Spaces.Grant(t.Context(), s.Who, space.NewGrant{Node: old, To: to, Role: access.Editor}, nil); err != nil {
				t.Fatal(err)
			}
			s.want("as it is", "team")
			if shut == "the space is deleted" {
				err = s.Spaces.Delete(t.Context(), admin, design.ID)
			} else {
				nobody := access.Nobody
				_, err = s.Spaces.Set(t.Context(), s.Who, design.ID, space.Change{Settings: access.SettingsChange{Outward: &nobody}})
			}
			if err != nil {
				t.Fatal(err)
			}
			eves := s.given(s.eve, "team")
			if m, err := s.Spaces.MountedAs(t.Context(), bob, "team"); err != nil || m.Node != eves {
				t.Errorf("team is %v (%v), want %v", m.Node, err, eves)
			}
			s.want("and then", "team")
		})
	}
}

// The lookup of one share reads none of the others, even if the name does not exist.
func TestLookupReadsOneShare(t *testing.T) {
	t.Parallel()
	var count sqldbtest.Counter
	s := newStackAt(t, uploadtest.Options{DB: sqldb.Options{Connector: count.Connector}})
	s.CreateUser(t, "bob")
	root := s.at(t, s.Who, "", "").ID
	statements := func() int {
		t.Helper()
		all, err := s.Spaces.Mounted(t.Context(), s.People["bob"])
		if err != nil {
			t.Fatal(err)
		}
		path := "/dav/shared/" + url.PathEscape(string(all[0].As))
		s.Clock.Advance(time.Minute)
		s.Do(t, "PROPFIND "+path, "Depth: 0", davtest.AuthHeader("bob")).Want(t, http.StatusMultiStatus)
		before := count.Total()
		s.Do(t, "PROPFIND "+path, "Depth: 0", davtest.AuthHeader("bob")).Want(t, http.StatusMultiStatus)
		return count.Total() - before
	}
	none := func() int {
		t.Helper()
		before := count.Total()
		s.Do(t, "PROPFIND /dav/shared/nobody%20has%20this%20(1)", "Depth: 0", davtest.AuthHeader("bob")).Want(t, http.StatusNotFound)
		return count.Total() - before
	}
	s.CreateFolders(t, s.Who, root, 0, 10, s.People["bob"].User)
	few, fewNone := statements(), min(none(), none())               // the epoch is remembered for a while
	s.CreateFolders(t, s.Who, root, 10, 1200, s.People["bob"].User) // more than one statement of a listing takes
	before := none()
	if many, manyNone := statements(), none(); many != few || manyNone != fewNone || before > fewNone+1 || fewNone > 3 {
		t.Errorf("%d statements for one of 10, and %d for one of 1200; for none %d, and %d and %d", few, many, fewNone, before, manyNone)
	}
}
