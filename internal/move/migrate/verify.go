package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

const (
	verifyRows  = 4000 // that are compared at a time
	verifyTries = 5    // looks at a row that differs, each after everything pending was applied
	maxShown    = 4096 // bytes of a value in a mismatch
)

// matcher compares both sides, row by row, at the pace that rows are filled in.
type matcher struct {
	*filler
	apply *applier
}

// Verify begins a full comparison of both sides; Run makes it. It is evidence only of the rows; one
// that has begun goes on.
func (m *matcher) Verify(ctx context.Context) error {
	v, err := m.refresh(ctx)
	switch {
	case err != nil:
		return err
	case v == nil || v.near == nil || v.Phase == Freeze || v.Phase == NewOnly:
		return wrong("there is nothing to compare now")
	case v.Peer == "":
		return wrong("rows do not move")
	case v.other == nil:
		return drive.Wrap(errors.New("the other side cannot be reached"), drive.Unavailable)
	}
	now, err := v.near.DB.Now(ctx)
	if err != nil {
		return err
	}
	if c, err := m.lastChecksum(ctx, v); err != nil || c.state == "running" {
		return err
	}
	err = v.other.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM migration_progress WHERE kind = 'check'")
		return err
	})
	if err != nil {
		return err
	}
	return v.near.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		// Only the latest counts, and ids do not say which that is: a clock may have been set back
		// between the two.
		if _, err := tx.Exec(ctx, "DELETE FROM migration_checksums WHERE migration = ?", v.Migration); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO migration_checksums (id, migration, marker, term, state, row_count, unequal, digest, begun_at, ended_at)
			VALUES (?, ?, ?, ?, 'running', 0, 0, '', ?, 0)`, drive.NewID[drive.OperationID]().String(), v.Migration, v.Marker, v.Term, now)
		return err
	})
}

// checksum is a row of migration_checksums.
type checksum struct {
	id, migration, marker string
	term                  int64
	state                 string
	rows, unequal         int64
	digest                string
	begun, ended          drive.Time
}

// lastChecksum is the latest of this migration; the zero one where there is none.
func (m *matcher) lastChecksum(ctx context.Context, v *view) (c checksum, err error) {
	err = v.near.DB.QueryRow(ctx, `SELECT id, migration, marker, term, state, row_count, unequal, digest, begun_at, ended_at FROM migration_checksums
		WHERE migration = ? ORDER BY id DESC LIMIT 1`, v.Migration).
		Scan(&c.id, &c.migration, &c.marker, &c.term, &c.state, &c.rows, &c.unequal, &c.digest, &c.begun, &c.ended)
	if drive.IsKind(err, drive.NotFound) {
		return checksum{}, nil
	}
	return c, err
}

// verify makes the comparison that was asked for, from its save points on.
func (m *matcher) verify(ctx context.Context, v *view) error {
	c, err := m.lastChecksum(ctx, v)
	if err != nil || c.state != "running" {
		return err
	}
	if c.term != v.Term { // it was begun in the other direction
		return m.endChecksum(ctx, v, c, nil)
	}
	points, err := savePoints(ctx, v.other.DB, "check")
	if err != nil {
		return err
	}
	for i := range m.tables {
		source, target := m.shapes(v.near)[i], m.shapes(v.other)[i]
		p := points[source.name]
		p.table = source.name
		if err := m.verifyTable(ctx, comparison{v, c.id, source, target, &c.unequal}, &p); err != nil {
			return fmt.Errorf("compare %s: %w", source.name, err)
		}
		points[source.name] = p
	}
	return m.endChecksum(ctx, v, c, points)
}

// comparison is a table of both sides, and the full comparison that looks at it.
type comparison struct {
	*view
	id             string
	source, target *table
	unequal        *int64 // rows that it has found so far
}

// endChecksum ends a comparison. Without points it was of the other direction, and nothing is
// known.
func (m *matcher) endChecksum(ctx context.Context, v *view, c checksum, points map[string]savePoint) error {
	unknown := flag(points == nil)
	var rows int64
	var digests []string
	for _, t := range m.tables {
		rows += points[t.name].done
		digests = append(digests, t.name, points[t.name].digest)
	}
	now, err := v.near.DB.Now(ctx)
	if err != nil {
		return err
	}
	return v.near.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE migration_checksums SET state = 'done', row_count = ?, unequal = unequal + ?, digest = ?, ended_at = ? WHERE id = ? AND state = 'running'",
			rows, unknown, sum(digests...), now, c.id)
		if err != nil || points == nil {
			return err
		}
		var unequal int64
		if err := tx.QueryRow(ctx, "SELECT unequal FROM migration_checksums WHERE id = ?", c.id).Scan(&unequal); err != nil || unequal > 0 {
			return err
		}
		// What earlier comparisons found is repaired.
		_, err = tx.Exec(ctx, "UPDATE migration_mismatches SET explained = 1 WHERE migration = ? AND source = 'checksum'", v.Migration)
		return err
	})
}

// verifyTable compares a table from its save point on, in ranges of keys that the primary's rows
// say. While the secondary's part of a range is read, the primary's part of the next one is.
func (m *matcher) verifyTable(ctx context.Context, c comparison, p *savePoint) error {
	if p.ended {
		return nil
	}
	v, source, target := c.view, c.source, c.target
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := source.ahead(ctx, v.near.DB, p.last)
	for !p.ended {
		begun := time.Now()
		ours := <-next
		if ours.err != nil {
			return ours.err
		}
		if err := m.mayWork(ctx, v); err != nil {
			return err
		}
		p.ended = ours.rows < verifyRows
		high := ours.last
		if p.ended {
			high = ""
		} else {
			next = source.ahead(ctx, v.near.DB, high)
		}
		theirs := target.digest(ctx, v.other.DB, p.last, high, 0)
		if theirs.err != nil {
			return theirs.err
		}
		if theirs.sum != ours.sum {
			if err := m.suspect(ctx, c, p.last, high); err != nil {
				return err
			}
		}
		p.last, p.done, p.digest = ours.last, p.done+int64(ours.rows), sum(p.digest, hex.EncodeToString(ours.sum[:]))
		err := v.other.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return p.save(ctx, tx, "check") })
		if err != nil {
			return err
		}
		if err := m.slow(ctx, ours.rows, ours.bytes, begun); err != nil {
			return err
		}
	}
	return nil
}

// part is what a range of a table comes to.
type part struct {
	sum   [sha256.Size]byte // of its rows in their order
	rows  int
	bytes int
	last  string // the key of the last row; where there is none, the one before the range
	err   error
}

// ahead is digest beside the caller. It ends by itself when ctx does.
func (t *table) ahead(ctx context.Context, q sqldb.Querier, last string) <-chan part {
	out := make(chan part, 1)
	go func() { out <- t.digest(ctx, q, last, "", verifyRows) }()
	return out
}

// digest hashes the rows behind one key and up to another (empty: the end), or the first limit of
// them (0: all): each value with its length, so that no two rows look alike. It copies none.
func (t *table) digest(ctx context.Context, q sqldb.Querier, last, high string, limit int) (p part) {
	p.last = last
	where, args, err := t.rangeOf(last, high)
	if err == nil {
		where += " ORDER BY " + strings.Join(t.names(t.key), ", ")
		if limit > 0 {
			where, args = where+" LIMIT ?", append(args, limit)
		}
		err = t.hash(ctx, q, where, args, &p)
	}
	p.err = err
	return p
}

func (t *table) hash(ctx context.Context, q sqldb.Querier, where string, args []any, p *part) error {
	rows, err := q.Query(ctx, "SELECT "+t.columns()+" FROM "+quote(t.name)+" WHERE "+where, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	vals, dest := make([]cell, len(t.cols)), make([]any, len(t.cols))
	for i := range vals {
		dest[i] = &vals[i]
	}
	key := make([][]byte, len(t.key))
	h := sha256.New()
	var buf []byte
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		buf = buf[:0]
		for _, v := range vals {
			if v.null {
				buf = append(buf, 0)
				continue
			}
			buf = append(binary8(append(buf, 1), uint64(len(v.text))), v.text...)
		}
		_, _ = h.Write(buf)
		p.bytes += len(buf)
		for i, c := range t.key {
			key[i] = append(key[i][:0], vals[c].text...)
		}
		p.rows++
	}
	if p.rows > 0 {
		p.last = keyText(key)
	}
	h.Sum(p.sum[:0])
	return rows.Err()
}

// cell is a value as its text, which is the same on both sides. Its memory is used again.
type cell struct {
	null bool
	text []byte
}

// Scan implements sql.Scanner.
func (c *cell) Scan(v any) error {
	c.null, c.text = v == nil, c.text[:0]
	switch v := v.(type) {
	case nil:
	case []byte:
		c.text = append(c.text, v...)
	case string:
		c.text = append(c.text, v...)
	case int64:
		c.text = strconv.AppendInt(c.text, v, 10)
	default:
		c.text = append(c.text, plain(canonical(v))...)
	}
	return nil
}

// rangeOf is a condition for the rows behind one key and up to another.
func (t *table) rangeOf(last, high string) (where string, args []any, err error) {
	if where, args, err = t.after(last); err != nil || high == "" {
		return where, args, err
	}
	upTo, more, err := t.upTo(high)
	return where + " AND " + upTo, append(args, more...), err
}

// between reads the rows of a range.
func (t *table) between(ctx context.Context, q sqldb.Querier, last, high string) ([]row, error) {
	where, args, err := t.rangeOf(last, high)
	if err != nil {
		return nil, err
	}
	return t.readRows(ctx, q, "WHERE "+where, args...)
}

// suspect looks again at the rows of a range that differ, which may have changed between the two
// reads.
func (m *matcher) suspect(ctx context.Context, c comparison, last, high string) error {
	v, source, target := c.view, c.source, c.target
	ours, err := source.between(ctx, v.near.DB, last, high)
	if err != nil {
		return err
	}
	theirs, err := target.between(ctx, v.other.DB, last, high)
	if err != nil {
		return err
	}
	differ := map[string]row{}
	for _, r := range ours {
		differ[source.keyOf(r)] = r
	}
	for _, r := range theirs {
		k := target.keyOf(r)
		if o, ok := differ[k]; ok && equalRows(o, r) {
			delete(differ, k)
		} else if !ok {
			differ[k] = nil
		}
	}
	var more int64
	for k := range differ {
		if *c.unequal >= maxNoted { // it proves nothing any more, and so many rows need not be looked at for sure
			more++
			continue
		}
		a, b, err := m.lookTwice(ctx, v, source, target, k)
		if err != nil {
			return err
		}
		if equalRows(a, b) {
			continue
		}
		x := Mismatch{Source: "checksum", Subject: source.name + " " + k, Ours: show(a), Theirs: show(b)}
		if err := m.noteOf(ctx, v, c.id, x); err != nil {
			return err
		}
		*c.unequal++
	}
	if more == 0 {
		return nil
	}
	*c.unequal += more
	return v.near.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return countUnequal(ctx, tx, c.id, more) })
}

// lookTwice compares one row until it is equal, or differs although nothing of it is pending.
func (m *matcher) lookTwice(ctx context.Context, v *view, source, target *table, k string) (ours, theirs row, err error) {
	for range verifyTries {
		if err := m.apply.now(ctx); err != nil {
			return nil, nil, err
		}
		a, err := source.readKeys(ctx, v.near.DB, []string{k})
		if err != nil {
			return nil, nil, err
		}
		b, err := target.readKeys(ctx, v.other.DB, []string{k})
		if err != nil {
			return nil, nil, err
		}
		if ours, theirs = a[k], b[k]; equalRows(ours, theirs) {
			return ours, theirs, nil
		}
	}
	return ours, theirs, nil
}

func cut(s string) string { return cutTo(s, maxShown) }

func cutTo(s string, limit int) string { return strings.ToValidUTF8(s[:min(len(s), limit)], "") }

func show(r row) string {
	if r == nil {
		return "no row"
	}
	r = slices.Clone(r)
	for i, v := range r {
		if s, ok := v.(string); ok && strings.ToValidUTF8(s, "") != s {
			r[i] = "hex " + hex.EncodeToString([]byte(s))
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Sprint([]any(r)...)
	}
	return string(b)
}
