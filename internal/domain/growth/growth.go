// Package growth stores daily figures of an installation's growth: charged bytes and free space,
// one row per day. The figures come from the ledgers.
package growth

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Day holds the figures of one day as last recorded on it.
type Day struct {
	Day        string          `json:"day" doc:"UTC day, such as 2026-11-25"`
	At         drive.Time      `json:"at" doc:"when the figures of the day were last recorded"`
	Accounts   int64           `json:"accounts" doc:"number of users and spaces with a quota"`
	Finished   drive.ByteSize  `json:"finished" doc:"bytes charged for files, versions and the trash"`
	Unfinished drive.ByteSize  `json:"unfinished" doc:"bytes charged for unfinished uploads"`
	Free       *drive.ByteSize `json:"free,omitempty" doc:"free bytes on the disk; absent if unknown"`
}

// Growth stores the figures. It is safe for concurrent use.
type Growth struct {
	db  *sqldb.DB
	now func() time.Time
}

// New returns the Growth in db. now is the clock; nil: time.Now.
func New(db *sqldb.DB, now func() time.Time) *Growth {
	if now == nil {
		now = time.Now
	}
	return &Growth{db: db, now: now}
}

// Record records today's figures and replaces earlier ones of the same day. free is the free space
// of the store in bytes; nil: unknown. It may be repeated and run concurrently; the last call wins.
func (g *Growth) Record(ctx context.Context, free *drive.ByteSize) error {
	d := g.today()
	d.Free = free
	err := g.db.QueryRow(ctx, "SELECT COUNT(*), COALESCE(SUM(finished), 0), COALESCE(SUM(unfinished), 0) FROM ledgers").Scan(&d.Accounts, &d.Finished, &d.Unfinished)
	if err != nil {
		return fmt.Errorf("add up the ledgers: %w", err)
	}
	return g.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		made, err := tx.InsertNew(ctx, "INSERT INTO growth (day, at, accounts, finished, unfinished, free) VALUES (?, ?, ?, ?, ?, ?)",
			d.Day, d.At, d.Accounts, d.Finished, d.Unfinished, d.Free)
		if err == nil && !made {
			_, err = tx.Exec(ctx, "UPDATE growth SET at = ?, accounts = ?, finished = ?, unfinished = ?, free = ? WHERE day = ?",
				d.At, d.Accounts, d.Finished, d.Unfinished, d.Free, d.Day)
		}
		if err != nil {
			return fmt.Errorf("record the figures of %s: %w", d.Day, err)
		}
		return nil
	})
}

// List returns the figures of the last days, today included, oldest first. Days without figures are
// missing, and so are future days written by a clock that was ahead.
func (g *Growth) List(ctx context.Context, days int) ([]Day, error) {
	today := g.now().UTC()
	since := today.AddDate(0, 0, 1-days).Format(time.DateOnly)
	rows, err := g.db.Query(ctx, "SELECT day, at, accounts, finished, unfinished, free FROM growth WHERE day >= ? AND day <= ? ORDER BY day", since, today.Format(time.DateOnly))
	all, err := sqldb.Scan(rows, err, func(d *Day, scan func(...any) error) error {
		return scan(&d.Day, &d.At, &d.Accounts, &d.Finished, &d.Unfinished, &d.Free)
	})
	if err != nil {
		return nil, fmt.Errorf("list the days since %s: %w", since, err)
	}
	return all, nil
}

// today returns a Day for now without figures.
func (g *Growth) today() Day {
	now := g.now().UTC()
	return Day{Day: now.Format(time.DateOnly), At: drive.TimeOf(now)}
}
