package account

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

func TestLoginReturnsWorkingSecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ann, root := f.add(t, "ann", false), f.add(t, "root", true)
	a, r := f.login(t, "ANN"), f.login(t, "root")
	rw := drive.ScopeRead | drive.ScopeWrite
	if d := cmp.Diff(drive.Who{User: ann.ID, Account: ann.Account, Session: a.ID, Scopes: rw}, f.who(t, a.Secret)); d != "" {
		t.Error(d)
	}
	want := drive.Who{User: root.ID, Account: root.Account, Session: r.ID, Admin: true, Scopes: rw | drive.ScopeAdmin}
	if d := cmp.Diff(want, f.other.who(t, r.Secret)); d != "" {
		t.Error(d)
	}
}

func TestInvalidBearersAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	good := f.login(t, "ann").Secret
	unknown, _ := newSecret()
	f.who(t, good)
	f.wantRefused(t, "", "missing")
	for _, s := range []string{
		unknown, good + "A", good[:len(good)-1], strings.TrimPrefix(good, "sd_"), "SD_" + good[3:], good + "\n",
		good[:20] + "\n" + good[21:], "sd_", strings.Repeat("x", 1<<20),
	} {
		f.wantRefused(t, s, "invalid")
	}
}

// TestFailedLoginsAreIndistinguishable: every failed login gets the same response after the same
// work, which is counted, not timed.
func TestFailedLoginsAreIndistinguishable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	off := f.add(t, "off", false)
	if err := f.update(t, off.ID, Patch{State: Disabled}); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]Login{
		"wrong password":      {Name: "ann", Password: "wrong horse"},
		"unknown user":        {Name: "bob", Password: secret},
		"impossible name":     {Name: "a/b", Password: secret},
		"a deleted slot":      {Name: "/" + off.ID.String(), Password: secret},
		"disabled":            {Name: "off", Password: secret},
		"no password":         {Name: "ann"},
		"impossible password": {Name: "ann", Password: strings.Repeat("p", 1025)},
	} {
		before := f.users.Hashes()
		_, err := f.sessions.Login(t.Context(), in)
		var e *drive.Error
		if !errors.As(err, &e) {
			t.Fatalf("%s: %v", name, err)
		}
		want := &drive.Error{Kind: drive.Unauthenticated, Args: drive.Args{"reason": "invalid"}}
		if d := cmp.Diff(want, e); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if n := f.users.Hashes() - before; n != 1 {
			t.Errorf("%s: %d hashes, want 1", name, n)
		}
	}
	if got := f.users.hasher.dummy.cost; got != cheap {
		t.Errorf("the dummy costs %+v, a password %+v", got, cheap)
	}
}

func TestFailuresRateLimitTheirAddress(t *testing.T) {
	t.Parallel()
	elsewhere := netip.MustParseAddr("2001:db8::1")
	for name, c := range map[string]struct {
		fail, try Login
		times     int
		closed    bool
	}{
		"a name from one address": {
			fail: Login{Name: "ann", Client: client}, try: Login{Name: "Ann", Password: secret, Client: client}, times: maxPair, closed: true,
		},
		"not from another one": {
			fail: Login{Name: "ann", Client: client}, try: Login{Name: "Ann", Password: secret, Client: elsewhere}, times: maxPair,
		},
		"per address, whatever the name": {
			fail: Login{Name: "n*", Client: client}, try: Login{Name: "ann", Password: secret, Client: client}, times: maxAddress, closed: true,
		},
		"an IPv6 network is one address": {
			fail: Login{Name: "n*", Client: netip.MustParseAddr("2001:db8::2")},
			try:  Login{Name: "ann", Password: secret, Client: elsewhere}, times: maxAddress, closed: true,
		},
		"a mapped address is the same": {
			fail: Login{Name: "n*", Client: netip.MustParseAddr("::ffff:192.0.2.1")},
			try:  Login{Name: "ann", Password: secret, Client: client}, times: maxAddress, closed: true,
		},
		"not for others": {
			fail: Login{Name: "n*", Client: elsewhere}, try: Login{Name: "ann", Password: secret, Client: client}, times: maxAddress,
		},
		"a local socket is no address": {
			fail: Login{Name: "n*"}, try: Login{Name: "ann", Password: secret}, times: maxAddress,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.add(t, "ann", false)
			c.fail.Password = "wrong horse"
			for i := range c.times {
				fail := c.fail
				fail.Name = strings.ReplaceAll(fail.Name, "*", strconv.Itoa(i))
				_, err := f.sessions.Login(t.Context(), fail)
				wantKind(t, err, drive.Unauthenticated)
			}
			f.clock.Advance(5 * time.Minute)
			before := f.users.Hashes()
			_, err := f.sessions.Login(t.Context(), c.try)
			if !c.closed {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantKind(t, err, drive.Rate)
			if got := argsOf(err)["retry_after"]; got != 600 || f.users.Hashes() != before {
				t.Fatalf("retry after %v s, %d hashes", got, f.users.Hashes()-before)
			}
			f.clock.Advance(10 * time.Minute)
			if _, err := f.sessions.Login(t.Context(), c.try); err != nil {
				t.Fatalf("after the window: %v", err)
			}
		})
	}
}

func TestSuccessClearsFailuresOfName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	for round := range 3 {
		for range maxPair - 1 {
			_, err := f.sessions.Login(t.Context(), Login{Name: "ann", Password: "wrong horse"})
			wantKind(t, err, drive.Unauthenticated)
		}
		if _, err := f.sessions.Login(t.Context(), Login{Name: "ann", Password: secret}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// TestSuccessKeepsFailuresOfAddress: a successful login must not allow more guesses at other names.
func TestSuccessKeepsFailuresOfAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	from := func(name, password string) error {
		_, err := f.sessions.Login(t.Context(), Login{Name: name, Password: password, Client: client})
		return err
	}
	for i := range maxAddress {
		if err := from("ann", secret); err != nil {
			t.Fatal(err)
		}
		wantKind(t, from("nobody"+strconv.Itoa(i), secret), drive.Unauthenticated)
	}
	wantKind(t, from("somebody", secret), drive.Rate)
	if err := from("ann", secret); err != nil {
		t.Errorf("who has logged in from there: %v", err)
	}
}

func TestParallelGuessesRespectLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	before := f.users.Hashes()
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() {
			_, err := f.sessions.Login(t.Context(), Login{Name: "ann", Password: "wrong horse"})
			if !drive.IsKind(err, drive.Unauthenticated, drive.Rate) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := f.users.Hashes() - before; n != maxPair {
		t.Fatalf("%d guesses were checked, want %d", n, maxPair)
	}
}

func TestFailuresMemoryIsBounded(t *testing.T) {
	t.Parallel()
	f, now := newFailures(), newClock().Now()
	one := counter{"pair ann", maxPair}
	for range maxPair {
		if err := f.record(now, one); err != nil {
			t.Fatal(err)
		}
	}
	from := func(a byte, i int) counter {
		return counter{addressKey(netip.AddrFrom4([4]byte{a, 0, byte(i >> 8), byte(i)})), maxAddress}
	}
	for i := range maxFailedKeys - 1 {
		if err := f.record(now, from(10, i)); err != nil {
			t.Fatal(err)
		}
	}
	wantKind(t, f.record(now, one), drive.Rate) // not evicted yet
	for i := range 100 {
		if err := f.record(now, from(11, i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.byKey) != maxFailedKeys || f.order.Len() != maxFailedKeys {
		t.Fatalf("%d keys, %d in order, want %d", len(f.byKey), f.order.Len(), maxFailedKeys)
	}
}

func TestLoginRehashesAnOldPassword(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	better := Cost{MemoryKiB: 128, Passes: 1, Threads: 1}
	upgraded := newProcess(f.db, Options{Cost: better, Now: f.clock.Now})
	var all sync.WaitGroup
	for range 8 { // none may fail because another was faster
		all.Go(func() {
			if _, err := upgraded.sessions.Login(t.Context(), Login{Name: "ann", Password: secret}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	cred, err := upgraded.sessions.credential(t.Context(), "ann")
	if err != nil || cred.parsed.cost != better {
		t.Fatalf("cost %+v, error %v", cred.parsed.cost, err)
	}
	before := upgraded.users.Hashes()
	upgraded.login(t, "ann")
	if n := upgraded.users.Hashes() - before; n != 1 {
		t.Fatalf("%d hashes for a password at the right cost", n)
	}
}

func TestPasswordChangeEndsOtherSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ann := f.add(t, "ann", false)
	mine, other := f.login(t, "ann"), f.login(t, "ann")
	who := f.who(t, mine.Secret)
	token, err := f.sessions.CreateToken(t.Context(), who, NewToken{Name: "backup", Scopes: drive.ScopeRead})
	if err != nil {
		t.Fatal(err)
	}
	f.who(t, other.Secret)
	f.who(t, token.Secret)
	epoch, err := f.users.LinkEpoch(t.Context(), ann.ID)
	if err != nil {
		t.Fatal(err)
	}
	const next = "battery staple"
	err = f.sessions.ChangePassword(t.Context(), who, "wrong horse", next, client)
	wantReason(t, err, drive.Forbidden, "password")
	f.who(t, other.Secret)
	if err := f.sessions.ChangePassword(t.Context(), who, secret, next, client); err != nil {
		t.Fatal(err)
	}
	f.who(t, mine.Secret)
	f.wantRefused(t, other.Secret, "invalid")
	f.wantRefused(t, token.Secret, "invalid")
	if now, err := f.users.LinkEpoch(t.Context(), ann.ID); err != nil || now <= epoch {
		t.Fatalf("link epoch %d after %d, error %v", now, epoch, err)
	}
	_, err = f.sessions.Login(t.Context(), Login{Name: "ann", Password: secret})
	wantKind(t, err, drive.Unauthenticated)
	if _, err := f.sessions.Login(t.Context(), Login{Name: "ann", Password: next}); err != nil {
		t.Fatal(err)
	}
}

// TestLoginFailsAfterConcurrentPasswordChange: a login with the old password that waits for its
// hash must fail, because its session would survive the change.
func TestLoginFailsAfterConcurrentPasswordChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patch func(*fixture) Patch
		ok    bool
	}{
		"nothing":  {func(*fixture) Patch { return Patch{} }, true},
		"password": {func(f *fixture) Patch { return Patch{Password: f.hash(t, "battery staple")} }, false},
		"disabled": {func(*fixture) Patch { return Patch{State: Disabled} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ann := f.add(t, "ann", false)
			patch := c.patch(f)
			release := f.users.hasher.holdTurns(t) // keeps the login queued
			outcome := make(chan error)
			go func() {
				_, err := f.sessions.Login(t.Context(), Login{Name: "ann", Password: secret})
				outcome <- err
			}()
			for f.users.hasher.queued() == 0 { // until it has read the old password
				runtime.Gosched()
			}
			if err := f.update(t, ann.ID, patch); err != nil {
				t.Fatal(err)
			}
			release() // frees one turn
			err := <-outcome
			if c.ok && err != nil {
				t.Fatal(err)
			}
			if !c.ok {
				wantReason(t, err, drive.Unauthenticated, "invalid")
			}
		})
	}
}

func TestLoginsOfOneUserAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ann := f.add(t, "ann", false)
	if err := f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range maxSessions {
			_, hash := newSecret()
			seen := drive.TimeOf(f.clock.Now()).Add(time.Duration(i) * time.Second)
			if err := insertSession(ctx, tx, Session{
				ID: drive.NewID[drive.SessionID](), User: ann.ID, Kind: KindLogin, SeenAt: seen, ExpiresAt: seen.Add(loginLife),
			}, hash); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Hour)
	f.who(t, f.login(t, "ann").Secret)
	var n int
	if err := f.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM sessions").Scan(&n); err != nil || n != maxSessions {
		t.Fatalf("%d logins, error %v", n, err)
	}
}
