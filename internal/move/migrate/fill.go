package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	fillBytes  = 1 << 20 // approximate bytes of a chunk: a transaction of some tens of milliseconds
	fillRows   = 2000    // most rows of a chunk
	firstChunk = 16      // rows of the first chunk, before their size is known
)

// savePoint is a row of migration_progress: the progress of filling or checking one table.
type savePoint struct {
	table  string
	last   string // key of the last row done; empty: none
	done   int64  // number of rows
	total  int64  // approximate number of rows at the start
	ended  bool
	digest string // of the rows compared so far; only of a comparison
}

// savePoints returns the save points of a kind ("fill" or "check") by table. Tables that were not
// begun are absent.
func savePoints(ctx context.Context, q sqldb.Querier, kind string) (map[string]savePoint, error) {
	rows, err := q.Query(ctx, "SELECT tbl, last, done, total, ended, digest FROM migration_progress WHERE kind = ?", kind)
	all, err := sqldb.Scan(rows, err, func(p *savePoint, scan func(...any) error) error {
		return scan(&p.table, &p.last, &p.done, &p.total, &p.ended, &p.digest)
	})
	if err != nil {
		return nil, fmt.Errorf("read how far it is: %w", err)
	}
	out := map[string]savePoint{}
	for _, p := range all {
		out[p.table] = p
	}
	return out, nil
}

// save inserts or replaces, within tx, the save point of its table for kind: "fill" or "check".
func (p savePoint) save(ctx context.Context, tx *sqldb.Tx, kind string) error {
	_, err := tx.Exec(ctx, "REPLACE INTO migration_progress (kind, tbl, last, done, total, ended, digest) VALUES (?, ?, ?, ?, ?, ?, ?)",
		kind, p.table, p.last, p.done, p.total, flag(p.ended), p.digest)
	return err
}

// filler copies to the secondary the rows that existed before the triggers, at the configured pace.
// The triggers capture all later changes.
type filler struct {
	*sides
	rate meter
}

// fill copies the tables of the primary to the secondary, in key order and at the pace. It
// continues from the stored save points, of whatever process. It returns nil when all tables are
// copied, and errStop if the migration is paused or has changed. After any error a later call
// continues.
func (f *filler) fill(ctx context.Context, v *snapshot) error {
	points, err := savePoints(ctx, v.other.DB, "fill")
	if err != nil {
		return err
	}
	for i := range f.tables {
		source, target := f.tablesFor(v.primary)[i], f.tablesFor(v.other)[i]
		p, begun := points[source.name]
		if p.ended {
			continue
		}
		p.table = source.name
		if !begun {
			p.total = Count(ctx, v.primary.DB, source.name)
		}
		if err := f.fillTable(ctx, v, source, target, p); err != nil {
			return fmt.Errorf("fill in %s: %w", source.name, err)
		}
	}
	return nil
}

// fillTable copies a table from its save point on, and stores the save point with each chunk. It
// returns errStop when it must stop.
func (f *filler) fillTable(ctx context.Context, v *snapshot, source, target *table, p savePoint) error {
	for limit := firstChunk; !p.ended; {
		if err := f.checkRunning(ctx, v); err != nil {
			return err
		}
		begun := time.Now()
		rows, err := source.chunk(ctx, v.primary.DB, p.last, limit)
		if err != nil {
			return err
		}
		p.done += int64(len(rows))
		p.ended = len(rows) < limit
		size := 1
		for _, r := range rows {
			size += r.size()
		}
		if len(rows) > 0 {
			p.last = source.keyOf(rows[len(rows)-1])
			limit = min(fillRows, max(1, fillBytes*len(rows)/size))
		}
		if err := f.fillChunk(ctx, v, target, rows, p); err != nil {
			return err
		}
		if err := f.throttle(ctx, len(rows), size, begun); err != nil {
			return err
		}
	}
	return nil
}

// chunk returns up to limit rows by primary key, beginning after the key last, or with the first
// row if last is empty. Fewer than limit rows are the end of the table. It fails if last is not a
// key of the table.
func (t *table) chunk(ctx context.Context, q sqldb.Querier, last string, limit int) ([]row, error) {
	where, args, err := t.afterCond(last)
	if err != nil {
		return nil, err
	}
	return t.readRows(ctx, q, "WHERE "+where+" ORDER BY "+strings.Join(t.columnNames(t.key), ", ")+" LIMIT ?", append(args, limit)...)
}

// fillChunk inserts into the secondary those rows that are absent there, and stores the save point
// p, in one transaction. It leaves out rows with a version: these have changed since they were
// read, and their change is applied separately. A row that conflicts with a unique key is skipped:
// one of the two rows has changed since. It returns errMoved if the direction has changed.
func (f *filler) fillChunk(ctx context.Context, v *snapshot, t *table, rows []row, p savePoint) error {
	return v.other.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		target, err := readRecord(ctx, tx, tx.ForUpdate())
		if err != nil {
			return err
		}
		if target.Role != secondary || target.Migration != v.Migration {
			return errMoved
		}
		if err := setApplying(ctx, tx, 1); err != nil {
			return err
		}
		absent, err := t.unversioned(ctx, tx, rows)
		if err != nil {
			return err
		}
		if err := t.insertAll(ctx, tx, absent); sqldb.IsDuplicate(err) {
			err = t.insertAbsent(ctx, tx, absent)
			if err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		if err := p.save(ctx, tx, "fill"); err != nil {
			return err
		}
		return setApplying(ctx, tx, 0)
	})
}

// unversioned returns those of rows that have no version at the side of tx, so that no newer state
// was written there. It may return the slice rows itself.
func (t *table) unversioned(ctx context.Context, tx *sqldb.Tx, rows []row) ([]row, error) {
	keys := make([]string, len(rows))
	for i, r := range rows {
		keys[i] = t.keyOf(r)
	}
	have, err := versions(ctx, tx, t.name, keys)
	if err != nil || len(have) == 0 {
		return rows, err
	}
	out := make([]row, 0, len(rows))
	for i, r := range rows {
		if _, ok := have[keys[i]]; !ok {
			out = append(out, r)
		}
	}
	return out, nil
}

// insertAbsent inserts rows one by one and skips those that violate the primary or a unique key. It
// returns the first other error.
func (t *table) insertAbsent(ctx context.Context, tx *sqldb.Tx, rows []row) error {
	for _, r := range rows {
		if err := t.insert(ctx, tx, r); err != nil && !sqldb.IsDuplicate(err) {
			return err
		}
	}
	return nil
}

// errStop reports that filling or comparing must stop.
var errStop = errors.New("the migration has moved on, or is paused")

// checkRunning returns errStop if the migration is paused or has changed its phase or direction,
// and Stopping if ctx has ended.
func (f *filler) checkRunning(ctx context.Context, v *snapshot) error {
	if err := ctx.Err(); err != nil {
		return drive.Wrap(err, drive.Stopping)
	}
	now := f.currentSnapshot()
	if now == nil || now.Paused || now.Migration != v.Migration || now.Term != v.Term || now.primary != v.primary || now.other == nil {
		return errStop
	}
	return nil
}

// throttle waits to keep the pace. It waits in steps of throttleStep, so that a new pace takes
// effect soon.
func (f *filler) throttle(ctx context.Context, rows, bytes int, begun time.Time) error {
	f.rate.add(rows)
	for {
		left := time.Until(begun.Add(f.notes().pace.due(rows, bytes)))
		if left <= 0 {
			return nil
		}
		if err := wait(ctx, min(left, throttleStep)); err != nil {
			return err
		}
	}
}

// throttleStep is the longest wait before the pace is read again.
const throttleStep = time.Second

// due returns how long copying so many rows and bytes should take at least. A zero limit is none.
func (p Pace) due(rows, bytes int) time.Duration {
	var d time.Duration
	if p.Rows > 0 {
		d = time.Duration(float64(rows) / float64(p.Rows) * float64(time.Second))
	}
	if p.Bytes > 0 {
		d = max(d, time.Duration(float64(bytes)/float64(p.Bytes)*float64(time.Second)))
	}
	return d
}
