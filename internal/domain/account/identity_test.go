package account

import (
	"context"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

func (f *fixture) connect(t *testing.T, user User, i Identity) error {
	t.Helper()
	return f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		return f.users.Connect(ctx, tx, user, 0, i)
	})
}

var somebody = Identity{"https://id.example.org", "1"}

// TestProviderLoginEnds: a login by an identity provider is extended like others and never beyond
// its fixed end, even if the row says otherwise.
func TestProviderLoginEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ann := f.add(t, "ann", false)
	if err := f.connect(t, ann, somebody); err != nil {
		t.Fatal(err)
	}
	const life = loginLife + 10*24*time.Hour
	g, err := f.sessions.Enter(t.Context(), ann, somebody, Login{}, life)
	if err != nil {
		t.Fatal(err)
	}
	end := f.clock.Now().Add(life)
	use := func() error {
		_, err := f.auth.Authenticate(t.Context(), g.Secret)
		if err == nil {
			err = f.auth.refreshOnce(t.Context())
		}
		return err
	}
	for f.clock.Now().Add(24 * time.Hour).Before(end) { // daily, past the 30 days of an unused one
		f.clock.Advance(24 * time.Hour)
		if err := use(); err != nil {
			t.Fatalf("%v before its end: %v", end.Sub(f.clock.Now()), err)
		}
	}
	if all, err := f.sessions.List(t.Context(), drive.Who{User: ann.ID, Account: ann.Account}, KindLogin); err != nil || len(all) != 1 || all[0].ExpiresAt != drive.TimeOf(end) {
		t.Errorf("the logins are %+v, %v, want one that ends at %v", all, err, end)
	}
	if err := f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { // as an older release extends it
		_, err := tx.Exec(ctx, "UPDATE sessions SET expires_at = ?", drive.TimeOf(end.Add(48*time.Hour)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(24 * time.Hour)
	if err := use(); !drive.IsKind(err, drive.Unauthenticated) {
		t.Errorf("after its end: %v", err)
	}
}

func TestIdentityBelongsToOneUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ann, ben := f.add(t, "ann", false), f.add(t, "ben", false)
	for range 2 {
		if err := f.connect(t, ann, somebody); err != nil {
			t.Fatal(err)
		}
	}
	for name, err := range map[string]error{
		"to another user":       f.connect(t, ben, somebody),
		"another of the issuer": f.connect(t, ann, Identity{somebody.Issuer, "2"}),
	} {
		if !drive.IsKind(err, drive.WrongState) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := f.connect(t, ann, Identity{"https://other.example.org", "1"}); err != nil {
		t.Errorf("of another issuer: %v", err)
	}
	if _, err := f.sessions.Enter(t.Context(), ben, somebody, Login{}, time.Hour); !drive.IsKind(err, drive.Gone) {
		t.Errorf("a login with another one's: %v", err)
	}
	g, err := f.other.sessions.Enter(t.Context(), ann, somebody, Login{}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	local, err := f.sessions.Login(t.Context(), Login{Name: "ann", Password: secret})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		return f.users.Disconnect(ctx, tx, ann, somebody.Issuer)
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.auth.Authenticate(t.Context(), g.Secret); !drive.IsKind(err, drive.Unauthenticated) {
		t.Errorf("the login by it: %v", err)
	}
	if _, err := f.auth.Authenticate(t.Context(), local.Secret); err != nil {
		t.Errorf("the login by password: %v", err)
	}
	if _, err := f.sessions.Enter(t.Context(), ann, somebody, Login{}, time.Hour); !drive.IsKind(err, drive.Gone) {
		t.Errorf("a login that was under way: %v", err)
	}
}

func TestDeletedUserLosesIdentities(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "root", true)
	ann := f.add(t, "ann", false)
	if err := f.connect(t, ann, somebody); err != nil {
		t.Fatal(err)
	}
	group := drive.NewID[drive.GroupID]()
	if err := f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if err := f.users.NoteGroup(ctx, tx, ann.ID, somebody, group); err != nil {
			return err
		}
		return f.users.Delete(ctx, tx, ann.ID)
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.users.FindByIdentity(t.Context(), f.db, somebody); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("the identity: %v", err)
	}
	if groups, err := f.users.GroupsOfProvider(t.Context(), f.db, ann.ID); err != nil || len(groups) > 0 {
		t.Errorf("the groups: %v, %v", groups, err)
	}
}
