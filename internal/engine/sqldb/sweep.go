package sqldb

import (
	"context"
	"fmt"
	"slices"

	"smartdrive/internal/base/drive"
)

// Sweep deletes old rows of a table whose key, an integer, counts them up. The order of keys is
// about that of time: the old ones are the first, and most runs need only those. But rows of a
// clock that was ahead may lie before them, so a run also looks at many that have to stay, and the
// next one goes on behind those.
type Sweep struct {
	Table string
	Time  string // the column that says when a row came
	Where string // with placeholders for Args: the rows that may go; empty: all
	Args  []any
	Batch int // rows of a page, and of a transaction
	Look  int // rows, none of them old on their page, that a run reads
}

// Run deletes what is older than before. looked is what the last run returned, 0 for the first; a
// run that comes to the end returns 0.
func (s Sweep) Run(ctx context.Context, db *DB, before drive.Time, looked int64) (deleted, upTo int64, err error) {
	for young := 0; young < s.Look; {
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

// swept is a page that a Sweep has looked at.
type swept struct {
	rows    int
	last    int64 // key
	old     bool  // some were old; they are deleted
	deleted int64
}

func (s Sweep) page(ctx context.Context, db *DB, after int64, before drive.Time) (p swept, err error) {
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
