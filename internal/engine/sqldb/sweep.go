package sqldb

import (
	"context"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/drive"
)

// Sweep deletes old rows of a table with an increasing integer key. Keys are roughly in the order
// of time, so old rows come first, and most runs read only those. Rows with a time in the future,
// from a wrong clock, may precede old rows. So a run also examines ReadOnly newer rows, and the
// next run continues after them.
type Sweep struct {
	Table       string
	Time        string // the column with the time of the row
	Where       string // condition for deletable rows, with placeholders for Args; empty: all
	Args        []any  // of Where
	Batch       int    // rows per page and transaction
	MaxExamined int    // rows on pages without old rows that a run examines
}

// Run deletes rows older than before. looked is the upTo of the last run, 0 at first. A run that
// reaches the end of the table returns upTo = 0.
func (s Sweep) Run(ctx context.Context, db *DB, before drive.Time, looked int64) (deleted, upTo int64, err error) {
	for young := 0; young < s.MaxExamined; {
		p, err := s.page(ctx, db, upTo, before)
		if deleted += p.deleted; err != nil {
			return deleted, looked, fmt.Errorf("sweep %s: %w", s.Table, err)
		}
		if p.rows == 0 {
			return deleted, 0, nil
		}
		upTo = p.last
		if !p.old {
			if young == 0 {
				upTo = max(upTo, looked)
			}
			young += p.rows
		}
	}
	return deleted, upTo, nil
}

// sweptPage is what Sweep.page has read and deleted.
type sweptPage struct {
	rows    int   // rows read; 0: the table has ended
	last    int64 // key
	old     bool  // contained old rows, now deleted
	deleted int64
}

// page reads the next s.Batch rows with ids above after and deletes, in a transaction of its own,
// those older than before. It returns how many rows it read, the last id, whether any was old, and
// how many it deleted. p.rows is 0 at the end of the table; after an error p.deleted is 0 although
// rows may be deleted.
func (s Sweep) page(ctx context.Context, db *DB, after int64, before drive.Time) (p sweptPage, err error) {
	type row struct {
		id int64
		at drive.Time
	}
	where := ""
	if s.Where != "" {
		where = s.Where + " AND "
	}
	rows, err := db.Query(ctx, "SELECT id, "+s.Time+" FROM "+s.Table+" WHERE "+where+"id > ? ORDER BY id LIMIT ?",
		append(slices.Clone(s.Args), after, s.Batch)...)
	all, err := Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.id, &r.at) })
	if err != nil || len(all) == 0 {
		return p, err
	}
	p.rows, p.last = len(all), all[len(all)-1].id
	if p.old = slices.ContainsFunc(all, func(r row) bool { return r.at < before }); !p.old {
		return p, nil
	}
	err = db.Write(ctx, func(ctx context.Context, tx *Tx) (err error) {
		p.deleted, err = tx.DeleteBatch(ctx, Batch{
			Table: s.Table, Key: "id", Limit: s.Batch,
			Where: where + "id > ? AND id <= ? AND " + s.Time + " < ?", Args: append(slices.Clone(s.Args), after, p.last, before),
		})
		return err
	})
	if err != nil {
		p.deleted = 0
	}
	return p, err
}
