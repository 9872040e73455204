package signon

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/issuertest"
	"example.org/smartdrive/internal/usecase/admin"
	"example.org/smartdrive/internal/usecase/space"
)

// fixture is an installation with an administrator, and an identity provider.
type fixture struct {
	*SignOn
	issuer *issuertest.Issuer
	auth   *account.Auth
	now    atomic.Int64 // offset of the clock
	faults sqldbtest.Faults
	admin  account.User
}

const (
	redirect = "https://drive.example.org/sign-on"
	password = "correct horse"
)

func newFixture(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	f := &fixture{issuer: issuertest.New(t)}
	now := func() time.Time { return time.Now().Add(time.Duration(f.now.Load())) }
	db, trees := sqldbtest.OpenWith(t, sqldb.Options{Connector: f.faults.Connector}), tree.New(tree.Options{})
	opt := account.Options{Cost: account.Cost{MemoryKiB: 64, Passes: 1, Threads: 1}, Now: now}
	f.auth = account.NewAuth(db, opt)
	users := account.NewUsers(db, f.auth, opt)
	people := admin.New(admin.Parts{DB: db, Users: users, Trees: trees, Keys: idem.NewKeys(db, idem.Options{})}, admin.Options{})
	spaces := space.New(space.Parts{DB: db, Access: access.New(access.Options{DB: db}), Users: users, Tree: trees}, space.Options{})
	o := Options{
		Issuer: f.issuer.URL, Client: issuertest.Client, Secret: issuertest.Secret, Scopes: []string{"profile"},
		GroupsClaim: "groups", Create: true, Now: now,
	}
	if change != nil {
		change(&o)
	}
	f.SignOn = New(Parts{DB: db, Users: users, Sessions: account.NewSessions(db, users, f.auth, opt), Admin: people, Spaces: spaces, Secret: func(context.Context) ([]byte, error) { return []byte("of all instances"), nil }}, o)
	first, err := people.CreateUser(t.Context(), admin.Local(), admin.NewUser{Name: "admin", Password: password, Admin: true})
	if err != nil {
		t.Fatal(err)
	}
	f.admin = first.User
	return f
}

// visit begins a sign-in and follows the provider's redirect back.
func (f *fixture) visit(t *testing.T) Return {
	t.Helper()
	begun, err := f.Begin(t.Context(), redirect)
	if err != nil {
		t.Fatal(err)
	}
	return f.back(t, begun)
}

// back visits the provider for a begun sign-in and returns the parameters of its redirect.
func (f *fixture) back(t *testing.T, begun Begun) Return {
	t.Helper()
	back := f.issuer.Visit(t, begun.URL)
	return Return{Code: back.Get("code"), State: back.Get("state"), Issuer: back.Get("iss"), Flow: begun.Flow}
}

// come signs in the provider's current person.
func (f *fixture) come(t *testing.T) (account.Granted, error) {
	t.Helper()
	return f.Finish(t.Context(), f.visit(t), account.Login{Agent: "a browser"})
}

// user signs in and returns the user; the sign-in must succeed.
func (f *fixture) user(t *testing.T) account.User {
	t.Helper()
	g, err := f.come(t)
	if err != nil {
		t.Fatal(err)
	}
	user, err := f.parts.Users.Find(t.Context(), f.parts.DB, g.User)
	if err != nil {
		t.Fatal(err)
	}
	return user
}

func wantRefused(t *testing.T, err error, kind drive.Kind, reason string) {
	t.Helper()
	e, ok := errors.AsType[*drive.Error](err)
	if !ok || e.Kind != kind || reason != "" && e.Args["reason"] != reason {
		t.Fatalf("error %v, want %v with the reason %q", err, kind, reason)
	}
}
