package activity_test

import (
	"context"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
)

// Entries of a clock that was ahead lie before older ones and are kept for longer; all that is old
// goes in one run.
func TestEntriesOfAClockThatWasAheadKeepNoOthers(t *testing.T) {
	t.Parallel()
	db, now := sqldbtest.Open(t), time.UnixMilli(1_795_262_400_000)
	log := activity.New(activity.Options{DB: db, Now: func() time.Time { return now }})
	account := drive.NewID[drive.AccountID]()
	note := func(n int) {
		t.Helper()
		err := db.Write(t.Context(), func(_ context.Context, tx *sqldb.Tx) error {
			for range n {
				if err := log.Note(tx, activity.Entry{Account: account, Verb: activity.WebhookChanged}, nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	const year = 365 * 24 * time.Hour
	now = now.Add(year)
	note(10)
	now = now.Add(-year)
	note(1200)
	now = now.Add(year / 2)
	note(5)
	if err := log.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := db.QueryRow(t.Context(), "SELECT COUNT(*) FROM activity").Scan(&left); err != nil || left != 15 {
		t.Errorf("%d entries are left, want 15; error %v", left, err)
	}
}
