package account

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// runOnce runs one refresh and fails the test on an error.
func (f *fixture) runOnce(t *testing.T) {
	t.Helper()
	if err := f.auth.refreshOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSessionInUseNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	bearer := f.login(t, "ann").Secret
	f.who(t, bearer)
	for range 20 { // a slow client sends a part every 40 s
		for range 10 {
			f.clock.Advance(refreshInterval)
			f.runOnce(t)
		}
		before := f.auth.cached[mustHash(t, bearer)].readAt
		f.who(t, bearer)
		if f.auth.cached[mustHash(t, bearer)].readAt != before {
			t.Fatal("the request asked the database")
		}
	}
	if err := f.db.Close(); err != nil {
		t.Fatal(err)
	}
	f.who(t, bearer) // the database is unavailable
	if f.auth.refreshOnce(t.Context()) == nil {
		t.Fatal("a session in use was not read again")
	}
	f.clock.Advance(maxRowAge)
	if _, err := f.auth.Authenticate(t.Context(), bearer); err == nil || drive.IsKind(err, drive.Unauthenticated) {
		t.Fatalf("acted on a row that is too old, or blamed the bearer: %v", err)
	}
}

func mustHash(t *testing.T, bearer string) secretHash {
	t.Helper()
	hash, ok := parseSecret(bearer)
	if !ok {
		t.Fatal("not a secret")
	}
	return hash
}

func TestUnusedSessionsAreNotRefreshed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.runOnce(t) // nothing was ever used
	f.add(t, "ann", false)
	f.who(t, f.login(t, "ann").Secret)
	f.clock.Advance(refreshIdleLimit + time.Second)
	if err := f.db.Close(); err != nil {
		t.Fatal(err)
	}
	f.runOnce(t) // would fail if it queried the database
	f.clock.Advance(2 * time.Hour)
	f.runOnce(t)
	if len(f.auth.cached) != 0 {
		t.Fatal("an unused session stays in memory")
	}
}

func TestRevocationIsImmediateHere(t *testing.T) {
	t.Parallel()
	for name, revoke := range map[string]func(*testing.T, *fixture, drive.Who) error{
		"session deleted": func(t *testing.T, f *fixture, who drive.Who) error {
			return f.sessions.Delete(t.Context(), who, KindLogin, who.Session)
		},
		"user disabled": func(t *testing.T, f *fixture, who drive.Who) error {
			return f.update(t, who.User, Patch{State: Disabled})
		},
		"password reset": func(t *testing.T, f *fixture, who drive.Who) error {
			return f.update(t, who.User, Patch{Password: f.hash(t, "battery staple")})
		},
		"user deleted": func(t *testing.T, f *fixture, who drive.Who) error { return f.remove(t, who.User) },
		"others ended by another session": func(t *testing.T, f *fixture, _ drive.Who) error {
			return f.sessions.DeleteOthers(t.Context(), f.who(t, f.login(t, "ann").Secret))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.add(t, "ann", false)
			f.add(t, "bob", false)
			bearer, bystander := f.login(t, "ann").Secret, f.login(t, "bob").Secret
			who := f.who(t, bearer)
			f.other.who(t, bearer)
			if err := revoke(t, f, who); err != nil {
				t.Fatal(err)
			}
			f.wantRefused(t, bearer, "invalid")
			f.who(t, bystander)
			f.clock.Advance(maxRowAge)
			f.other.wantRefused(t, bearer, "invalid") // the other process, whose loop does not even run
		})
	}
}

func TestRefreshSeesForeignRevocation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	bearer := f.login(t, "ann").Secret
	who := f.who(t, bearer)
	if err := f.other.sessions.Delete(t.Context(), who, KindLogin, who.Session); err != nil {
		t.Fatal(err)
	}
	f.who(t, bearer) // this process does not know yet
	f.clock.Advance(refreshInterval)
	f.runOnce(t)
	f.wantRefused(t, bearer, "invalid")
}

// TestRunBoundsTheLifeOfARevokedSession: a session in constant use that another process revokes
// ends within five seconds.
func TestRunBoundsTheLifeOfARevokedSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := sqldbtest.Open(t)
		here, there := newProcess(db, Options{Cost: cheap}), newProcess(db, Options{Cost: cheap})
		here.add(t, "ann", false)
		bearer := here.login(t, "ann").Secret
		who := here.who(t, bearer)
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() {
			if err := here.auth.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			here.who(t, bearer)
		}
		if err := there.sessions.Delete(t.Context(), who, KindLogin, who.Session); err != nil {
			t.Fatal(err)
		}
		for revoked := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			_, err := here.auth.Authenticate(t.Context(), bearer)
			if err != nil {
				wantReason(t, err, drive.Unauthenticated, "invalid")
				break
			}
			if time.Since(revoked) >= maxRowAge {
				t.Fatal("a revoked session acted for five seconds")
			}
		}
		cancel()
		run.Wait()
	})
}

// TestRevocationIsNotUndoneByASlowReader: a row read before a revocation must not be cached after
// it.
func TestRevocationIsNotUndoneByASlowReader(t *testing.T) {
	t.Parallel()
	for name, reader := range map[string]func(f *fixture, hash secretHash, r snapshot){
		"a request": func(f *fixture, hash secretHash, r snapshot) { f.auth.cacheRow(hash, r) },
		"the loop":  func(f *fixture, hash secretHash, r snapshot) { f.auth.refresh([]secretHash{hash}, r) },
	} {
		for when, revoked := range map[string]Patch{"disabled": {State: Disabled}, "new password": {}} {
			t.Run(name+", "+when, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				ann := f.add(t, "ann", false)
				bearer := f.login(t, "ann").Secret
				f.who(t, bearer)
				r, err := f.auth.readSnapshot(t.Context(), []secretHash{mustHash(t, bearer)})
				if err != nil || len(r.rows) != 1 {
					t.Fatalf("read %d rows, error %v", len(r.rows), err)
				}
				if revoked.State == "" {
					revoked.Password = f.hash(t, "battery staple")
				}
				if err := f.update(t, ann.ID, revoked); err != nil {
					t.Fatal(err)
				}
				_, err = f.auth.Authenticate(t.Context(), bearer) // the cache now has the current row, if any
				wantKind(t, err, drive.Unauthenticated)
				reader(f, mustHash(t, bearer), r)
				f.wantRefused(t, bearer, "invalid")
			})
		}
	}
}

func TestConcurrentUseAndRevocation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	for range 20 {
		bearer := f.login(t, "ann").Secret
		who := f.who(t, bearer)
		stop := make(chan struct{})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_, _ = f.auth.Authenticate(t.Context(), bearer)
						_ = f.auth.refreshOnce(t.Context())
					}
				}
			})
		}
		if err := f.sessions.Delete(t.Context(), who, KindLogin, who.Session); err != nil {
			t.Fatal(err)
		}
		f.wantRefused(t, bearer, "invalid")
		close(stop)
		all.Wait()
		f.wantRefused(t, bearer, "invalid")
	}
}

func TestReactivatedUserKeepsSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ann := f.add(t, "ann", false)
	bearer := f.login(t, "ann").Secret
	if err := f.update(t, ann.ID, Patch{State: Disabled}); err != nil {
		t.Fatal(err)
	}
	f.wantRefused(t, bearer, "invalid")
	if _, err := f.users.LinkEpoch(t.Context(), ann.ID); !drive.IsKind(err, drive.NotFound) {
		t.Fatalf("a disabled user's links are valid: %v", err)
	}
	if err := f.update(t, ann.ID, Patch{State: Active}); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(maxRowAge)
	f.who(t, bearer)
}

func TestLoginIsExtendedThenExpires(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	used, unused := f.login(t, "ann"), f.login(t, "ann")
	who := f.who(t, used.Secret)
	writes := f.db.Stats().Writes.Load()
	for range 59 {
		f.clock.Advance(time.Minute)
		f.who(t, used.Secret)
		f.runOnce(t)
	}
	if n := f.db.Stats().Writes.Load() - writes; n != 0 {
		t.Fatalf("%d writes within the hour", n)
	}
	for range 120 {
		f.clock.Advance(time.Minute)
		f.who(t, used.Secret)
		f.runOnce(t)
	}
	if n := f.db.Stats().Writes.Load() - writes; n != 2 {
		t.Fatalf("%d writes in two hours and 59 minutes, want 2", n)
	}
	f.clock.Advance(loginLife - 2*time.Hour) // past the expiry of the unused one
	f.wantRefused(t, unused.Secret, "expired")
	f.who(t, used.Secret)
	if all, err := f.sessions.List(t.Context(), who, KindLogin); err != nil || len(all) != 1 || all[0].ID != used.ID {
		t.Fatalf("listed %v, error %v", all, err)
	}
	f.clock.Advance(25 * time.Hour)
	if n, err := f.sessions.Purge(t.Context()); err != nil || n != 1 {
		t.Fatalf("%d purged, error %v", n, err)
	}
	f.wantRefused(t, unused.Secret, "invalid")
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.auth.limit = 8
	f.add(t, "ann", false)
	for range 40 {
		bearer := f.login(t, "ann").Secret
		f.who(t, bearer)
		if n := len(f.auth.cached); n > 8 {
			t.Fatalf("%d sessions in memory", n)
		}
		f.who(t, bearer)
	}
}
