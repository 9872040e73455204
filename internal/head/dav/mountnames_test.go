package dav_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// names is a stack whose bob has things that ann and eve share with him.
type names struct {
	*stack

	t   *testing.T
	eve drive.Who
}

func newNames(t *testing.T) names {
	t.Helper()
	s := newStack(t)
	s.CreateUser(t, "bob")
	return names{s, t, s.CreateUser(t, "eve")}
}

func (s names) mkdir(who drive.Who, name string) {
	s.t.Helper()
	if _, err := s.Files.Mkdir(s.t.Context(), who, files.Mkdir{Name: drive.Name(name)}); err != nil {
		s.t.Fatal(err)
	}
}

// given creates a folder of who and shares it with bob.
func (s names) given(who drive.Who, name string) drive.NodeID {
	s.t.Helper()
	s.mkdir(who, name)
	return s.share(s.t, who, name)
}

func (s names) want(what string, want ...string) {
	s.t.Helper()
	slices.Sort(want)
	if got := s.mounted(s.t); !slices.Equal(got, want) {
		s.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (s names) mount(node drive.NodeID, c access.MountChange) {
	s.t.Helper()
	if err := s.Spaces.SetMount(s.t.Context(), s.People["bob"], node, c); err != nil {
		s.t.Fatal(err)
	}
}

func ended(name string, id drive.NodeID) string {
	return fmt.Sprintf("%s (%s)", name, id.String()[28:])
}

// Between two listings, a share of the same name arrives and the known one changes. The known share
// keeps its name.
func TestFirstShareKeepsItsName(t *testing.T) {
	t.Parallel()
	for what, happen := range map[string]func(s names, node drive.NodeID) error{
		"nothing": func(names, drive.NodeID) error { return nil },
		"it is moved": func(s names, node drive.NodeID) error {
			s.mkdir(s.Who, "elsewhere")
			_, err := s.Files.Patch(s.t.Context(), s.Who, node, files.Patch{Parent: s.at(s.t, s.Who, "", "elsewhere").ID})
			return err
		},
		"it gets another time": func(s names, node drive.NodeID) error {
			_, err := s.Files.Patch(s.t.Context(), s.Who, node, files.Patch{MTime: drive.TimeOf(s.Clock.Now().Add(-time.Hour))})
			return err
		},
		"a wider role of a group": func(s names, node drive.NodeID) error {
			var group access.UserGroup
			err := s.DB.Write(s.t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
				if group, err = s.Access.CreateGroup(ctx, tx, "group"); err == nil {
					err = s.Access.AddMember(ctx, tx, group.ID, s.People["bob"].User)
				}
				return err
			})
			if err != nil {
				return err
			}
			to := space.Principal{Kind: access.Group, ID: drive.PrincipalID(group.ID)}
			_, err = s.Spaces.Grant(s.t.Context(), s.Who, space.NewGrant{Node: node, To: to, Role: access.Manager}, nil)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newNames(t)
			anns := s.given(s.Who, "team")
			s.want("one", "team")
			eves := s.given(s.eve, "team")
			if err := happen(s, anns); err != nil {
				t.Fatal(err)
			}
			s.want("the other one comes", "team", ended("team", eves))
			s.Do(t, "PUT /dav/shared/team/f", davtest.AuthHeader("bob"), "", "for ann").Want(t, http.StatusCreated)
			if n, err := s.Files.GetByPath(t.Context(), s.Who, drive.Address{Place: anns.String(), Path: drive.Path{"f"}}); err != nil {
				t.Errorf("what bob wrote is not ann's: %v, %v", n, err)
			}
		})
	}
}

// No share gets the name of another one because its folder is renamed.
func TestShareNamesStayUnique(t *testing.T) {
	t.Parallel()
	s := newNames(t)
	s.given(s.Who, "team")
	s.want("one", "team")
	eves := s.given(s.eve, "team")
	s.want("two", "team", ended("team", eves))
	copied := s.given(s.Who, ended("team", eves))
	s.want("one that is called as the second is shown", "team", ended("team", eves), ended(ended("team", eves), copied))

	// The names are taken before the one comes that would have them.
	s.mkdir(s.eve, "plans")
	node := s.at(t, s.eve, "", "plans").ID
	other := "PLANS (" + strings.ToUpper(node.String()) + ")"
	s.given(s.Who, "Plans")
	s.given(s.Who, ended("plans", node))
	s.given(s.Who, other)
	want := []string{"Plans", ended("plans", node), other, "plans (" + node.String() + " 2)"}
	s.share(t, s.eve, "plans")
	for range 2 {
		got := slices.DeleteFunc(s.mounted(t), func(name string) bool { return strings.HasPrefix(name, "team") })
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A hidden share does not return under a name that another share has got meanwhile. A share whose
// name bob resets does not take the name that clients know.
func TestRestoredShareGetsFreeName(t *testing.T) {
	t.Parallel()
	s := newNames(t)
	anns := s.given(s.Who, "team")
	s.want("one", "team")
	hidden, seen, alias, none := true, false, "mine", ""
	s.mount(anns, access.MountChange{Hidden: &hidden})
	s.want("hidden")
	s.mount(anns, access.MountChange{Hidden: &seen})
	eves := s.given(s.eve, "team")
	s.want("seen again", "team", ended("team", eves))
	s.mount(anns, access.MountChange{Alias: &alias})
	s.mount(anns, access.MountChange{Alias: &none})
	s.want("called otherwise, and back, between two listings", "team", ended("team", eves))

	s.mount(anns, access.MountChange{Hidden: &hidden})
	s.want("hidden", ended("team", eves))
	third := s.given(s.CreateUser(t, "carl"), "team")
	s.want("a third one gets the name", "team", ended("team", eves))
	s.mount(anns, access.MountChange{Hidden: &seen})
	s.want("and keeps it", "team", ended("team", eves), ended("team", anns))
	s.Do(t, "PUT /dav/shared/team/f", davtest.AuthHeader("bob"), "", "for carl").Want(t, http.StatusCreated)
	if _, err := s.Files.GetByPath(t.Context(), s.People["carl"], drive.Address{Place: third.String(), Path: drive.Path{"f"}}); err != nil {
		t.Errorf("what bob wrote is not carl's: %v", err)
	}
}

// Many requests that are the first to list name everything once, and alike.
func TestConcurrentRenamesOfShares(t *testing.T) {
	t.Parallel()
	s := newNames(t)
	for i := range 6 {
		s.given(s.Who, fmt.Sprintf("team %d", i%3)+strings.Repeat("x", i/3))
	}
	for i := range 3 {
		s.given(s.eve, fmt.Sprintf("team %d", i))
	}
	answers := make([][]string, 8)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			mounted, err := s.Spaces.Mounted(t.Context(), s.People["bob"])
			if err != nil {
				t.Error(err)
			}
			for _, m := range mounted {
				answers[i] = append(answers[i], string(m.As)+" "+m.Node.String())
			}
		})
	}
	all.Wait()
	for _, got := range answers {
		if !slices.Equal(got, answers[0]) || len(got) != 9 {
			t.Errorf("%q and %q", got, answers[0])
		}
	}
}

// While the database refuses writes, so that names cannot be stored, shares are listed under the
// names that they keep afterwards.
func TestSharesAreListedWithoutWrites(t *testing.T) {
	t.Parallel()
	var faults sqldbtest.Faults
	s := names{newStackAt(t, uploadtest.Options{DB: sqldb.Options{Connector: faults.Connector}}), t, drive.Who{}}
	s.CreateUser(t, "bob")
	s.eve = s.CreateUser(t, "eve")
	s.given(s.Who, "team")
	eves := s.given(s.eve, "team")
	for _, cause := range []error{drive.Fail(drive.DiskFull), nil} {
		faults.FailAll(sqldbtest.Commit, cause)
		s.want("nothing can be written", "team", ended("team", eves))
		s.Do(t, "PROPFIND /dav/shared/team/", "Depth: 1", davtest.AuthHeader("bob")).Want(t, http.StatusMultiStatus)
		faults.Clear()
	}
	s.want("it can again", "team", ended("team", eves))
	anns := s.given(s.eve, "other")
	s.mount(anns, access.MountChange{Alias: new("team")})
	s.want("the names are kept", "team", ended("team", eves), ended("team", anns))
}
