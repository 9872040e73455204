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

const year = 365 * 24 * time.Hour

// purging is a log whose clock is set by hand.
type purging struct {
	db    *sqldb.DB
	calls sqldbtest.Counter
	log   *activity.Log
	now   time.Time
}

func newPurging(t *testing.T) *purging {
	p := &purging{now: time.UnixMilli(1_795_262_400_000)}
	p.db = sqldbtest.OpenWith(t, sqldb.Options{Connector: p.calls.Connector})
	p.log = activity.New(activity.Options{DB: p.db, Now: func() time.Time { return p.now }})
	return p
}

// note writes n entries, so much after now.
func (p *purging) note(t *testing.T, n int, after time.Duration) {
	t.Helper()
	p.now = p.now.Add(after)
	defer func() { p.now = p.now.Add(-after) }()
	account := drive.NewID[drive.AccountID]()
	err := p.db.Write(t.Context(), func(_ context.Context, tx *sqldb.Tx) error {
		for range n {
			if err := p.log.Note(tx, activity.Entry{Account: account, Verb: activity.WebhookChanged}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (p *purging) purge(t *testing.T, want int) {
	t.Helper()
	if err := p.log.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := p.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM activity").Scan(&left); err != nil || left != want {
		t.Errorf("%d entries are left, want %d; error %v", left, want, err)
	}
}

// Entries of a clock that was ahead lie before older ones and are kept for longer; all that is old
// goes in one run.
func TestEntriesOfAClockThatWasAheadKeepNoOthers(t *testing.T) {
	t.Parallel()
	p := newPurging(t)
	p.note(t, 1100, year) // more than two batches
	p.note(t, 1200, 0)
	p.note(t, 5, year/2)
	p.now = p.now.Add(year/2 + time.Hour)
	p.purge(t, 1105)
	p.now = p.now.Add(2 * year)
	p.purge(t, 0)
}

// Entries that have to stay, a page less one of them, do not make a transaction of each one that
// goes.
func TestAPageOfTheLogIsOneTransaction(t *testing.T) {
	t.Parallel()
	p := newPurging(t)
	p.note(t, 499, year)
	p.note(t, 1200, 0)
	p.now = p.now.Add(year / 2)
	before := p.calls.Count(sqldbtest.Begin)
	p.purge(t, 499)
	if n := p.calls.Count(sqldbtest.Begin) - before; n > 4 {
		t.Errorf("%d transactions for 1699 entries, want at most 4", n)
	}
}

// A run does not read a long log of which nothing is old to its end. The next ones go on, and each
// begins with the oldest.
func TestRunsOfPurgeGoOnThroughTheLog(t *testing.T) {
	t.Parallel()
	p := newPurging(t)
	p.log.LookAt(1000)
	p.note(t, 2600, year)
	p.note(t, 600, 0)
	p.note(t, 1, year/2)
	p.now = p.now.Add(year / 2)
	p.purge(t, 3201) // 1000 were looked at
	for range 2 {    // each looks at the first page, and at 500 more
		p.purge(t, 3201)
	}
	for range 2 {
		if err := p.log.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p.purge(t, 2601)
	p.now = p.now.Add(2 * year)
	p.purge(t, 0)
}
