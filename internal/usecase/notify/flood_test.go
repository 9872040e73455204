package notify_test

import (
	"context"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/usecase/notify"
)

// TestRepeatedRoleChangesAreOneNotice: repeated changes of a role within an hour are one notice
// with the latest state; redelivery changes nothing. A read notice stays, and a new one is added.
func TestRepeatedRoleChangesAreOneNotice(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob")
	n := w.folder(t, "ann", "Plans")
	w.share(t, n, "bob", 0)
	var records []stream.Record
	change := func(role string) {
		t.Helper()
		r, err := notice.NewRecord(notice.Cause{Kind: notice.Role, What: notice.Changed, Account: n.Account, Node: n.ID, User: w.people["bob"].User, Data: notice.Data{Role: role}})
		records = append(records, r)
		w.handle(t, r, err)
	}
	for range 20 {
		change("editor")
		change("viewer")
	}
	for _, r := range records {
		w.handle(t, r, nil)
	}
	page, err := w.inbox.List(t.Context(), w.people["bob"], "", 10, false)
	if err != nil || len(page.Items) != 1 || page.Items[0].Role != "viewer" {
		t.Fatalf("bob is told %+v %v", page.Items, err)
	}
	if _, err := w.inbox.Read(t.Context(), w.people["bob"], notify.ReadMark{UpTo: page.Items[0].ID}); err != nil {
		t.Fatal(err)
	}
	change("manager")
	w.wantNotices(t, "bob", "role.changed Plans", "role.changed Plans")
}

// TestFloodEvictsItsOwnNotices: a user who floods another evicts only their own notices.
func TestFloodEvictsItsOwnNotices(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob")
	at := int64(1_800_000_000_000)
	add := func(by drive.UserID) (made bool) {
		t.Helper()
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			at++
			made, err = w.parts.Notices.Add(ctx, tx, notice.Notice{User: w.people["ann"].User, ID: notice.DerivedID(drive.Time(at), "x"), Cause: notice.Cause{
				Kind: notice.Operation, What: notice.Failed, Account: w.people["ann"].Account, By: by,
			}})
			return err
		})
		return made
	}
	eve := drive.NewID[drive.UserID]()
	for range 5 {
		add(w.people["bob"].User)
	}
	for range notice.MaxPerUser + 5 {
		add(eve)
	}
	add(w.people["bob"].User)
	add(drive.UserID{})
	var others, all int
	err := w.parts.DB.QueryRow(t.Context(), "SELECT COUNT(CASE WHEN by_id <> ? THEN 1 END), COUNT(*) FROM notices WHERE user_id = ?", eve, w.people["ann"].User).Scan(&others, &all)
	if err != nil || others != 7 || all != notice.MaxPerUser {
		t.Errorf("of others there are %d, in all %d: %v", others, all, err)
	}
}

// TestOldNoticeIsNotAdded: an old notice that would be evicted at once is not added, however often
// it is tried.
func TestOldNoticeIsNotAdded(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann")
	for i := range notice.MaxPerUser + 2 {
		at := drive.Time(1_800_000_000_000 + int64(i))
		if i >= notice.MaxPerUser {
			at = 1_700_000_000_000
		}
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			made, err := w.parts.Notices.Add(ctx, tx, notice.Notice{User: w.people["ann"].User, ID: notice.DerivedID(at, "x"), Cause: notice.Cause{
				Kind: notice.Quota, What: notice.Full, Account: w.people["ann"].Account,
			}})
			if made != (i < notice.MaxPerUser) {
				t.Errorf("notice %d: made is %t", i, made)
			}
			return err
		})
	}
}
