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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	verifyRows  = 4000 // rows compared at a time
	verifyTries = 5    // attempts to compare a differing row, each after applying pending changes
	maxShown    = 4096 // bytes of a value stored in a mismatch
)

// matcher compares both sides row by row, at the pace of filling in.
type matcher struct {
	*filler
	apply *applier
}

// Verify requests a full comparison of the rows of both sides, which Run performs. A running
// comparison continues. It returns WrongState outside of phases 1 to 4 and if rows do not move, and
// Unavailable if the other side cannot be reached.
func (m *matcher) Verify(ctx context.Context) error {
	v, err := m.refresh(ctx)
	switch {
	case err != nil:
		return err
	case v == nil || v.primary == nil || v.Phase == Freeze || v.Phase == NewOnly:
		return wrongState("there is nothing to compare now")
	case v.Peer == "":
		return wrongState("rows do not move")
	case v.other == nil:
		return drive.Wrap(errors.New("the other side cannot be reached"), drive.Unavailable)
	}
	now, err := v.primary.DB.Now(ctx)
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
	return v.primary.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		// Only the latest comparison counts, and ids do not order them: a clock may have been set
		// back.
		if _, err := tx.Exec(ctx, "DELETE FROM migration_checksums WHERE migration = ?", v.Migration); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO migration_checksums (id, migration, marker, term, state, row_count, unequal, digest, begun_at, ended_at)
			VALUES (?, ?, ?, ?, 'running', 0, 0, '', ?, 0)`, drive.NewID[drive.OperationID]().String(), v.Migration, v.Marker, v.Term, now)
		return err
	})
}

// checksum is a row of migration_checksums: a full comparison.
type checksum struct {
	id, migration, marker string
	term                  int64
	state                 string // running or done
	rows, unequal         int64
	digest                string
	begun, ended          drive.Time
}

// lastChecksum returns the latest comparison of this migration, running or ended. Without one it
// returns the zero checksum, whose id is empty.
func (m *matcher) lastChecksum(ctx context.Context, v *snapshot) (c checksum, err error) {
	err = v.primary.DB.QueryRow(ctx, `SELECT id, migration, marker, term, state, row_count, unequal, digest, begun_at, ended_at FROM migration_checksums
		WHERE migration = ? ORDER BY id DESC LIMIT 1`, v.Migration).
		Scan(&c.id, &c.migration, &c.marker, &c.term, &c.state, &c.rows, &c.unequal, &c.digest, &c.begun, &c.ended)
	if drive.IsKind(err, drive.NotFound) {
		return checksum{}, nil
	}
	return c, err
}

// verify continues the requested comparison from its save points to its end and stores the result.
// It does nothing if none is running, and ends one from before a switch. An error leaves it
// running; the next call continues.
func (m *matcher) verify(ctx context.Context, v *snapshot) error {
	c, err := m.lastChecksum(ctx, v)
	if err != nil || c.state != "running" {
		return err
	}
	if c.term != v.Term { // begun in the other direction
		return m.endChecksum(ctx, v, c, nil)
	}
	points, err := savePoints(ctx, v.other.DB, "check")
	if err != nil {
		return err
	}
	for i := range m.tables {
		source, target := m.tablesFor(v.primary)[i], m.tablesFor(v.other)[i]
		p := points[source.name]
		p.table = source.name
		if err := m.verifyTable(ctx, comparison{v, c.id, source, target, &c.unequal}, &p); err != nil {
			return fmt.Errorf("compare %s: %w", source.name, err)
		}
		points[source.name] = p
	}
	return m.endChecksum(ctx, v, c, points)
}

// comparison is a table of both sides in a full comparison.
type comparison struct {
	*snapshot
	id             string // id of the full comparison
	source, target *table
	unequal        *int64 // unequal rows found so far
}

// endChecksum ends a comparison. nil points mean that it began in the other direction; its result
// is then unknown and counts as unequal.
func (m *matcher) endChecksum(ctx context.Context, v *snapshot, c checksum, points map[string]savePoint) error {
	unknown := flag(points == nil)
	var rows int64
	var digests []string
	for _, t := range m.tables {
		rows += points[t.name].done
		digests = append(digests, t.name, points[t.name].digest)
	}
	now, err := v.primary.DB.Now(ctx)
	if err != nil {
		return err
	}
	return v.primary.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE migration_checksums SET state = 'done', row_count = ?, unequal = unequal + ?, digest = ?, ended_at = ? WHERE id = ? AND state = 'running'",
			rows, unknown, hashParts(digests...), now, c.id)
		if err != nil || points == nil {
			return err
		}
		var unequal int64
		if err := tx.QueryRow(ctx, "SELECT unequal FROM migration_checksums WHERE id = ?", c.id).Scan(&unequal); err != nil || unequal > 0 {
			return err
		}
		// All rows are equal now, so the mismatches of earlier comparisons are repaired.
		_, err = tx.Exec(ctx, "UPDATE migration_mismatches SET explained = 1 WHERE migration = ? AND source = 'checksum'", v.Migration)
		return err
	})
}

// verifyTable compares a table from its save point on, in key ranges chosen by the primary's rows.
// It reads the next range of the primary while it reads the secondary's range.
func (m *matcher) verifyTable(ctx context.Context, c comparison, p *savePoint) error {
	if p.ended {
		return nil
	}
	v, source, target := c.snapshot, c.source, c.target
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := source.digestAsync(ctx, v.primary.DB, p.last)
	for !p.ended {
		begun := time.Now()
		ours := <-next
		if ours.err != nil {
			return ours.err
		}
		if err := m.checkRunning(ctx, v); err != nil {
			return err
		}
		p.ended = ours.rows < verifyRows
		high := ours.last
		if p.ended {
			high = ""
		} else {
			next = source.digestAsync(ctx, v.primary.DB, high)
		}
		theirs := target.digest(ctx, v.other.DB, p.last, high, 0)
		if theirs.err != nil {
			return theirs.err
		}
		if theirs.sum != ours.sum {
			if err := m.recheckRange(ctx, c, p.last, high); err != nil {
				return err
			}
		}
		p.last, p.done, p.digest = ours.last, p.done+int64(ours.rows), hashParts(p.digest, hex.EncodeToString(ours.sum[:]))
		err := v.other.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return p.save(ctx, tx, "check") })
		if err != nil {
			return err
		}
		if err := m.throttle(ctx, ours.rows, ours.bytes, begun); err != nil {
			return err
		}
	}
	return nil
}

// rangeDigest is the digest of a key range.
type rangeDigest struct {
	sum   [sha256.Size]byte // over the rows in key order
	rows  int               // number of rows
	bytes int               // size of the hashed rows
	last  string            // key of the last row; if there is none, the key before the range
	err   error
}

// digestAsync runs digest in a goroutine. Cancel ctx if the result is not received.
func (t *table) digestAsync(ctx context.Context, q sqldb.Querier, last string) <-chan rangeDigest {
	out := make(chan rangeDigest, 1)
	go func() { out <- t.digest(ctx, q, last, "", verifyRows) }()
	return out
}

// digest hashes the rows after the key last up to the key high (empty: the end), at most limit rows
// (0: all). Each value is hashed with its length, so that different rows have different inputs.
func (t *table) digest(ctx context.Context, q sqldb.Querier, last, high string, limit int) (p rangeDigest) {
	p.last = last
	where, args, err := t.rangeCond(last, high)
	if err == nil {
		where += " ORDER BY " + strings.Join(t.columnNames(t.key), ", ")
		if limit > 0 {
			where, args = where+" LIMIT ?", append(args, limit)
		}
		err = t.hash(ctx, q, where, args, &p)
	}
	p.err = err
	return p
}

// hash sets p to the digest, number and size of the rows that the condition where selects, and to
// the key of the last. where also determines their order. No rows leave p.last unchanged.
func (t *table) hash(ctx context.Context, q sqldb.Querier, where string, args []any, p *rangeDigest) error {
	rows, err := q.Query(ctx, "SELECT "+t.columnList()+" FROM "+quote(t.name)+" WHERE "+where, args...)
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
			buf = append(appendUint64(append(buf, 1), uint64(len(v.text))), v.text...)
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

// cell scans a value as text, which is the same on both sides, into reused memory.
type cell struct {
	null bool
	text []byte // common text form; reused by the next row
}

// Scan sets the cell to v in the text form common to both databases, and reuses its memory
// (sql.Scanner). It never fails.
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
		c.text = append(c.text, textOf(commonValue(v))...)
	}
	return nil
}

// rangeCond returns an SQL condition, with its arguments, for the rows after the key last up to and
// including the key high. An empty last is the beginning, an empty high the end of the table.
func (t *table) rangeCond(last, high string) (where string, args []any, err error) {
	if where, args, err = t.afterCond(last); err != nil || high == "" {
		return where, args, err
	}
	upTo, more, err := t.upToCond(high)
	return where + " AND " + upTo, append(args, more...), err
}

// readRange returns the rows after the key last up to and including the key high. An empty last is
// the beginning, an empty high the end of the table. It fails if last or high is not a key of the
// table.
func (t *table) readRange(ctx context.Context, q sqldb.Querier, last, high string) ([]row, error) {
	where, args, err := t.rangeCond(last, high)
	if err != nil {
		return nil, err
	}
	return t.readRows(ctx, q, "WHERE "+where, args...)
}

// recheckRange compares the rows of a differing range one by one, because they may have changed
// between the two reads. It stores the mismatches that remain.
func (m *matcher) recheckRange(ctx context.Context, c comparison, last, high string) error {
	v, source, target := c.snapshot, c.source, c.target
	ours, err := source.readRange(ctx, v.primary.DB, last, high)
	if err != nil {
		return err
	}
	theirs, err := target.readRange(ctx, v.other.DB, last, high)
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
		if *c.unequal >= maxNoted { // with so many mismatches, the rest is counted without a second look
			more++
			continue
		}
		a, b, err := m.recheckRow(ctx, v, source, target, k)
		if err != nil {
			return err
		}
		if equalRows(a, b) {
			continue
		}
		x := Mismatch{Source: "checksum", Subject: source.name + " " + k, Ours: formatRow(a), Theirs: formatRow(b)}
		if err := m.noteRowMismatch(ctx, v, c.id, x); err != nil {
			return err
		}
		*c.unequal++
	}
	if more == 0 {
		return nil
	}
	*c.unequal += more
	return v.primary.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return countUnequal(ctx, tx, c.id, more) })
}

// recheckRow compares one row until it is equal, at most verifyTries times, each after applying
// pending changes.
func (m *matcher) recheckRow(ctx context.Context, v *snapshot, source, target *table, k string) (ours, theirs row, err error) {
	for range verifyTries {
		if err := m.apply.applyPending(ctx); err != nil {
			return nil, nil, err
		}
		a, err := source.readKeys(ctx, v.primary.DB, []string{k})
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

// truncateValue truncates a value to maxShown bytes.
func truncateValue(s string) string { return truncate(s, maxShown) }

// truncate truncates a text to limit bytes of valid UTF-8.
func truncate(s string, limit int) string { return strings.ToValidUTF8(s[:min(len(s), limit)], "") }

// formatRow returns a row as JSON for a mismatch, values that are not UTF-8 in hex, and "no row"
// for nil.
func formatRow(r row) string {
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
