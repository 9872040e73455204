package signon

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/issuertest"
	"example.org/smartdrive/internal/usecase/admin"
)

type claims = map[string]any

func TestFirstSignInCreatesUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna"}, nil)
	first := f.user(t)
	if first.Name != "anna" || first.Admin {
		t.Errorf("the new user is %+v", first)
	}
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna.married"}, nil)
	f.issuer.Rotate(t)
	if again := f.user(t); again.ID != first.ID || again.Name != "anna" {
		t.Errorf("the same subject by another name, and by another key, is %+v, want %+v", again, first)
	}
	f.issuer.SetUser(claims{"sub": "2", "preferred_username": "anna"}, nil)
	if other := f.user(t); other.ID == first.ID || other.Name != "anna-2" {
		t.Errorf("another subject of the same name is %+v", other)
	}
}

// TestIdentitiesAreNotConfused: a name does not identify a person, because at many providers
// people choose it.
func TestIdentitiesAreNotConfused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "Admin", "email": "admin", "email_verified": true}, nil)
	_, err := f.come(t)
	wantRefused(t, err, drive.Forbidden, "sign-on-taken")
	f.issuer.SetUser(claims{"sub": "2", "preferred_username": "a/b:c\x00 \u202e"}, nil)
	if user := f.user(t); user.Name != "a-b-c" {
		t.Errorf("a name that no user can have became %q", user.Name)
	}
	f.issuer.SetUser(claims{"sub": "3", "preferred_username": strings.Repeat("ü", 400), "name": "x"}, nil)
	if user := f.user(t); len(user.Name) > account.MaxNameBytes {
		t.Errorf("a name that is too long became %q", user.Name)
	}
	f.issuer.SetUser(claims{"sub": "5", "preferred_username": "\u0430dmin"}, nil) // Cyrillic а, Latin dmin
	if user := f.user(t); user.Name != "user" {
		t.Errorf("a name of two scripts became %q", user.Name)
	}
	f.issuer.SetUser(claims{"sub": "6", "preferred_username": "\uff41dmin"}, nil) // full width
	_, err = f.come(t)
	wantRefused(t, err, drive.Forbidden, "sign-on-taken")
	f.issuer.SetUser(claims{"sub": "7", "preferred_username": "cope"}, nil)
	f.user(t)
	f.issuer.SetUser(claims{"sub": "8", "preferred_username": "\u0441\u043e\u0440\u0435"}, nil) // all Cyrillic
	if user := f.user(t); !strings.HasSuffix(user.Name, "-2") {
		t.Errorf("a name that looks like a colleague's became %q", user.Name)
	}
	for sub, more := range map[string]claims{"9": {"nickname": "bob"}, "10": {"name": "bob"}, "11": {"email": "bob"}} { // claims that people can choose
		more["sub"] = sub
		f.issuer.SetUser(more, nil)
		if user := f.user(t); user.Name == "bob" || !strings.HasPrefix(user.Name, "bob-") {
			t.Errorf("who calls themselves bob became %q", user.Name)
		}
	}
	f.issuer.SetUser(claims{"sub": "12", "email": "bob", "email_verified": true}, nil)
	if user := f.user(t); user.Name != "bob" {
		t.Errorf("bob himself became %q", user.Name)
	}
	f.issuer.SetUser(claims{"sub": "4"}, nil)
	if user := f.user(t); user.Name != "user-2" {
		t.Errorf("somebody without a name became %q", user.Name)
	}
}

func TestInvalidReturnIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	person := claims{"sub": "1", "preferred_username": "anna"}
	for name, c := range map[string]struct {
		claims, info claims
		change       func(mine, other *Return)
		kind         drive.Kind
	}{
		"another state":           {change: func(mine, _ *Return) { mine.State = "x" }, kind: drive.Gone},
		"another issuer":          {change: func(mine, _ *Return) { mine.Issuer = "https://other.example.org" }, kind: drive.Gone},
		"no flow":                 {change: func(mine, _ *Return) { mine.Flow, mine.State = "", "" }, kind: drive.Gone},
		"an empty flow":           {change: func(mine, _ *Return) { mine.Flow, mine.State = "e30", "" }, kind: drive.Gone},
		"no code at all":          {change: func(mine, _ *Return) { mine.Code = "" }, kind: drive.Gone},
		"somebody else's code":    {change: func(mine, other *Return) { mine.Code = other.Code }, kind: drive.Gone},
		"no code":                 {change: func(mine, _ *Return) { mine.Code = "x" }, kind: drive.Gone},
		"another nonce":           {claims: claims{"nonce": "x"}, kind: drive.Gone},
		"a subject too long":      {claims: claims{"sub": strings.Repeat("x", 256)}, info: claims{"sub": strings.Repeat("x", 256)}, kind: drive.Gone},
		"a token of another":      {claims: claims{"iss": "https://other.example.org"}, kind: drive.Gone},
		"a token for another":     {claims: claims{"aud": "other"}, kind: drive.Gone},
		"another party":           {claims: claims{"aud": []string{"other", issuertest.Client}, "azp": "other"}, kind: drive.Gone},
		"a token that has ended":  {claims: claims{"exp": time.Now().Add(-time.Hour).Unix()}, kind: drive.Gone},
		"more about another":      {info: claims{"sub": "2"}, kind: drive.Gone},
		"a token without subject": {claims: claims{"sub": ""}, info: claims{"sub": ""}, kind: drive.Gone},
	} {
		said := maps.Clone(person)
		maps.Copy(said, c.claims)
		f.issuer.SetUser(said, c.info)
		mine, other := f.visit(t), f.visit(t)
		if c.change != nil {
			c.change(&mine, &other)
		}
		if _, err := f.Finish(t.Context(), mine, account.Login{}); !drive.IsKind(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
	f.issuer.SetUser(person, nil)
	mine := f.visit(t)
	f.now.Add(int64(2 * time.Hour))
	_, err := f.Finish(t.Context(), mine, account.Login{})
	wantRefused(t, err, drive.Gone, "sign-on")
	if _, err := f.parts.Users.FindByName(t.Context(), f.parts.DB, "anna"); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("a refused login has made a user: %v", err)
	}
}

// TestForgedFlowIsRefused: a flow names the user to connect and the password's epoch, so the page
// must not be able to forge one.
func TestForgedFlowIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "eve"}, nil)
	begun, err := f.Begin(t.Context(), redirect)
	if err != nil {
		t.Fatal(err)
	}
	back := f.back(t, begun)
	raw, err := base64.RawURLEncoding.DecodeString(back.Flow)
	if err != nil {
		t.Fatal(err)
	}
	var made map[string]any
	if err := json.Unmarshal(raw[sha256.Size:], &made); err != nil {
		t.Fatal(err)
	}
	made["u"] = f.admin.ID
	b, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	back.Flow = base64.RawURLEncoding.EncodeToString(append(raw[:sha256.Size], b...))
	who := drive.Who{User: f.admin.ID, Account: f.admin.Account, Scopes: drive.ScopeRead | drive.ScopeWrite} // from a stolen session
	wantRefused(t, f.Connect(t.Context(), who, back, netip.Addr{}), drive.Gone, "sign-on")
	if is, err := f.IsConnected(t.Context(), f.admin.ID); err != nil || is {
		t.Errorf("the administrator is connected: %t, %v", is, err)
	}
}

func TestCodeIsValidOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna"}, nil)
	back := f.visit(t)
	if _, err := f.Finish(t.Context(), back, account.Login{}); err != nil {
		t.Fatal(err)
	}
	_, err := f.Finish(t.Context(), back, account.Login{})
	wantRefused(t, err, drive.Gone, "sign-on")
}

func TestTheFirstLoginTwiceAtOnceMakesOneUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna"}, nil)
	var ids [8]drive.UserID
	var wait sync.WaitGroup
	for i := range ids {
		back := f.visit(t)
		wait.Go(func() {
			g, err := f.Finish(t.Context(), back, account.Login{})
			if err != nil {
				t.Error(err)
			}
			ids[i] = g.User
		})
	}
	wait.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("they are %v", ids)
		}
	}
}

func TestGroupsDecideWhoComesInAndWhoIsAnAdministrator(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) {
		o.GroupsClaim, o.Users, o.Admins = "realm_access.roles", []string{"drive", "/ops"}, []string{"ops"}
	})
	is := func(in any) {
		f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna"}, claims{"realm_access": claims{"roles": in}}) // at the userinfo endpoint alone
	}
	is([]string{"other"})
	_, err := f.come(t)
	wantRefused(t, err, drive.Forbidden, "sign-on-group")
	is([]string{"/drive"})
	if f.user(t).Admin {
		t.Error("a member is an administrator")
	}
	is(claims{"ops": claims{"id": "x"}}) // Zitadel's form
	if !f.user(t).Admin {
		t.Error("an administrator is none")
	}
	is("drive")
	if f.user(t).Admin {
		t.Error("who is an administrator no longer still is one")
	}
	is(nil)
	_, err = f.come(t)
	wantRefused(t, err, drive.Forbidden, "sign-on-group")
}

func TestTheLastAdministratorStaysOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Admins = []string{"ops"} })
	if err := f.connect(t, f.admin, "1", password); err != nil {
		t.Fatal(err)
	}
	if user := f.user(t); user.ID != f.admin.ID || !user.Admin {
		t.Errorf("the administrator is %+v", user)
	}
}

// connect connects a user to the person with the given subject.
func (f *fixture) connect(t *testing.T, user account.User, subject, password string) error {
	t.Helper()
	f.issuer.SetUser(claims{"sub": subject, "preferred_username": "x"}, nil)
	who := drive.Who{User: user.ID, Account: user.Account, Scopes: drive.ScopeRead | drive.ScopeWrite}
	begun, err := f.BeginConnect(t.Context(), who, password, netip.Addr{}, redirect)
	if err != nil {
		return err
	}
	return f.Connect(t.Context(), who, f.back(t, begun), netip.Addr{})
}

func TestUserLinksIdentity(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Create = false })
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "admin"}, nil)
	_, err := f.come(t)
	wantRefused(t, err, drive.Forbidden, "sign-on-unknown")
	wantRefused(t, f.connect(t, f.admin, "1", "another horse"), drive.Forbidden, "password")
	for range 2 { // idempotent
		if err := f.connect(t, f.admin, "1", password); err != nil {
			t.Fatal(err)
		}
	}
	if user := f.user(t); user.ID != f.admin.ID {
		t.Errorf("who comes in is %+v", user)
	}
	wantRefused(t, f.connect(t, f.admin, "2", password), drive.WrongState, "")
	other, err := f.parts.Admin.CreateUser(t.Context(), admin.Local(), admin.NewUser{Name: "ben", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, f.connect(t, other.User, "1", password), drive.WrongState, "")
	if user := f.user(t); user.ID != f.admin.ID {
		t.Errorf("after others wanted to be them, who comes in is %+v", user)
	}
	if err := f.Disconnect(t.Context(), admin.Local(), f.admin.ID); err != nil {
		t.Fatal(err)
	}
	_, err = f.come(t)
	wantRefused(t, err, drive.Forbidden, "sign-on-unknown")
}

func TestDisabledUserIsRefusedEverywhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna"}, nil)
	user := f.user(t)
	if _, err := f.parts.Admin.SetUser(t.Context(), admin.Local(), user.ID, admin.Change{State: account.Disabled}); err != nil {
		t.Fatal(err)
	}
	_, err := f.come(t)
	wantRefused(t, err, drive.Forbidden, "sign-on-disabled")
	if err := f.parts.Admin.DeleteUser(t.Context(), admin.Local(), user.ID); err != nil {
		t.Fatal(err)
	}
	if again := f.user(t); again.ID == user.ID || again.Name != "anna" {
		t.Errorf("after the user was deleted there is %+v", again)
	}
}

func TestMembersOfGroupsFollowTheProvider(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Groups = []string{"sales", "support"} })
	group := map[string]access.UserGroup{}
	for _, name := range []string{"Sales", "support", "other"} {
		g, err := f.parts.Spaces.CreateGroup(t.Context(), admin.Local(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		group[name] = g
	}
	var user account.User
	want := func(said []string, in ...string) {
		t.Helper()
		f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna", "groups": said}, nil)
		user = f.user(t)
		var have []string
		for name, g := range group {
			is, err := f.parts.Spaces.IsMember(t.Context(), admin.Local(), g.ID, user.ID)
			if err != nil {
				t.Fatal(err)
			}
			if is {
				have = append(have, name)
			}
		}
		if slices.Sort(have); !slices.Equal(have, in) {
			t.Errorf("the provider says %q, and they are in %q", said, have)
		}
	}
	want([]string{"sales", "other", "nowhere"}, "Sales")
	want([]string{"/sales", "support"}, "Sales", "support")
	want([]string{"support"}, "support")
	if err := f.parts.Spaces.AddMember(t.Context(), admin.Local(), group["Sales"].ID, user.ID); err != nil {
		t.Fatal(err)
	}
	want([]string{"sales"}, "Sales")
	want(nil, "Sales") // added by hand
}

func TestUnreachableProvider(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna"}, nil)
	f.issuer.Stop(true)
	_, err := f.Begin(t.Context(), redirect)
	wantRefused(t, err, drive.Unavailable, "sign-on")
	f.issuer.Stop(false)
	f.now.Add(int64(breath))
	back := f.visit(t)
	f.issuer.Stop(true)
	_, err = f.Finish(t.Context(), back, account.Login{})
	wantRefused(t, err, drive.Gone, "sign-on-failed")
	f.issuer.Stop(false)
	if _, err := f.Finish(t.Context(), back, account.Login{}); err != nil { // the code was not used up
		t.Error(err)
	}
}

func TestProviderLogoutEndsLogins(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna"}, nil)
	g, err := f.come(t)
	if err != nil {
		t.Fatal(err)
	}
	local, err := f.parts.Sessions.Login(t.Context(), account.Login{Name: "admin", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	alive := func(ctx context.Context, secret string) bool {
		_, err := f.auth.Authenticate(ctx, secret)
		return err == nil
	}
	for name, token := range map[string]string{
		"nonsense":       "x",
		"an ID token":    f.issuer.LogoutToken("1", claims{"nonce": "x"}),
		"without events": f.issuer.LogoutToken("1", claims{"events": claims{}}),
		"for another":    f.issuer.LogoutToken("1", claims{"aud": "other"}),
		"without anyone": f.issuer.LogoutToken("", claims{"sid": "7"}),
	} {
		if err := f.LogOut(t.Context(), token, netip.Addr{}); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("a logout token, %s: %v", name, err)
		}
	}
	if err := f.LogOut(t.Context(), f.issuer.LogoutToken("nobody", nil), netip.Addr{}); err != nil || !alive(t.Context(), g.Secret) {
		t.Fatalf("%v, and the login lives: %t", err, alive(t.Context(), g.Secret))
	}
	for range 2 {
		if err := f.LogOut(t.Context(), f.issuer.LogoutToken("1", nil), netip.Addr{}); err != nil {
			t.Fatal(err)
		}
	}
	if alive(t.Context(), g.Secret) || !alive(t.Context(), local.Secret) {
		t.Errorf("the login by the provider lives: %t; the one by password: %t", alive(t.Context(), g.Secret), alive(t.Context(), local.Secret))
	}
}

// TestFailedCommitLeavesNoPartialState: whichever commit fails, no partial state is visible, and
// the next sign-in continues.
func TestFailedCommitLeavesNoPartialState(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Groups, o.Admins = []string{"*"}, []string{"ops"} })
	group, err := f.parts.Spaces.CreateGroup(t.Context(), admin.Local(), "ops", nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ { // the user, the role, the note, the group, the session
		f.issuer.SetUser(claims{"sub": strconv.Itoa(n), "preferred_username": "anna", "groups": []string{"ops"}}, nil)
		back := f.visit(t)
		f.faults.Fail(sqldbtest.Commit, n, drive.Fail(drive.DiskFull))
		_, err := f.Finish(t.Context(), back, account.Login{})
		if f.faults.Clear() > 0 {
			if err != nil || n < 5 {
				t.Errorf("%d commits: %v", n-1, err)
			}
			break
		}
		if !drive.IsKind(err, drive.DiskFull) {
			t.Errorf("commit %d fails, and the login: %v", n, err)
		}
		user := f.user(t)
		is, err := f.parts.Spaces.IsMember(t.Context(), admin.Local(), group.ID, user.ID)
		if err != nil || !is || !user.Admin {
			t.Errorf("commit %d failed, and the login after it is of %+v, in the group: %t, %v", n, user, is, err)
		}
		f.issuer.SetUser(claims{"sub": strconv.Itoa(n), "preferred_username": "anna"}, nil)
		if user = f.user(t); user.Admin {
			t.Errorf("commit %d failed, and they stay an administrator", n)
		}
		if is, err := f.parts.Spaces.IsMember(t.Context(), admin.Local(), group.ID, user.ID); err != nil || is {
			t.Errorf("commit %d failed, and they stay in the group: %v", n, err)
		}
	}
}

// TestHowLongALoginIsGood: a session gets the configured life. Package account tests that it ends.
func TestHowLongALoginIsGood(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Life = 60 * 24 * time.Hour })
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna"}, nil)
	g, err := f.come(t)
	if err != nil {
		t.Fatal(err)
	}
	if left := g.ExpiresAt.Sub(g.CreatedAt); left != 30*24*time.Hour {
		t.Errorf("unused, it lives for %v", left)
	}
	if left := g.EndsAt.Sub(g.CreatedAt); left != 60*24*time.Hour {
		t.Errorf("used, it lives for %v", left)
	}
}
