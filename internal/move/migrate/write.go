package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"example.org/smartdrive/internal/engine/sqldb"
)

// Writes to rows of the secondary, in a transaction that has locked its row of migration_side.

// maxStatement is the most bytes of rows per statement; servers accept at least 16 MiB.
const maxStatement = 1 << 20

// deleteKeys deletes the rows with these keys within tx. Missing rows, and no keys, are no error.
// It does not change versions.
func (t *table) deleteKeys(ctx context.Context, tx *sqldb.Tx, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	where, args, err := t.keysCond(tx.Dialect(), keys)
	if err != nil {
		return err
	}
	if _, err = tx.Exec(ctx, "DELETE FROM "+quote(t.name)+" WHERE "+where, args...); err != nil {
		return fmt.Errorf("delete from %s: %w", t.name, err)
	}
	return nil
}

// insert inserts a row within tx. A duplicate key is returned unwrapped; see sqldb.IsDuplicate.
func (t *table) insert(ctx context.Context, tx *sqldb.Tx, r row) error {
	_, err := tx.Exec(ctx, "INSERT INTO "+quote(t.name)+" ("+t.columnList()+") VALUES ("+sqldb.Placeholders(len(t.cols))+")", t.args(r)...)
	if err != nil && !sqldb.IsDuplicate(err) {
		return fmt.Errorf("insert into %s: %w", t.name, err)
	}
	return err
}

// insertAll inserts rows. On a duplicate key it returns that error, and some rows may be inserted.
// SQLite gets one prepared statement per row, because it has no network round trips.
func (t *table) insertAll(ctx context.Context, tx *sqldb.Tx, rows []row) error {
	if tx.Dialect() == sqldb.SQLite {
		for _, r := range rows {
			if err := t.insert(ctx, tx, r); err != nil {
				return err
			}
		}
		return nil
	}
	for len(rows) > 0 {
		n, size := 0, 0
		for n < len(rows) && (n == 0 || size+rows[n].size() < maxStatement) {
			size += rows[n].size()
			n++
		}
		one := "(" + sqldb.Placeholders(len(t.cols)) + ")"
		args := make([]any, 0, n*len(t.cols))
		for _, r := range rows[:n] {
			args = append(args, t.args(r)...)
		}
		_, err := tx.Exec(ctx, "INSERT INTO "+quote(t.name)+" ("+t.columnList()+") VALUES "+strings.TrimSuffix(strings.Repeat(one+", ", n), ", "), args...)
		if err != nil {
			return fmt.Errorf("insert into %s: %w", t.name, err)
		}
		rows = rows[n:]
	}
	return nil
}

// size returns the approximate number of bytes of a row.
func (r row) size() int {
	n := 0
	for _, v := range r {
		n += 10
		if s, ok := v.(string); ok {
			n += len(s)
		}
	}
	return n
}

// conflictingKeys returns the keys of other rows that share a unique key with r, reading within tx.
// A unique key with a NULL conflicts with none.
func (t *table) conflictingKeys(ctx context.Context, tx *sqldb.Tx, r row) ([]string, error) {
	var found []string
	for _, u := range t.unique {
		args, null := []any{}, false
		for _, p := range u {
			args = append(args, t.cols[p].dbValue(r[p]))
			null = null || r[p] == nil
		}
		if null { // NULLs are distinct
			continue
		}
		rows, err := t.readRows(ctx, tx, "WHERE "+t.equalsCond(u), args...)
		if err != nil {
			return nil, err
		}
		for _, o := range rows {
			if k := t.keyOf(o); k != t.keyOf(r) {
				found = append(found, k)
			}
		}
	}
	return found, nil
}

// versions returns the versions of the rows of table by key, reading within tx. Rows that were
// never replicated, and no keys, are absent.
func versions(ctx context.Context, tx *sqldb.Tx, table string, keys []string) (map[string]int64, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	size := 1
	for size < len(keys) {
		size *= 2
	}
	args := []any{table}
	for i := range size {
		args = append(args, keys[min(i, len(keys)-1)])
	}
	type version struct {
		key string
		n   int64
	}
	rows, err := tx.Query(ctx, "SELECT k, version FROM migration_versions WHERE tbl = ? AND k IN ("+sqldb.Placeholders(size)+")", args...)
	all, err := sqldb.Scan(rows, err, func(v *version, scan func(...any) error) error { return scan(&v.key, &v.n) })
	if err != nil {
		return nil, fmt.Errorf("read versions: %w", err)
	}
	out := make(map[string]int64, len(all))
	for _, v := range all {
		out[v.key] = v.n
	}
	return out, nil
}

// writeVersions stores the versions of rows. REPLACE is safe: there are no other writers and no
// foreign keys to these rows.
func writeVersions(ctx context.Context, tx *sqldb.Tx, table string, set []versionedRow) error {
	const head, one = "REPLACE INTO migration_versions (tbl, k, version, deleted) VALUES ", "(?, ?, ?, ?)"
	step := 200
	if tx.Dialect() == sqldb.SQLite {
		step = 1
	}
	for len(set) > 0 {
		n := min(step, len(set))
		args := make([]any, 0, 4*n)
		for _, s := range set[:n] {
			args = append(args, table, s.key, s.version, flag(s.state == nil))
		}
		if _, err := tx.Exec(ctx, head+strings.TrimSuffix(strings.Repeat(one+", ", n), ", "), args...); err != nil {
			return fmt.Errorf("record versions: %w", err)
		}
		set = set[n:]
	}
	return nil
}

// versionedRow is the state of a row at or after the change of its version.
type versionedRow struct {
	key     string
	version int64 // term and seq: the higher the newer
	state   row   // nil: deleted
}

// writeNewer writes rows of one table, each only if its version is at least the stored one (M3). So
// the result is the same for any order and any number of repetitions, once the latest version of
// each row was written.
//
// Rows that exchange a unique key may meet the old state of the other row. If the holder has an
// older version, it has lost the key since and its own change follows: it is deleted. If the holder
// has a newer version, it stays, and the late row is omitted until its newer change arrives.
func (t *table) writeNewer(ctx context.Context, tx *sqldb.Tx, all []versionedRow) error {
	keys := make([]string, len(all))
	for i, s := range all {
		keys[i] = s.key
	}
	have, err := versions(ctx, tx, t.name, keys)
	if err != nil {
		return err
	}
	same, err := t.unchanged(ctx, tx, slices.DeleteFunc(slices.Clone(all), func(s versionedRow) bool { return s.version != have[s.key] }))
	if err != nil {
		return err
	}
	fresh := slices.DeleteFunc(slices.Clone(all), func(s versionedRow) bool { return s.version < have[s.key] || same[s.key] })
	return t.replace(ctx, tx, fresh)
}

// unchanged returns, by key, whether the rows already have their new state. It is called for rows
// whose version is stored already: a primary that lost a change assigns its number again (see
// receipt.go).
func (t *table) unchanged(ctx context.Context, tx *sqldb.Tx, again []versionedRow) (map[string]bool, error) {
	keys := make([]string, len(again))
	for i, s := range again {
		keys[i] = s.key
	}
	there, err := t.readKeys(ctx, tx, keys)
	same := map[string]bool{}
	for _, s := range again {
		same[s.key] = equalRows(s.state, there[s.key])
	}
	return same, err
}

// replace deletes the rows with the keys of fresh, inserts those whose state is not nil, and stores
// their versions, within tx. Rows that conflict in a unique key are resolved by insertEach. The
// caller has checked that the versions are newer.
func (t *table) replace(ctx context.Context, tx *sqldb.Tx, fresh []versionedRow) error {
	keys, rows := make([]string, len(fresh)), make([]row, 0, len(fresh))
	for i, s := range fresh {
		keys[i] = s.key
		if s.state != nil {
			rows = append(rows, s.state)
		}
	}
	if err := t.deleteKeys(ctx, tx, keys); err != nil {
		return err
	}
	err := t.insertAll(ctx, tx, rows)
	if sqldb.IsDuplicate(err) {
		if err = t.deleteKeys(ctx, tx, keys); err == nil {
			err = t.insertEach(ctx, tx, fresh)
		}
	}
	if err != nil {
		return err
	}
	return writeVersions(ctx, tx, t.name, fresh)
}

// insertEach inserts the rows of fresh that are not deleted one by one, within tx, and resolves
// conflicts in unique keys with insertOverConflict. Rows with these keys must have been deleted.
func (t *table) insertEach(ctx context.Context, tx *sqldb.Tx, fresh []versionedRow) error {
	now := map[string]int64{} // versions of this batch, not stored yet
	for _, s := range fresh {
		now[s.key] = s.version
	}
	for _, s := range fresh {
		if s.state == nil {
			continue
		}
		err := t.insert(ctx, tx, s.state)
		if sqldb.IsDuplicate(err) {
			err = t.insertOverConflict(ctx, tx, s, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// insertOverConflict inserts a row and deletes conflicting rows with older versions. If a
// conflicting row is newer, it inserts nothing.
func (t *table) insertOverConflict(ctx context.Context, tx *sqldb.Tx, s versionedRow, now map[string]int64) error {
	held, err := t.conflictingKeys(ctx, tx, s.state)
	if err != nil {
		return err
	}
	noted, err := versions(ctx, tx, t.name, held)
	if err != nil {
		return err
	}
	for _, k := range held {
		if max(noted[k], now[k]) > s.version {
			return nil
		}
	}
	if err := t.deleteKeys(ctx, tx, held); err != nil {
		return err
	}
	return t.insert(ctx, tx, s.state)
}
