package account

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// clock is a manual clock.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) Now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *clock) Advance(d time.Duration) { c.ns.Add(int64(d)) }

// process holds the components of one server process.
type process struct {
	auth     *Auth
	users    *Users
	sessions *Sessions
}

func newProcess(db *sqldb.DB, opt Options) process {
	auth := NewAuth(db, opt)
	users := NewUsers(db, auth, opt)
	return process{auth, users, NewSessions(db, users, auth, opt)}
}

// fixture is two processes on one database, with a manual clock and cheap hashes.
type fixture struct {
	process
	other process
	db    *sqldb.DB
	clock *clock
}

var cheap = Cost{MemoryKiB: 64, Passes: 1, Threads: 1}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db, c := sqldbtest.Open(t), newClock()
	opt := Options{Cost: cheap, Now: c.Now}
	return &fixture{process: newProcess(db, opt), other: newProcess(db, opt), db: db, clock: c}
}

const secret = "correct horse"

var client = netip.MustParseAddr("192.0.2.1")

// add creates a user with the password of these tests.
func (p process) add(t testing.TB, name string, admin bool) User {
	t.Helper()
	draft, err := p.users.Draft(t.Context(), name, secret, admin)
	if err != nil {
		t.Fatal(err)
	}
	user, err := p.create(t.Context(), draft)
	if err != nil {
		t.Fatal(err)
	}
	return user
}

func (p process) create(ctx context.Context, draft Draft) (user User, err error) {
	err = p.users.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		user, err = p.users.Create(ctx, tx, draft)
		return err
	})
	return user, err
}

func (p process) update(t *testing.T, id drive.UserID, patch Patch) error {
	t.Helper()
	return p.users.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := p.users.Update(ctx, tx, id, patch)
		return err
	})
}

func (p process) remove(t *testing.T, id drive.UserID) error {
	t.Helper()
	return p.users.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		return p.users.Delete(ctx, tx, id)
	})
}

func (p process) hash(t *testing.T, password string) Hash {
	t.Helper()
	h, err := p.users.Hash(t.Context(), "ann", password)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (p process) login(t testing.TB, name string) Granted {
	t.Helper()
	g, err := p.sessions.Login(t.Context(), Login{Name: name, Password: secret, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (p process) who(t *testing.T, bearer string) drive.Who {
	t.Helper()
	who, err := p.auth.Authenticate(t.Context(), bearer)
	if err != nil {
		t.Fatal(err)
	}
	return who
}

// wantRefused checks that a bearer is refused with a reason.
func (p process) wantRefused(t *testing.T, bearer, reason string) {
	t.Helper()
	_, err := p.auth.Authenticate(t.Context(), bearer)
	wantReason(t, err, drive.Unauthenticated, reason)
}

func wantReason(t *testing.T, err error, kind drive.Kind, reason string) {
	t.Helper()
	wantKind(t, err, kind)
	if got := argsOf(err)["reason"]; got != reason {
		t.Fatalf("reason %v, want %q", got, reason)
	}
}

func wantKind(t *testing.T, err error, kind drive.Kind) {
	t.Helper()
	if !drive.IsKind(err, kind) {
		t.Fatalf("error %v, want %v", err, kind)
	}
}
