package innodb

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/engine/sqldb"
)

func newUsers(d drives) *account.Users {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	opt := account.Options{Cost: account.Cost{MemoryKiB: 64, Passes: 1, Threads: 1}, Now: func() time.Time { return now }}
	return account.NewUsers(d.DB, account.NewAuth(d.DB, opt), opt)
}

// draft prepares a user, with the hash that must not be made in a transaction (I1).
func draft(t *testing.T, users *account.Users) func(context.Context, *sqldb.Tx) error {
	t.Helper()
	d, err := users.Draft(t.Context(), "ann", "correct horse", false)
	must(t, err)
	return func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := users.Create(ctx, tx, d)
		return err
	}
}

// Two concurrent requests claim one name. The unique key is on the name, not on the id, so the
// duplicate may be another user's row; reading it back decides.
func TestConcurrentClaimsOfOneName(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	users := newUsers(d)
	first := d.hold(t, draft(t, users))
	second := d.write(t, draft(t, users))
	d.raw.awaitWaiting(t, 1)
	first.commit(t)
	wantKind(t, <-second, drive.NameTaken)
	d.want(t, "SELECT COUNT(*) FROM users", "1")
	d.want(t, "SELECT COUNT(*) FROM accounts", "1")
}

// The first transaction rolls back while two wait; one of the two gets the name.
func TestNameAfterFirstInsertRollsBack(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	users := newUsers(d)
	first := d.hold(t, draft(t, users))
	second := d.write(t, draft(t, users))
	d.raw.awaitWaiting(t, 1)
	third := d.write(t, draft(t, users))
	d.raw.awaitWaiting(t, 2)
	first.rollBack(t)
	a, b := <-second, <-third
	if (a == nil) == (b == nil) {
		t.Fatalf("%v and %v, want one user", a, b)
	}
	wantKind(t, errors.Join(a, b), drive.NameTaken)
	d.want(t, "SELECT COUNT(*) FROM users", "1")
	d.want(t, "SELECT COUNT(*) FROM accounts", "1")
}

// The same draft, repeated concurrently or afterwards, creates one user.
func TestSameDraftAtOnceIsOneUser(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	create := draft(t, newUsers(d))
	must(t, errors.Join(atOnce(16, func(int) error { return d.Write(t.Context(), create) })...))
	d.want(t, "SELECT COUNT(*) FROM users", "1")
}

// An UPDATE to the present values succeeds; it is not mistaken for a missing user.
func TestUpdateThatChangesNothingFindsItsUser(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	users := newUsers(d)
	must(t, d.Write(t.Context(), draft(t, users)))
	ann, err := users.FindByName(t.Context(), d, "ann")
	must(t, err)
	must(t, d.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := users.Update(ctx, tx, ann.ID, account.Patch{State: account.Active})
		return err
	}))
}
