package notify_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/usecase/notify"
)

// group creates a group of users.
func (f *fixture) group(t *testing.T, name string, people ...string) drive.GroupID {
	t.Helper()
	var g access.UserGroup
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if g, err = f.parts.Access.CreateGroup(ctx, tx, name); err != nil {
			return err
		}
		for _, p := range people {
			err = errors.Join(err, f.parts.Access.AddMember(ctx, tx, g.ID, f.people[p].User))
		}
		return err
	})
	return g.ID
}

// shareWith shares a new folder of ann with a group and notifies its members.
func (f *fixture) shareWith(t *testing.T, group drive.GroupID, name string) {
	t.Helper()
	n := f.folder(t, "ann", name)
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := f.parts.Access.Grant(ctx, tx, access.Grant{Node: n.ID, Account: n.Account, Principal: drive.PrincipalID(group), Kind: access.Group, Role: access.Viewer})
		return err
	})
	r, err := notice.NewRecord(notice.Cause{Kind: notice.Share, What: notice.Given, Account: n.Account, Node: n.ID, By: f.people["ann"].User, Group: group})
	f.handle(t, r, err)
	f.handle(t, r, nil) // redelivery
}

// TestNoticesPerMakerAreLimited: changes of roles of groups by one maker within an hour are
// limited: further ones are one summary per user and cost nothing after that.
func TestNoticesPerMakerAreLimited(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob", "cid", "eve")
	notify.TellOneByOne(w.teller, 7) // counting ann, and each cause twice: the second cause exceeds it
	all, few := w.group(t, "all", "ann", "bob", "cid"), w.group(t, "few", "bob", "eve")
	for i := range 5 {
		w.shareWith(t, all, fmt.Sprint("A", i))
	}
	w.shareWith(t, few, "B")
	before := w.calls.Total()
	w.shareWith(t, all, "C")
	quiet := w.calls.Total() - before
	w.wantNotices(t, "bob", "share.given A0", "share.given A1", "share.more")
	w.wantNotices(t, "cid", "share.given A0", "share.given A1", "share.more")
	w.wantNotices(t, "eve", "share.more")
	w.wantNotices(t, "ann")
	entries, err := w.parts.Log.ListBefore(t.Context(), w.parts.DB, w.people["bob"].Account, 0, 10)
	if err != nil || len(entries) != 3 || entries[0].Verb != activity.NoticeTold {
		t.Errorf("the log has %v %v", entries, err)
	}
	folder := w.calls.Total()
	w.folder(t, "ann", "D")
	if folder = w.calls.Total() - folder; quiet > folder+20 {
		t.Errorf("what is told to nobody takes %d calls, a folder %d", quiet, folder)
	}

	// Shares with a single user are notified, and all changes again in the next hour.
	n := w.folder(t, "ann", "For bob")
	w.share(t, n, "bob", 0)
	r, err := notice.NewRecord(notice.Cause{Kind: notice.Share, What: notice.Given, Account: n.Account, Node: n.ID, By: w.people["ann"].User, User: w.people["bob"].User})
	w.handle(t, r, err)
	w.advance(time.Hour)
	w.shareWith(t, few, "E")
	for who, want := range map[string]string{"bob": "share.given A0,share.given A1,share.given E,share.given For bob,share.more", "eve": "share.given E,share.more"} {
		told := w.noticesOf(t, who)
		slices.Sort(told)
		if got := strings.Join(told, ","); got != want {
			t.Errorf("%s is told %s, want %s", who, got, want)
		}
	}
}

// TestDeletedGroupNotifiesMembers: members of a deleted group are notified by their ids, as many
// per record as fit.
func TestDeletedGroupNotifiesMembers(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob", "cid")
	c := notice.Cause{Kind: notice.Group, What: notice.Taken, Account: w.people["ann"].Account, By: w.people["ann"].User, Data: notice.Data{Name: strings.Repeat("长", 80)}}
	for range notice.MaxUsers - 3 {
		c.Users = append(c.Users, drive.NewID[drive.UserID]()) // deleted by then
	}
	c.Users = append(c.Users, w.people["bob"].User, w.people["ann"].User, w.people["cid"].User)
	r, err := notice.NewRecord(c)
	if len(r.Data) > stream.MaxEvent/2 {
		t.Fatalf("the record has %d bytes", len(r.Data))
	}
	w.handle(t, r, err)
	w.handle(t, r, nil)
	w.wantNotices(t, "bob", "group.taken "+c.Data.Name)
	w.wantNotices(t, "cid", "group.taken "+c.Data.Name)
	w.wantNotices(t, "ann")

	c.Account, c.By, c.Data.Name = drive.AccountID{}, drive.UserID{}, "Crew" // by a command on the machine itself
	c.Users = []drive.UserID{w.people["ann"].User}
	r, err = notice.NewRecord(c)
	w.handle(t, r, err)
	w.wantNotices(t, "ann", "group.taken Crew")
}

// TestExpiringRolesDoNotUseUpLaterHours: the announcement of an expiry counts for the hour of the
// announcement, not of the expiry, so later changes are notified individually.
func TestExpiringRolesDoNotUseUpLaterHours(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob")
	if err := w.scanRoles(t); err != nil {
		t.Fatal(err)
	}
	notify.TellOneByOne(w.teller, 1)
	crew := w.group(t, "crew", "bob")
	for name, life := range map[string]time.Duration{"Long": 5 * 24 * time.Hour, "Short": 2*24*time.Hour + 3*time.Hour} {
		n := w.folder(t, "ann", name)
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := w.parts.Access.Grant(ctx, tx, access.Grant{
				Node: n.ID, Account: n.Account, Principal: drive.PrincipalID(crew), Kind: access.Group, Role: access.Viewer,
				Expires: drive.TimeOf(w.clock()).Add(life),
			})
			return err
		})
	}
	for _, d := range []time.Duration{2*24*time.Hour + 2*time.Hour, 2 * time.Hour} { // Long expires within days; later Short has expired
		w.advance(d)
		if err := w.scanRoles(t); err != nil {
			t.Fatal(err)
		}
	}
	w.wantNotices(t, "bob", "role.ended Short", "role.ending Long")
}
