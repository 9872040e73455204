package activity_test

import (
	"context"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

const year = 365 * 24 * time.Hour

// purgeFixture is a log with a manual clock.
type purgeFixture struct {
	db    *sqldb.DB
	calls sqldbtest.Counter
	log   *activity.Log
	now   time.Time
}

func newPurgeFixture(t *testing.T) *purgeFixture {
	p := &purgeFixture{now: time.UnixMilli(1_795_262_400_000)}
	p.db = sqldbtest.OpenWith(t, sqldb.Options{Connector: p.calls.Connector})
	p.log = activity.New(activity.Options{DB: p.db, Now: func() time.Time { return p.now }})
	return p
}

// insertEntries writes n entries with a time that is after later than now.
func (p *purgeFixture) insertEntries(t *testing.T, n int, after time.Duration) {
	t.Helper()
	p.now = p.now.Add(after)
	defer func() { p.now = p.now.Add(-after) }()
	account := drive.NewID[drive.AccountID]()
	err := p.db.Write(t.Context(), func(_ context.Context, tx *sqldb.Tx) error {
		for range n {
			if err := p.log.Record(tx, activity.Entry{Account: account, Verb: activity.WebhookChanged}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (p *purgeFixture) purge(t *testing.T, want int) {
	t.Helper()
	if err := p.log.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := p.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM activity").Scan(&left); err != nil || left != want {
		t.Errorf("%d entries are left, want %d; error %v", left, want, err)
	}
}

// TestPurgePassesEntriesOfFastClock: entries of a clock that was ahead come before older ones and
// are retained longer; all old entries are deleted in one run.
func TestPurgePassesEntriesOfFastClock(t *testing.T) {
	t.Parallel()
	p := newPurgeFixture(t)
	p.insertEntries(t, 1100, year) // more than two batches
	p.insertEntries(t, 1200, 0)
	p.insertEntries(t, 5, year/2)
	p.now = p.now.Add(year/2 + time.Hour)
	p.purge(t, 1105)
	p.now = p.now.Add(2 * year)
	p.purge(t, 0)
}

// TestPurgeDeletesInBatches: retained entries within a page do not cause one transaction per
// deleted entry.
func TestPurgeDeletesInBatches(t *testing.T) {
	t.Parallel()
	p := newPurgeFixture(t)
	p.insertEntries(t, 499, year)
	p.insertEntries(t, 1200, 0)
	p.now = p.now.Add(year / 2)
	before := p.calls.Count(sqldbtest.Begin)
	p.purge(t, 499)
	if n := p.calls.Count(sqldbtest.Begin) - before; n > 4 {
		t.Errorf("%d transactions for 1699 entries, want at most 4", n)
	}
}

// TestPurgeResumesWhereItStopped: one run does not scan a long log without old entries to its end.
// Later runs continue, and each starts with the oldest entries.
func TestPurgeResumesWhereItStopped(t *testing.T) {
	t.Parallel()
	p := newPurgeFixture(t)
	p.log.LookAt(1000)
	p.insertEntries(t, 2600, year)
	p.insertEntries(t, 600, 0)
	p.insertEntries(t, 1, year/2)
	p.now = p.now.Add(year / 2)
	p.purge(t, 3201) // 1000 scanned
	for range 2 {    // each scans the first page and 500 more
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
