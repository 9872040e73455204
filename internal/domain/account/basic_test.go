package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

func (f *fixture) basic(t *testing.T, name, password string, head drive.Heads) (drive.Who, error) {
	t.Helper()
	return f.sessions.Basic(t.Context(), Basic{Name: name, Password: password, Head: head, Client: client})
}

func TestAppPasswordActsAtItsHeadsOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "Ann", false)
	f.add(t, "bob", false)
	ann := f.who(t, f.login(t, "ann").Secret)
	token, err := f.sessions.CreateToken(t.Context(), ann, NewToken{Name: "phone", Scopes: drive.ScopeRead, Heads: drive.HeadNextcloud})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // from the database, then from the cache
		who, err := f.basic(t, "ANN", token.Secret, drive.HeadNextcloud)
		if err != nil || who.User != ann.User || who.Session != token.ID || who.Scopes != drive.ScopeRead {
			t.Fatalf("it acts as %+v, %v", who, err)
		}
		_, err = f.basic(t, "ann", token.Secret, drive.HeadDAV)
		wantReason(t, err, drive.Forbidden, "head")
		_, err = f.auth.Authenticate(t.Context(), token.Secret)
		wantReason(t, err, drive.Forbidden, "head")
		_, err = f.basic(t, "bob", token.Secret, drive.HeadNextcloud)
		wantReason(t, err, drive.Unauthenticated, "invalid")
	}
	if err := f.sessions.Delete(t.Context(), ann, KindToken, token.ID); err != nil {
		t.Fatal(err)
	}
	_, err = f.basic(t, "ann", token.Secret, drive.HeadNextcloud)
	wantKind(t, err, drive.Unauthenticated)
	native, err := f.sessions.CreateToken(t.Context(), ann, NewToken{Name: "script", Scopes: drive.ScopeRead})
	if err != nil {
		t.Fatal(err)
	}
	f.who(t, native.Secret)
	_, err = f.basic(t, "ann", native.Secret, drive.HeadDAV)
	wantReason(t, err, drive.Forbidden, "head")
	for name, in := range map[string]NewToken{
		"admin at a head": {Name: "x", Scopes: drive.ScopeAdmin, Heads: drive.HeadDAV}, "unknown head": {Name: "x", Scopes: drive.ScopeRead, Heads: 128},
	} {
		root := drive.Who{User: ann.User, Account: ann.Account, Session: ann.Session, Admin: true, Scopes: allScopes}
		_, err := f.sessions.CreateToken(t.Context(), root, in)
		if !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBasicHashesPasswordOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ann := f.add(t, "ann", true)
	before := f.users.Hashes()
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			who, err := f.sessions.Basic(t.Context(), Basic{Name: "ann", Password: secret, Head: drive.HeadDAV, Client: client})
			if err != nil || who.User != ann.ID || who.Admin || !who.Session.IsZero() {
				t.Errorf("it acts as %+v, %v", who, err)
			}
		})
	}
	all.Wait()
	f.clock.Advance(maxRowAge) // read again, not hashed again
	if _, err := f.basic(t, "Ann", secret, drive.HeadDAV); err != nil {
		t.Fatal(err)
	}
	if n := f.users.Hashes() - before; n < 1 || n > 3 { // some of the forty may arrive after the first has ended
		t.Errorf("%d hashes", n)
	}
	_, err := f.basic(t, "ann", "wrong horse", drive.HeadDAV)
	wantReason(t, err, drive.Unauthenticated, "invalid")
	f.clock.Advance(passwordIdleLimit)
	if _, err := f.basic(t, "ann", secret, drive.HeadDAV); err != nil {
		t.Fatal(err)
	}
	if len(f.sessions.passwords.entries) != 2 { // the wrong one, too
		t.Errorf("%d passwords are remembered", len(f.sessions.passwords.entries))
	}
}

// TestCachedPasswordRespectsRateLimit: the cache must not answer guesses beyond the failure limit.
func TestCachedPasswordRespectsRateLimit(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]netip.Addr{"another address": netip.MustParseAddr("198.51.100.7"), "the same address": client} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.add(t, "ann", false)
			if _, err := f.basic(t, "ann", secret, drive.HeadDAV); err != nil {
				t.Fatal(err)
			}
			guess := func(password string) error {
				_, err := f.sessions.Basic(t.Context(), Basic{Name: "ann", Password: password, Head: drive.HeadDAV, Client: from})
				return err
			}
			for range 3 * maxPair { // a client that keeps sending an old password
				wantReason(t, guess("wrong horse"), drive.Unauthenticated, "invalid")
			}
			for i := range maxPair - 1 {
				wantReason(t, guess(fmt.Sprintf("wrong horse %d", i)), drive.Unauthenticated, "invalid")
			}
			wantKind(t, guess("another wrong horse"), drive.Rate)
			wantReason(t, guess("wrong horse"), drive.Unauthenticated, "invalid")
			wantKind(t, guess(secret), drive.Rate)
			if _, err := f.basic(t, "ann", secret, drive.HeadDAV); from != client && err != nil {
				t.Errorf("guesses from elsewhere keep the user out: %v", err)
			}
			f.clock.Advance(failureWindow)
			if _, err := f.basic(t, "ann", secret, drive.HeadDAV); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWrongPasswordIsCachedUntilItIsRight: a cached wrong password may become the right one.
func TestWrongPasswordIsCachedUntilItIsRight(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.add(t, "ann", false)
	const next = "a password to be"
	for range 2 {
		_, err := f.basic(t, "ann", next, drive.HeadDAV)
		wantReason(t, err, drive.Unauthenticated, "invalid")
	}
	f.add(t, "root", true)
	if err := f.update(t, u.ID, Patch{Password: f.hash(t, next)}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.basic(t, "ann", next, drive.HeadDAV); err != nil {
		t.Error(err)
	}
}

func TestPasswordChangeEvictsCachedPassword(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *fixture, drive.UserID) error{
		"disabled": func(t *testing.T, f *fixture, id drive.UserID) error { return f.update(t, id, Patch{State: Disabled}) },
		"deleted":  func(t *testing.T, f *fixture, id drive.UserID) error { return f.remove(t, id) },
		"new password": func(t *testing.T, f *fixture, id drive.UserID) error {
			return f.update(t, id, Patch{Password: f.hash(t, "battery staple")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ann := f.add(t, "ann", false)
			f.add(t, "root", true)
			if _, err := f.basic(t, "ann", secret, drive.HeadDAV); err != nil {
				t.Fatal(err)
			}
			if err := end(t, f, ann.ID); err != nil {
				t.Fatal(err)
			}
			f.clock.Advance(maxRowAge)
			_, err := f.basic(t, "ann", secret, drive.HeadDAV)
			wantReason(t, err, drive.Unauthenticated, "invalid")
		})
	}
}

// TestSecondFactorDisablesBasicPassword: HTTP Basic cannot ask for a second factor, so only app
// passwords work.
func TestSecondFactorDisablesBasicPassword(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   credential
		want bool
	}{{credential{known: true}, true}, {credential{}, false}, {credential{known: true, secondFactor: true}, false}} {
		if got := c.of.usableForBasic(); got != c.want {
			t.Errorf("%+v: %v", c.of, got)
		}
	}
}

func TestFlowGrantsAppPassword(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	f.add(t, "bob", false)
	ann, bob := f.who(t, f.login(t, "ann").Secret), f.who(t, f.login(t, "bob").Secret)
	poll, page := f.sessions.BeginFlow("Mozilla/5.0 (Linux) mirall/3.7.3 and so on, which is rather more than sixty-four bytes")
	in := NewToken{Scopes: drive.ScopeRead | drive.ScopeWrite, Heads: drive.HeadNextcloud}
	if _, _, err := f.sessions.PollFlow(t.Context(), poll); !drive.IsKind(err, drive.NotFound) {
		t.Fatalf("before the grant: %v", err)
	}
	for _, at := range []*process{&f.process, &f.other} { // repeated, and at another instance: one token
		if err := at.sessions.GrantFlow(t.Context(), ann, page, in); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.sessions.GrantFlow(t.Context(), bob, page, in); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("somebody else granted it, too: %v", err)
	}
	// Of many concurrent polls at two instances, and a later one, exactly one is answered.
	var got Granted
	var won atomic.Int64
	var polls sync.WaitGroup
	for i := range 8 {
		polls.Go(func() {
			at := []*process{&f.process, &f.other}[i%2]
			switch g, name, err := at.sessions.PollFlow(t.Context(), poll); {
			case err == nil && name == "ann" && won.Add(1) == 1:
				got = g
			case err == nil || !drive.IsKind(err, drive.NotFound):
				t.Errorf("%q, %v", name, err)
			}
		})
	}
	polls.Wait()
	if _, _, err := f.other.sessions.PollFlow(t.Context(), poll); won.Load() != 1 || !drive.IsKind(err, drive.NotFound) {
		t.Fatalf("%d polls were answered, and a later one with %v", won.Load(), err)
	}
	if err := f.sessions.GrantFlow(t.Context(), ann, page, in); err != nil { // the page is granted again
		t.Fatal(err)
	}
	if _, _, err := f.sessions.PollFlow(t.Context(), poll); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("after another grant of the same page: %v", err)
	}
	if tokens, err := f.sessions.List(t.Context(), ann, KindToken); err != nil || len(tokens) != 1 || tokens[0].ID != got.ID {
		t.Fatalf("%v, %v", tokens, err)
	}
	if who, err := f.basic(t, "ann", got.Secret, drive.HeadNextcloud); err != nil || who.User != ann.User {
		t.Fatalf("it acts as %+v, %v", who, err)
	}
	_, err := f.basic(t, "ann", got.Secret, drive.HeadDAV)
	wantKind(t, err, drive.Forbidden)
	if err := f.sessions.Delete(t.Context(), ann, KindToken, got.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.sessions.PollFlow(t.Context(), poll); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("after its end: %v", err)
	}
	late, latePage := f.sessions.BeginFlow("late")
	if err := f.sessions.GrantFlow(t.Context(), ann, latePage, in); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(flowLife)
	if _, _, err := f.sessions.PollFlow(t.Context(), late); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("a poll that comes too late: %v", err)
	}
	wantReason(t, f.sessions.GrantFlow(t.Context(), ann, page, in), drive.Gone, "expired")
	for _, bad := range []string{"", "x", page[:40], page + "!"} {
		if err := f.sessions.GrantFlow(t.Context(), ann, bad, in); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%q: %v", bad, err)
		}
		if _, _, err := f.sessions.PollFlow(t.Context(), bad); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestFlowGrantRequiresLogin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	ann := f.who(t, f.login(t, "ann").Secret)
	token, err := f.sessions.CreateToken(t.Context(), ann, NewToken{Name: "t", Scopes: drive.ScopeWrite})
	if err != nil {
		t.Fatal(err)
	}
	_, page := f.sessions.BeginFlow("")
	wantReason(t, f.sessions.GrantFlow(t.Context(), f.who(t, token.Secret), page, NewToken{Scopes: drive.ScopeWrite}), drive.Forbidden, "login-required")
	_, err = f.sessions.Exchange(t.Context(), f.who(t, token.Secret), NewToken{Scopes: drive.ScopeWrite})
	wantReason(t, err, drive.Forbidden, "login-required")
	who, err := f.basic(t, "ann", secret, drive.HeadNextcloud)
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.sessions.Exchange(t.Context(), who, NewToken{Name: "\x01 phone", Scopes: drive.ScopeWrite, Heads: drive.HeadNextcloud})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.basic(t, "ann", got.Secret, drive.HeadNextcloud); err != nil {
		t.Fatal(err)
	}
}

// TestBasicSurvivesCanceledSharedCheck: a request that waits for another request's hash does not
// fail when that is canceled.
func TestBasicSurvivesCanceledSharedCheck(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	leave, err := f.users.hasher.acquire(t.Context(), requester{known: true})
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.users.hasher.acquire(t.Context(), requester{known: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, give := context.WithCancel(t.Context())
	in := Basic{Name: "ann", Password: secret, Head: drive.HeadDAV, Client: client}
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := f.sessions.Basic(ctx, in); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	waiting := func() bool {
		f.users.hasher.mu.Lock()
		defer f.users.hasher.mu.Unlock()
		return f.users.hasher.unknown.waiting.Len()+f.users.hasher.known.waiting.Len() > 0
	}
	for deadline := time.Now().Add(time.Minute); !waiting(); {
		runtime.Gosched()
		if time.Now().After(deadline) {
			t.Fatal("nobody waits to hash")
		}
	}
	all.Go(func() {
		if _, err := f.sessions.Basic(t.Context(), in); err != nil {
			t.Error(err)
		}
	})
	give()
	leave()
	second()
	all.Wait()
}
