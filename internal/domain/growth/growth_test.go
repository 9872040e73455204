package growth_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/growth"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// TestNoteReplacesFiguresOfTheDay: the last figures of a UTC day count, from any instance; a day
// without figures is missing.
func TestNoteReplacesFiguresOfTheDay(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	now := time.Date(2026, 11, 25, 23, 30, 0, 0, time.FixedZone("", -3600)) // the 26th in UTC
	g := growth.New(db, func() time.Time { return now })
	note := func(free *drive.ByteSize) {
		t.Helper()
		if err := g.Record(t.Context(), free); err != nil {
			t.Fatal(err)
		}
	}
	room := func(n drive.ByteSize) *drive.ByteSize { return &n }
	note(room(500))
	addLedger(t, db, 70, 7)
	addLedger(t, db, 30, 0)
	now = now.Add(10 * time.Minute)
	note(room(400))
	second := now
	now = now.AddDate(0, 0, 2)
	note(nil)
	now = now.AddDate(4, 0, 0) // a clock that is ahead for a moment
	note(nil)
	now = now.AddDate(-4, 0, 0)

	want := []growth.Day{
		{Day: "2026-11-26", At: drive.TimeOf(second), Accounts: 2, Finished: 100, Unfinished: 7, Free: room(400)},
		{Day: "2026-11-28", At: drive.TimeOf(now), Accounts: 2, Finished: 100, Unfinished: 7},
	}
	for days, want := range map[int][]growth.Day{3: want, 2: want[1:], 1: want[1:]} {
		got, err := g.List(t.Context(), days)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the last %d days (-want +got):\n%s", days, diff)
		}
	}
}

func addLedger(t *testing.T, db *sqldb.DB, finished, unfinished int64) {
	t.Helper()
	account := drive.NewID[drive.AccountID]()
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO accounts (id, created_at) VALUES (?, 1)", account); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO ledgers (account_id, finished, unfinished, reserved) VALUES (?, ?, ?, 0)", account, finished, unfinished)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
