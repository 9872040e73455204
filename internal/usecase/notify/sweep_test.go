package notify_test

import (
	"context"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/notify"
)

// scanRoles runs a scan for expiring roles to its end.
func (f *fixture) scanRoles(t *testing.T) error {
	t.Helper()
	for {
		if more, err := f.teller.ScanExpiringRoles(t.Context()); err != nil || !more {
			return err
		}
	}
}

// TestManyExpiringRoles: one call notifies a bounded number of users. The next one continues, also
// in another process, and nobody is notified twice or skipped.
func TestManyExpiringRoles(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob", "cid", "dan")
	if err := w.scanRoles(t); err != nil {
		t.Fatal(err)
	}
	people := []string{"bob", "cid", "dan"}
	for _, name := range people {
		w.share(t, w.folder(t, "ann", "Ends for "+name), name, time.Hour)
		w.share(t, w.folder(t, "ann", "Will end for "+name), name, 4*24*time.Hour)
	}
	w.advance(2 * 24 * time.Hour)
	notify.TellOfRoles(w.teller, 1)
	told := func() (n int) {
		for _, name := range people {
			n += len(w.noticesOf(t, name))
		}
		return n
	}
	for n := 1; n <= 4; n++ {
		if more, err := w.teller.ScanExpiringRoles(t.Context()); err != nil || !more || told() != n {
			t.Fatalf("call %d has told %d, more %t: %v", n, told(), more, err)
		}
	}
	if ended, err := w.teller.RolesNotifiedUntil(t.Context(), w.clock()); err != nil || !ended.Before(w.clock().Add(-24*time.Hour)) {
		t.Errorf("roles that have ended before %v may be deleted, and not all of them were told: %v", ended, err)
	}
	w.teller = notify.NewNotifier(w.parts, true) // the process has died
	notify.TellOfRoles(w.teller, 2)
	if err := w.scanRoles(t); err != nil {
		t.Fatal(err)
	}
	for _, name := range people {
		w.wantNotices(t, name, "role.ended Ends for "+name, "role.ending Will end for "+name)
	}
	if ended, err := w.teller.RolesNotifiedUntil(t.Context(), w.clock()); err != nil || !ended.Equal(w.clock()) {
		t.Errorf("roles that have ended before %v may be deleted, and all of them were told: %v", ended, err)
	}
}

// TestFastClockDelaysNoExpiry: a scan by a process with a fast clock does not suppress later
// notices.
func TestFastClockDelaysNoExpiry(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob")
	w.advance(365 * 24 * time.Hour)
	if err := w.scanRoles(t); err != nil {
		t.Fatal(err)
	}
	w.advance(-365 * 24 * time.Hour)
	w.share(t, w.folder(t, "ann", "Plan"), "bob", 3*24*time.Hour+time.Hour)
	w.share(t, w.folder(t, "ann", "Short"), "bob", time.Hour)
	for range 2 {
		w.advance(2 * time.Hour)
		if err := w.scanRoles(t); err != nil {
			t.Fatal(err)
		}
	}
	w.wantNotices(t, "bob", "role.ended Short", "role.ending Plan")
}

// TestIneffectiveRoleExpiresWithoutName: the expiry of an ineffective role does not reveal the
// node's name.
func TestIneffectiveRoleExpiresWithoutName(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob")
	if err := w.scanRoles(t); err != nil {
		t.Fatal(err)
	}
	n := w.folder(t, "ann", "Layoffs") // in a drive that is a space from now on
	w.share(t, n, "bob", time.Hour)
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.parts.Access.CreateSpace(ctx, tx, access.Space{ID: n.Account, Root: w.roots["ann"], Name: "Team"})
		if err != nil {
			return err
		}
		nobody := access.Nobody
		_, err = w.parts.Access.ChangeSpace(ctx, tx, n.Account, access.SpaceChange{Settings: access.SettingsChange{Outward: &nobody}})
		return err
	})
	w.advance(2 * time.Hour)
	if err := w.scanRoles(t); err != nil {
		t.Fatal(err)
	}
	w.wantNotices(t, "bob", "role.ended")
}

// TestUploadersAreNotified: a user who may only add files is notified of the shared folder.
func TestUploadersAreNotified(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob")
	n := w.folder(t, "ann", "Inbox")
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.parts.Access.Grant(ctx, tx, access.Grant{
			Node: n.ID, Account: n.Account, Principal: drive.PrincipalID(w.people["bob"].User), Kind: access.User, Role: access.Uploader,
		})
		return err
	})
	r, err := notice.NewRecord(notice.Cause{Kind: notice.Share, What: notice.Given, Account: n.Account, Node: n.ID, User: w.people["bob"].User})
	w.handle(t, r, err)
	w.wantNotices(t, "bob", "share.given Inbox")
}

// TestDeniedUserIsNotNotified: a user denied by their own role is not notified when their group
// loses a role.
func TestDeniedUserIsNotNotified(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob", "eve")
	n := w.folder(t, "ann", "Layoffs")
	var crew access.UserGroup
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if crew, err = w.parts.Access.CreateGroup(ctx, tx, "Crew"); err != nil {
			return err
		}
		for _, name := range []string{"bob", "eve"} {
			if err := w.parts.Access.AddMember(ctx, tx, crew.ID, w.people[name].User); err != nil {
				return err
			}
		}
		_, err = w.parts.Access.Grant(ctx, tx, access.Grant{
			Node: n.ID, Account: n.Account, Principal: drive.PrincipalID(w.people["bob"].User), Kind: access.User, Role: access.None,
		})
		return err
	})
	r, err := notice.NewRecord(notice.Cause{Kind: notice.Role, What: notice.Taken, Account: n.Account, Node: n.ID, Group: crew.ID, Data: notice.Data{Name: "Layoffs"}})
	w.handle(t, r, err)
	w.wantNotices(t, "bob")
	w.wantNotices(t, "eve", "role.taken Layoffs")
}

// TestExpiredRoleIsKeptUntilNotified: an expired role is kept until its expiry was notified, even
// after failures. One that cannot be notified delays no other, and is kept for at most a week.
func TestExpiredRoleIsKeptUntilNotified(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob", "cid")
	look := func() error { return w.scanRoles(t) }
	purge := func() {
		t.Helper()
		ended, err := w.teller.RolesNotifiedUntil(t.Context(), w.clock())
		if err == nil {
			err = w.parts.Access.Purge(t.Context(), ended)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	left := func(want int) {
		t.Helper()
		var n int
		if err := w.parts.DB.QueryRow(t.Context(), "SELECT COUNT(*) FROM grants").Scan(&n); err != nil || n != want {
			t.Errorf("%d roles are left, want %d: %v", n, want, err)
		}
	}
	purge() // before the first scan
	if err := look(); err != nil {
		t.Fatal(err)
	}
	// bob's channels are unreadable for a while.
	spoil := func(text string) {
		t.Helper()
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE notice_people SET channels = ? WHERE user_id = ?", text, w.people["bob"].User)
			return err
		})
	}
	language := "en"
	if _, err := w.inbox.Change(t.Context(), w.people["bob"], notify.Change{Language: &language}); err != nil {
		t.Fatal(err)
	}
	w.share(t, w.folder(t, "ann", "Plan"), "bob", time.Hour)
	w.advance(time.Second)
	w.share(t, w.folder(t, "ann", "Draft"), "cid", time.Hour)
	spoil("{")
	w.advance(2 * time.Hour)
	if err := look(); err == nil {
		t.Error("bob was told without his channels")
	}
	purge()
	left(2)
	w.wantNotices(t, "cid", "role.ended Draft")
	spoil("{}")
	if err := look(); err != nil { // a process restarted between the two
		t.Fatal(err)
	}
	purge()
	left(0)
	w.wantNotices(t, "bob", "role.ended Plan")
	w.wantNotices(t, "cid", "role.ended Draft")

	w.share(t, w.folder(t, "ann", "Late"), "bob", time.Hour)
	spoil("{")
	w.advance(7*24*time.Hour + 2*time.Hour)
	if err := look(); err == nil {
		t.Error("bob was told without his channels")
	}
	purge()
	left(0)
}
