package notify_test

import (
	"context"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/notice"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/usecase/notify"
)

// A role that goes to and fro is told once in an hour, and as it is: what is handled again after
// that changes nothing. A notice that was read stays, and a new one is made.
func TestARoleToAndFroIsOneNotice(t *testing.T) {
	t.Parallel()
	w := newTown(t, "ann", "bob")
	n := w.folder(t, "ann", "Plans")
	w.share(t, n, "bob", 0)
	var records []stream.Record
	change := func(role string) {
		t.Helper()
		r, err := notice.Due(notice.Cause{Kind: notice.Role, What: notice.Changed, Account: n.Account, Node: n.ID, User: w.people["bob"].User, Data: notice.Data{Role: role}})
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
	if _, err := w.inbox.Read(t.Context(), w.people["bob"], notify.Mark{UpTo: page.Items[0].ID}); err != nil {
		t.Fatal(err)
	}
	change("manager")
	w.wants(t, "bob", "role.changed Plans", "role.changed Plans")
}

// Who floods somebody pushes out their own notices, and nobody else's.
func TestAFloodPushesOutItsOwn(t *testing.T) {
	t.Parallel()
	w := newTown(t, "ann", "bob")
	at := int64(1_800_000_000_000)
	add := func(by drive.UserID) (made bool) {
		t.Helper()
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			at++
			made, err = w.parts.Notices.Add(ctx, tx, notice.Notice{User: w.people["ann"].User, ID: notice.Named(drive.Time(at), "x"), Cause: notice.Cause{
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
	for range notice.Most + 5 {
		add(eve)
	}
	add(w.people["bob"].User)
	add(drive.UserID{})
	var others, all int
	err := w.parts.DB.QueryRow(t.Context(), "SELECT COUNT(CASE WHEN by_id <> ? THEN 1 END), COUNT(*) FROM notices WHERE user_id = ?", eve, w.people["ann"].User).Scan(&others, &all)
	if err != nil || others != 7 || all != notice.Most {
		t.Errorf("of others there are %d, in all %d: %v", others, all, err)
	}
}

// A notice of the past that has no room is not made, as often as it is tried.
func TestANoticeOfThePastHasNoRoom(t *testing.T) {
	t.Parallel()
	w := newTown(t, "ann")
	for i := range notice.Most + 2 {
		at := drive.Time(1_800_000_000_000 + int64(i))
		if i >= notice.Most {
			at = 1_700_000_000_000
		}
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			made, err := w.parts.Notices.Add(ctx, tx, notice.Notice{User: w.people["ann"].User, ID: notice.Named(at, "x"), Cause: notice.Cause{
				Kind: notice.Quota, What: notice.Full, Account: w.people["ann"].Account,
			}})
			if made != (i < notice.Most) {
				t.Errorf("notice %d: made is %t", i, made)
			}
			return err
		})
	}
}
