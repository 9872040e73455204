package signon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/issuertest"
	"example.org/smartdrive/internal/usecase/admin"
)

// TestRemovedPersonKeepsNoRights: a person who leaves the required groups loses all granted rights
// at the next sign-in, although that is refused.
func TestRemovedPersonKeepsNoRights(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Users, o.Admins, o.Groups = []string{"drive"}, []string{"ops"}, []string{"*"} })
	group, err := f.parts.Spaces.CreateGroup(t.Context(), admin.Local(), "ops", nil)
	if err != nil {
		t.Fatal(err)
	}
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna", "groups": []string{"drive", "ops"}}, nil)
	g, err := f.come(t)
	if err != nil {
		t.Fatal(err)
	}
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna"}, nil)
	_, err = f.come(t)
	wantRefused(t, err, drive.Forbidden, "sign-on-group")
	user, err := f.parts.Users.Find(t.Context(), f.parts.DB, g.User)
	if err != nil || user.Admin {
		t.Errorf("they are %+v, %v", user, err)
	}
	if is, err := f.parts.Spaces.IsMember(t.Context(), admin.Local(), group.ID, g.User); err != nil || is {
		t.Errorf("they are in the group: %t, %v", is, err)
	}
	if _, err := f.auth.Authenticate(t.Context(), g.Secret); !drive.IsKind(err, drive.Unauthenticated) {
		t.Errorf("their other login: %v", err)
	}
}

func TestUserChangedDuringSignOn(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]admin.Change{
		"another password": {Password: new("another horse")},
		"disabled":         {State: account.Disabled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			ben, err := f.parts.Admin.CreateUser(t.Context(), admin.Local(), admin.NewUser{Name: "ben", Password: password})
			if err != nil {
				t.Fatal(err)
			}
			f.issuer.SetUser(claims{"sub": "1", "preferred_username": "x"}, nil)
			who := drive.Who{User: ben.ID, Account: ben.Account, Scopes: drive.ScopeRead | drive.ScopeWrite}
			begun, err := f.BeginConnect(t.Context(), who, password, netip.Addr{}, redirect)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.parts.Admin.SetUser(t.Context(), admin.Local(), ben.ID, change); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, f.Connect(t.Context(), who, f.back(t, begun), netip.Addr{}), drive.Gone, "sign-on")
			if is, err := f.IsConnected(t.Context(), ben.ID); err != nil || is {
				t.Errorf("they are connected: %t, %v", is, err)
			}
		})
	}
}

func TestProvidersDiffer(t *testing.T) {
	t.Parallel()
	for name, differ := range map[string]func(*issuertest.Issuer){
		"secret by basic": func(i *issuertest.Issuer) { i.RequireAuthMethod("client_secret_basic") },
		"secret by post":  func(i *issuertest.Issuer) { i.RequireAuthMethod("client_secret_post") },
		"no userinfo":     func(i *issuertest.Issuer) { i.WithoutUserInfo() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			differ(f.issuer)
			f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna"}, nil)
			for range 3 {
				f.user(t)
			}
			if asked := f.issuer.Asked(); asked != 3 {
				t.Errorf("3 logins have asked for a token %d times", asked)
			}
		})
	}
}

// TestGroupsThatAreNotThere: Entra ID refers to another endpoint when there are many groups. Other
// providers leave the claim empty in the token and fill it at the userinfo endpoint.
func TestGroupsThatAreNotThere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Admins = []string{"ops"} })
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna", "groups": nil}, claims{"groups": []string{"ops"}})
	if !f.user(t).Admin {
		t.Error("an administrator is none")
	}
	f.issuer.SetUser(claims{"sub": "1", "_claim_names": claims{"groups": "src1"}, "_claim_sources": claims{"src1": claims{"endpoint": "https://graph.example.org"}}}, nil)
	_, err := f.come(t)
	wantRefused(t, err, drive.Gone, "sign-on-failed")
	user, err := f.parts.Users.FindByName(t.Context(), f.parts.DB, "anna")
	if err != nil || !user.Admin {
		t.Errorf("after half an answer they are %+v, %v", user, err)
	}
}

func TestWrongCodesAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	from := netip.MustParseAddr("192.0.2.1")
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna"}, nil)
	back := f.visit(t)
	wrong := back
	wrong.Code = "a code that is none"
	for n := range 100 {
		_, err := f.Finish(t.Context(), wrong, account.Login{Client: from})
		if drive.IsKind(err, drive.Rate) {
			break
		}
		if n == 99 {
			t.Fatalf("after %d codes that are none: %v", n, err)
		}
	}
	asked := f.issuer.Asked()
	if err := f.LogOut(t.Context(), "x", from); !drive.IsKind(err, drive.Rate) {
		t.Errorf("a logout token from there: %v", err)
	}
	if _, err := f.Finish(t.Context(), back, account.Login{Client: from}); !drive.IsKind(err, drive.Rate) || f.issuer.Asked() != asked {
		t.Errorf("after that: %v, and the provider was asked %d times more", err, f.issuer.Asked()-asked)
	}
	other := netip.MustParseAddr("192.0.2.2")
	if _, err := f.Finish(t.Context(), back, account.Login{Client: other}); err != nil {
		t.Errorf("from elsewhere: %v", err)
	}
	f.issuer.SetUser(claims{"sub": "1"}, claims{"sub": "2"})
	for range 40 { // it is the provider that fails
		_, err := f.Finish(t.Context(), f.visit(t), account.Login{Client: other})
		wantRefused(t, err, drive.Gone, "sign-on-failed")
	}
}

func TestConnectingWhoseCommitFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Create = false })
	who := drive.Who{User: f.admin.ID, Account: f.admin.Account, Scopes: drive.ScopeRead | drive.ScopeWrite}
	f.faults.FailAll(sqldbtest.Commit, drive.Fail(drive.DiskFull))
	if err := f.connect(t, f.admin, "1", password); !drive.IsKind(err, drive.DiskFull) {
		t.Errorf("connect: %v", err)
	}
	f.faults.Clear()
	if is, err := f.IsConnected(t.Context(), f.admin.ID); err != nil || is {
		t.Errorf("they are connected: %t, %v", is, err)
	}
	if err := f.connect(t, f.admin, "1", password); err != nil {
		t.Fatal(err)
	}
	g, err := f.come(t)
	if err != nil {
		t.Fatal(err)
	}
	f.faults.FailAll(sqldbtest.Commit, drive.Fail(drive.DiskFull))
	if err := f.DisconnectSelf(t.Context(), who, password, netip.Addr{}); !drive.IsKind(err, drive.DiskFull) {
		t.Errorf("disconnect: %v", err)
	}
	f.faults.Clear()
	if _, err := f.auth.Authenticate(t.Context(), g.Secret); err != nil {
		t.Errorf("half a disconnection has ended the login: %v", err)
	}
	if err := f.DisconnectSelf(t.Context(), who, password, netip.Addr{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.auth.Authenticate(t.Context(), g.Secret); !drive.IsKind(err, drive.Unauthenticated) {
		t.Errorf("after it the login: %v", err)
	}
}

// TestALoginThatChangesNothing: a sign-in without changes writes only the session.
func TestALoginThatChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Groups = []string{"*"} })
	var names []string
	for i := range 5 {
		names = append(names, "group "+strconv.Itoa(i))
		if _, err := f.parts.Spaces.CreateGroup(t.Context(), admin.Local(), names[i], nil); err != nil {
			t.Fatal(err)
		}
	}
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna", "groups": names}, nil)
	f.user(t)
	f.faults.Fail(sqldbtest.Commit, 2, drive.Fail(drive.DiskFull))
	f.user(t)
	if f.faults.Clear() == 0 {
		t.Error("there was a second commit")
	}
}

// TestNoTransientErrorAfterCodeIsSent: clients retry transient errors automatically, so none may be
// returned after the code was sent.
func TestNoTransientErrorAfterCodeIsSent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for n := 1; n <= 2; n++ { // the user, the login
		f.issuer.SetUser(claims{"sub": strconv.Itoa(n), "preferred_username": "anna"}, nil)
		back := f.visit(t)
		f.faults.Fail(sqldbtest.Commit, n, drive.Fail(drive.Unavailable))
		_, err := f.Finish(t.Context(), back, account.Login{})
		wantRefused(t, err, drive.Gone, "sign-on-failed")
		f.faults.Clear()
	}
}

// TestUnreadableDescription: if the metadata cannot be read again, the old metadata stays in
// use. If it was never read, a retry follows after a short delay.
func TestUnreadableDescription(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.issuer.Stop(true)
	_, err := f.Begin(t.Context(), redirect)
	wantRefused(t, err, drive.Unavailable, "sign-on")
	f.issuer.Stop(false)
	_, err = f.Begin(t.Context(), redirect) // still within the delay
	wantRefused(t, err, drive.Unavailable, "sign-on")
	f.now.Add(int64(breath))
	if _, err := f.Begin(t.Context(), redirect); err != nil {
		t.Fatal(err)
	}
	f.issuer.Stop(true)
	f.now.Add(int64(askAgain))
	if _, err := f.Begin(t.Context(), redirect); err != nil {
		t.Errorf("with the description of an hour ago: %v", err)
	}
	f.issuer.Stop(false)
	f.issuer.RequireAuthMethod("client_secret_post") // another description
	f.now.Add(int64(tryAgain))
	if known, err := f.provider.get(); err != nil || known.at.Before(f.opt.Now().Add(-time.Second)) {
		t.Errorf("it was not read again: %v", err)
	}
}

// TestAProviderThatStalls: if the provider accepts a connection and never answers, requests time
// out.
func TestAProviderThatStalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := newProvider(Options{Issuer: "https://id.example.org", Transport: stalled{}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		_, err := p.get()
		wantRefused(t, err, drive.Unavailable, "sign-on")
		if took := time.Since(began); took != answerWithin {
			t.Errorf("it took %v, want %v", took, answerWithin)
		}
	})
}

// stalled is a transport that never gets a response.
type stalled struct{}

func (stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// TestCommitWithLostReply: after a lost reply to a COMMIT, the next sign-in continues from the
// committed state.
func TestCommitWithLostReply(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Groups, o.Admins = []string{"*"}, []string{"ops"} })
	group, err := f.parts.Spaces.CreateGroup(t.Context(), admin.Local(), "ops", nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ { // the transactions for the user, the role, the record, the group and the session
		name := "anna " + strconv.Itoa(n)
		f.issuer.SetUser(claims{"sub": name, "preferred_username": name, "groups": []string{"ops"}}, nil)
		f.faults.LoseReply(sqldbtest.Commit, n, errors.New("the connection was reset"))
		_, _ = f.come(t) // any result
		if f.faults.Clear() > 0 {
			if n < 6 {
				t.Errorf("a login has %d commits", n-1)
			}
			break
		}
		user := f.user(t)
		is, err := f.parts.Spaces.IsMember(t.Context(), admin.Local(), group.ID, user.ID)
		if err != nil || !is || !user.Admin || user.Name != name {
			t.Errorf("the reply to commit %d was lost, and they are %+v, in the group: %t, %v", n, user, is, err)
		}
	}
}

func TestTheTokenCounts(t *testing.T) {
	t.Parallel()
	said := merged(claims{"a": "token", "b": nil, "c": []any{}, "d": []any{"token"}}, claims{"a": "info", "b": "info", "c": []any{"info"}, "d": []any{"info"}, "e": "info"})
	for claim, want := range (claims{"a": "token", "b": "info", "e": "info"}) {
		if said[claim] != want {
			t.Errorf("%s is %v, want %v", claim, said[claim], want)
		}
	}
	if list := said["c"].([]any); len(list) != 1 || said["d"].([]any)[0] != "token" {
		t.Errorf("the lists are %v and %v", list, said["d"])
	}
}

func FuzzUserName(f *testing.F) {
	for _, s := range []string{"anna", "..", "a/b:c\x00", "\u0958\u0958\u0958", "\xff", " "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if name := userName(s); len(name) > account.MaxNameBytes-len("-1234567") {
			t.Errorf("%q became %q, of %d bytes", s, name, len(name))
		}
	})
}

func FuzzGroups(f *testing.F) {
	f.Add(`{"a":{"b":["x"]}}`, "a.b")
	f.Add(`{"a.b":"/x"}`, "a.b")
	f.Add(`{"a":{"b":{"x":1}}}`, "a.b.c")
	f.Fuzz(func(t *testing.T, text, path string) {
		var said map[string]any
		if json.Unmarshal([]byte(text), &said) != nil {
			return // claims are always an object
		}
		for _, g := range groupsAt(said, path) {
			if g == "" {
				t.Error("a group without a name")
			}
		}
	})
}

// TestNoRequestMeetsAConnectionThatTheProviderCloses: a provider may close an idle connection at
// any time, even while it receives a single-use code. So each request uses a new connection.
func TestNoRequestMeetsAConnectionThatTheProviderCloses(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	id := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if seen[r.RemoteAddr] {
			panic(http.ErrAbortHandler)
		}
		seen[r.RemoteAddr] = true
	}))
	t.Cleanup(id.Close)
	p := newProvider(Options{})
	for range 2 {
		resp, err := p.client.Post(id.URL, "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
}

// TestUnusableIDTokensCountAsFailures: an ID token for several clients names the one it was issued
// to (OpenID Connect Core 1.0 §3.1.3.7). An unusable token counts as a failed sign-in of the
// client's address.
func TestUnusableIDTokensCountAsFailures(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	client := f.opt.Client
	for name, said := range map[string]claims{
		"several audiences": {"sub": "1", "aud": []string{client, "other"}},
		"another party":     {"sub": "1", "aud": []string{client, "other"}, "azp": "other"},
		"another audience":  {"sub": "1", "aud": "other"},
		"no subject":        {"sub": ""},
	} {
		f.issuer.SetUser(said, nil)
		_, err := f.come(t)
		wantRefused(t, err, drive.Gone, "sign-on-failed")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	from := netip.MustParseAddr("192.0.2.77")
	f.issuer.SetUser(claims{"sub": "1", "aud": "other"}, nil)
	for n := 0; ; n++ {
		_, err := f.Finish(t.Context(), f.visit(t), account.Login{Client: from})
		if drive.IsKind(err, drive.Rate) {
			break
		}
		if n == 100 {
			t.Fatalf("after %d tokens that cannot be used: %v", n, err)
		}
	}
	f.issuer.SetUser(claims{"sub": "1", "preferred_username": "anna", "aud": []string{client, "other"}, "azp": client}, nil)
	if user := f.user(t); user.Name != "anna" {
		t.Errorf("a token for several clients, and made for this one: %+v", user)
	}
}
