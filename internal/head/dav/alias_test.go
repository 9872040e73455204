package dav_test

import (
	"net/http"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/usecase/space"
)

// A user with roles at a folder and at a folder below it has two paths for the contents of the
// second. COPY and MOVE from one path to the other would replace a node by itself and are refused
// (RFC 4918 §9.8.5, §9.9.4).
func TestTwoAddressesOfOneNode(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	for _, path := range []string{"team/sub", "team/sub/dir"} {
		s.Do(t, "MKCOL /dav/files/"+path).Want(t, http.StatusCreated)
	}
	s.Do(t, "PUT /dav/files/team/sub/dir/f", "", "in it").Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/files/team/sub/file", "", "a file").Want(t, http.StatusCreated)
	to := space.Principal{Kind: access.User, ID: drive.PrincipalID(s.People["bob"].User)}
	sub := space.NewGrant{Node: s.at(t, s.Who, "", "team/sub").ID, To: to, Role: access.Manager}
	if _, err := s.Spaces.Grant(t.Context(), s.Who, sub, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dir", "file"} {
		before := s.at(t, s.Who, "", "team/sub/"+name)
		for _, method := range []string{"COPY", "MOVE"} {
			s.Do(t, method+" /dav/shared/team/sub/"+name, "Destination: /dav/shared/sub/"+name, davtest.AuthHeader("bob")).Want(t, http.StatusForbidden)
		}
		if after := s.at(t, s.Who, "", "team/sub/"+name); after.ID != before.ID || after.Version != before.Version {
			t.Errorf("%s is another one: %+v, was %+v", name, after, before)
		}
	}
}
