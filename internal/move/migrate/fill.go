package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

const (
	fillBytes  = 1 << 20 // of a chunk, about: a transaction of some tens of milliseconds
	fillRows   = 2000    // of a chunk, at most
	firstChunk = 16      // rows, before it is known how large they are
)

// savePoint is a row of migration_progress.
type savePoint struct {
	table  string
	last   string
	done   int64
	total  int64
	ended  bool
	digest string
}

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

func (p savePoint) save(ctx context.Context, tx *sqldb.Tx, kind string) error {
	_, err := tx.Exec(ctx, "REPLACE INTO migration_progress (kind, tbl, last, done, total, ended, digest) VALUES (?, ?, ?, ?, ?, ?, ?)",
		kind, p.table, p.last, p.done, p.total, flag(p.ended), p.digest)
	return err
}

// filler brings the rows that were there before anybody captured changes, at the pace that was
// asked for.
type filler struct {
	*both
	rate meter
}

// fill brings the rows that were there before the triggers were, table by table in the order of
// keys. It goes on where it, or another process, stopped.
func (f *filler) fill(ctx context.Context, v *view) error {
	points, err := savePoints(ctx, v.other.DB, "fill")
	if err != nil {
		return err
	}
	for i := range f.tables {
		source, target := f.shapes(v.near)[i], f.shapes(v.other)[i]
		p, begun := points[source.name]
		if p.ended {
			continue
		}
		p.table = source.name
		if !begun {
			p.total = Count(ctx, v.near.DB, source.name)
		}
		if err := f.fillTable(ctx, v, source, target, p); err != nil {
			return fmt.Errorf("fill in %s: %w", source.name, err)
		}
	}
	return nil
}

func (f *filler) fillTable(ctx context.Context, v *view, source, target *table, p savePoint) error {
	for limit := firstChunk; !p.ended; {
		if err := f.mayWork(ctx, v); err != nil {
			return err
		}
		begun := time.Now()
		rows, err := source.chunk(ctx, v.near.DB, p.last, limit)
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
		if err := f.slow(ctx, len(rows), size, begun); err != nil {
			return err
		}
	}
	return nil
}

// chunk reads the next rows behind a key.
func (t *table) chunk(ctx context.Context, q sqldb.Querier, last string, limit int) ([]row, error) {
	where, args, err := t.after(last)
	if err != nil {
		return nil, err
	}
	return t.readRows(ctx, q, "WHERE "+where+" ORDER BY "+strings.Join(t.names(t.key), ", ")+" LIMIT ?", append(args, limit)...)
}

// fillChunk inserts rows that are absent, and have no version: what was changed since it was read
// has been brought, or will be. That goes for a row, too, that meets another with its unique key:
// one of the two has changed since.
func (f *filler) fillChunk(ctx context.Context, v *view, t *table, rows []row, p savePoint) error {
	return v.other.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		target, err := readRecord(ctx, tx, tx.ForUpdate())
		if err != nil {
			return err
		}
		if target.Role != secondary || target.Migration != v.Migration {
			return errMoved
		}
		if err := mark(ctx, tx, 1); err != nil {
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
		return mark(ctx, tx, 0)
	})
}

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

func (t *table) insertAbsent(ctx context.Context, tx *sqldb.Tx, rows []row) error {
	for _, r := range rows {
		if err := t.insert(ctx, tx, r); err != nil && !sqldb.IsDuplicate(err) {
			return err
		}
	}
	return nil
}

var errStop = errors.New("the migration has moved on, or is paused")

// mayWork is an error when filling or comparing must stop: paused, or the phase or the direction is
// another.
func (f *filler) mayWork(ctx context.Context, v *view) error {
	if err := ctx.Err(); err != nil {
		return drive.Wrap(err, drive.Stopping)
	}
	now := f.known()
	if now == nil || now.Paused || now.Migration != v.Migration || now.Term != v.Term || now.near != v.near || now.other == nil {
		return errStop
	}
	return nil
}

// slow keeps to the pace. A pace that is changed meanwhile counts from the next piece on: the wait
// is cut into some of patience.
func (f *filler) slow(ctx context.Context, rows, bytes int, begun time.Time) error {
	f.rate.add(rows)
	for {
		left := time.Until(begun.Add(f.notes().pace.due(rows, bytes)))
		if left <= 0 {
			return nil
		}
		if err := sleep(ctx, min(left, patience)); err != nil {
			return err
		}
	}
}

const patience = time.Second

// due is how long so much should take.
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
