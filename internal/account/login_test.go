package account

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smartdrive/internal/drive"
	"smartdrive/internal/sqldb"
)

func TestLoginGivesASecretThatActsForTheUser(t *testing.T) {
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

func TestBadBearersAreRefusedWithAReason(t *testing.T) {
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

// What cannot log in is told the same after the same work, whatever the cause. Work is counted, not timed.
func TestEveryRefusalIsTheSame(t *testing.T) {
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

func TestTenFailuresCloseTheDoor(t *testing.T) {
	t.Parallel()
	elsewhere := netip.MustParseAddr("2001:db8::1")
	for name, c := range map[string]struct {
		fail, try Login
		closed    bool
	}{
		"per name, from anywhere": {
			fail: Login{Name: "ann", Client: client}, try: Login{Name: "Ann", Password: secret, Client: elsewhere}, closed: true,
		},
		"per address, whatever the name": {
			fail: Login{Name: "nobody", Client: client}, try: Login{Name: "ann", Password: secret, Client: client}, closed: true,
		},
		"an IPv6 network is one address": {
			fail:   Login{Name: "nobody", Client: netip.MustParseAddr("2001:db8::2")},
			try:    Login{Name: "ann", Password: secret, Client: elsewhere},
			closed: true,
		},
		"a mapped address is the same": {
			fail:   Login{Name: "nobody", Client: netip.MustParseAddr("::ffff:192.0.2.1")},
			try:    Login{Name: "ann", Password: secret, Client: client},
			closed: true,
		},
		"not for others": {
			fail: Login{Name: "nobody", Client: elsewhere}, try: Login{Name: "ann", Password: secret, Client: client},
		},
		"a local socket is no address": {
			fail: Login{Name: "nobody"}, try: Login{Name: "ann", Password: secret},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.add(t, "ann", false)
			c.fail.Password = "wrong horse"
			for range maxFailures {
				_, err := f.sessions.Login(t.Context(), c.fail)
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

func TestSuccessClearsTheName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	for round := range 3 {
		for range maxFailures - 1 {
			_, err := f.sessions.Login(t.Context(), Login{Name: "ann", Password: "wrong horse"})
			wantKind(t, err, drive.Unauthenticated)
		}
		if _, err := f.sessions.Login(t.Context(), Login{Name: "ann", Password: secret}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// A success of one's own must not buy more guesses at others.
func TestSuccessDoesNotClearTheAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	for range maxFailures {
		f.login(t, "ann")
		_, err := f.sessions.Login(t.Context(), Login{Name: "nobody", Password: secret, Client: client})
		wantKind(t, err, drive.Unauthenticated)
	}
	_, err := f.sessions.Login(t.Context(), Login{Name: "ann", Password: secret, Client: client})
	wantKind(t, err, drive.Rate)
}

func TestParallelGuessesDoNotPassTheLimit(t *testing.T) {
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
	if n := f.users.Hashes() - before; n != maxFailures {
		t.Fatalf("%d guesses were checked, want %d", n, maxFailures)
	}
}

func TestFailuresMemoryIsBounded(t *testing.T) {
	t.Parallel()
	f, now := newFailures(), newClock().Now()
	for range maxFailures {
		if err := f.take(now, "name ann"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxFailedKeys - 1 {
		if err := f.take(now, addressKey(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))); err != nil {
			t.Fatal(err)
		}
	}
	wantKind(t, f.take(now, "name ann"), drive.Rate) // not the memory's victim yet
	for i := range 100 {
		if err := f.take(now, addressKey(netip.AddrFrom4([4]byte{11, 0, 0, byte(i)}))); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.byKey) != maxFailedKeys || f.order.Len() != maxFailedKeys {
		t.Fatalf("%d keys, %d in order, want %d", len(f.byKey), f.order.Len(), maxFailedKeys)
	}
}

func TestTooManyWaitingToHashAreToldToComeBack(t *testing.T) {
	t.Parallel()
	h := newHasher(cheap)
	for range maxHashing {
		if _, err := h.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	refused := make(chan error, maxWaiting)
	for range maxWaiting {
		all.Go(func() {
			_, err := h.enter(ctx)
			refused <- err
		})
	}
	for h.waiting.Load() < maxWaiting+maxHashing { // all have queued up
		select {
		case err := <-refused:
			t.Fatalf("one within the limit: %v", err)
		default:
		}
	}
	_, err := h.enter(t.Context())
	wantKind(t, err, drive.Rate)
	cancel()
	all.Wait()
	if n := h.waiting.Load(); n != maxHashing {
		t.Fatalf("%d in the queue after all left, want %d", n, maxHashing)
	}
}

func TestLoginRehashesAnOldPassword(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	better := Cost{MemoryKiB: 128, Passes: 1, Threads: 1}
	upgraded := newProcess(f.db, Options{Cost: better, Now: f.clock.Now})
	var all sync.WaitGroup
	for range 8 { // none of them may fail because another was faster
		all.Go(func() {
			if _, err := upgraded.sessions.Login(t.Context(), Login{Name: "ann", Password: secret}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	cred, err := upgraded.sessions.credential(t.Context(), "ann")
	if err != nil || cred.phc.cost != better {
		t.Fatalf("cost %+v, error %v", cred.phc.cost, err)
	}
	before := upgraded.users.Hashes()
	upgraded.login(t, "ann")
	if n := upgraded.users.Hashes() - before; n != 1 {
		t.Fatalf("%d hashes for a password at the right cost", n)
	}
}

func TestPasswordChangeEndsTheOthers(t *testing.T) {
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

// The password is changed while a login with the old one waits to be checked: its session would outlive the change.
func TestLoginLosesAgainstAChange(t *testing.T) {
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
			for range maxHashing { // keeps the login waiting
				leave, err := f.users.hasher.enter(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer leave()
			}
			outcome := make(chan error)
			go func() {
				_, err := f.sessions.Login(t.Context(), Login{Name: "ann", Password: secret})
				outcome <- err
			}()
			for f.users.hasher.waiting.Load() <= maxHashing { // it has read the old password
				runtime.Gosched()
			}
			if err := f.update(t, ann.ID, patch); err != nil {
				t.Fatal(err)
			}
			<-f.users.hasher.gate // one turn is free
			err := <-outcome
			f.users.hasher.gate <- struct{}{}
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
