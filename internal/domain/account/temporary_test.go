package account

import (
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// TestTemporaryPasswordGivesNoScope: neither a login nor HTTP Basic has any scope, in other
// instances after maxRowAge at the latest.
func TestTemporaryPasswordGivesNoScope(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ann := f.add(t, "ann", true)
	f.add(t, "root", true)
	basic := Basic{Name: "ann", Password: secret, Head: drive.HeadDAV, Client: client}
	if _, err := f.sessions.Basic(t.Context(), basic); err != nil {
		t.Fatal(err)
	}
	if err := f.update(t, ann.ID, Patch{Password: f.hash(t, secret), Temporary: true}); err != nil {
		t.Fatal(err)
	}
	g := f.login(t, "ann")
	who, err := f.auth.Authenticate(t.Context(), g.Secret)
	if err != nil || !g.MustChange || !who.MustChangePassword || who.Scopes != 0 || who.Admin {
		t.Errorf("%+v, %v of a login %+v", who, err, g)
	}
	f.clock.Advance(maxRowAge)
	if _, err := f.sessions.Basic(t.Context(), basic); !drive.IsKind(err, drive.Unauthenticated) {
		t.Errorf("with each request: %v", err)
	}
	if _, err := f.other.auth.Authenticate(t.Context(), g.Secret); err != nil { // the other process has cached it
		t.Fatal(err)
	}
	if err := f.sessions.ChangePassword(t.Context(), who, secret, "another horse", client); err != nil {
		t.Fatal(err)
	}
	if who, err = f.auth.Authenticate(t.Context(), g.Secret); err != nil || who.MustChangePassword || !who.Admin {
		t.Errorf("after the change %+v, %v", who, err)
	}
	f.clock.Advance(maxRowAge)
	if who, err = f.other.auth.Authenticate(t.Context(), g.Secret); err != nil || who.MustChangePassword || !who.Admin {
		t.Errorf("in another process %+v, %v", who, err)
	}
	user, err := f.users.Find(t.Context(), f.db, ann.ID)
	if err != nil || user.MustChange || user.LastLogin == 0 {
		t.Errorf("%+v, %v", user, err)
	}
}
