package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"smartdrive/internal/engine/sqldb"
)

// What is done to rows of the secondary, within a transaction that has locked its migration_side.

// maxStatement bounds the bytes of a list of rows: servers take 16 MiB and more at once.
const maxStatement = 1 << 20

// deleteKeys deletes rows by their keys.
func (t *table) deleteKeys(ctx context.Context, tx *sqldb.Tx, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	where, args, err := t.inKeys(tx.Dialect(), keys)
	if err != nil {
		return err
	}
	if _, err = tx.Exec(ctx, "DELETE FROM "+quote(t.name)+" WHERE "+where, args...); err != nil {
		return fmt.Errorf("delete from %s: %w", t.name, err)
	}
	return nil
}

func (t *table) insert(ctx context.Context, tx *sqldb.Tx, r row) error {
	_, err := tx.Exec(ctx, "INSERT INTO "+quote(t.name)+" ("+t.columns()+") VALUES ("+sqldb.Marks(len(t.cols))+")", t.args(r)...)
	if err != nil && !sqldb.IsDuplicate(err) {
		return fmt.Errorf("insert into %s: %w", t.name, err)
	}
	return err
}

// insertAll inserts rows; where one is refused as a duplicate it says so, and part of them may be
// there. One statement a row where statements are prepared and there is no way to a server.
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
		one := "(" + sqldb.Marks(len(t.cols)) + ")"
		args := make([]any, 0, n*len(t.cols))
		for _, r := range rows[:n] {
			args = append(args, t.args(r)...)
		}
		_, err := tx.Exec(ctx, "INSERT INTO "+quote(t.name)+" ("+t.columns()+") VALUES "+strings.TrimSuffix(strings.Repeat(one+", ", n), ", "), args...)
		if err != nil {
			return fmt.Errorf("insert into %s: %w", t.name, err)
		}
		rows = rows[n:]
	}
	return nil
}

// size is about how many bytes a row takes.
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

// holders finds the keys of other rows that have a unique key in common with r.
func (t *table) holders(ctx context.Context, tx *sqldb.Tx, r row) ([]string, error) {
	var found []string
	for _, u := range t.unique {
		args, null := []any{}, false
		for _, p := range u {
			args = append(args, t.cols[p].arg(r[p]))
			null = null || r[p] == nil
		}
		if null { // no two NULLs are the same
			continue
		}
		rows, err := t.readRows(ctx, tx, "WHERE "+t.equals(u), args...)
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

// versions reads up to which change rows are; those that were never brought are missing.
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
	rows, err := tx.Query(ctx, "SELECT k, version FROM migration_versions WHERE tbl = ? AND k IN ("+sqldb.Marks(size)+")", args...)
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

// stamp notes up to which change rows are now. REPLACE: nobody else writes here, and nothing hangs
// on these rows.
func stamp(ctx context.Context, tx *sqldb.Tx, table string, set []stamped) error {
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
			return fmt.Errorf("note versions: %w", err)
		}
		set = set[n:]
	}
	return nil
}

// stamped is what a row is, with the number of a change that this is the outcome of, or of a later
// one.
type stamped struct {
	key     string
	version int64
	state   row // nil: it is not there
}

// bring writes rows of one table, each only if it is as new as what is there (M3). Any order and
// any number of times come to the same, once the newest of each row has been brought.
//
// Rows that exchange a unique key between them may meet the other's old state. Who holds it by an
// older change has lost it since, and its own newer change is on its way: it gives way. Who holds
// it by a newer change keeps it, and the row that comes late stays away until its newer change
// comes.
func (t *table) bring(ctx context.Context, tx *sqldb.Tx, all []stamped) error {
	keys := make([]string, len(all))
	for i, s := range all {
		keys[i] = s.key
	}
	have, err := versions(ctx, tx, t.name, keys)
	if err != nil {
		return err
	}
	same, err := t.unchanged(ctx, tx, slices.DeleteFunc(slices.Clone(all), func(s stamped) bool { return s.version != have[s.key] }))
	if err != nil {
		return err
	}
	fresh := slices.DeleteFunc(slices.Clone(all), func(s stamped) bool { return s.version < have[s.key] || same[s.key] })
	return t.replace(ctx, tx, fresh)
}

// unchanged are the keys of rows that are what they are to become. It is asked for changes that
// were brought before: a primary that has lost one gives its number to another (see receipt.go).
func (t *table) unchanged(ctx context.Context, tx *sqldb.Tx, again []stamped) (map[string]bool, error) {
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

func (t *table) replace(ctx context.Context, tx *sqldb.Tx, fresh []stamped) error {
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
	return stamp(ctx, tx, t.name, fresh)
}

// insertEach inserts rows of which some meet holders of their unique keys.
func (t *table) insertEach(ctx context.Context, tx *sqldb.Tx, fresh []stamped) error {
	now := map[string]int64{} // versions of this batch, which are not noted yet
	for _, s := range fresh {
		now[s.key] = s.version
	}
	for _, s := range fresh {
		if s.state == nil {
			continue
		}
		err := t.insert(ctx, tx, s.state)
		if sqldb.IsDuplicate(err) {
			err = t.insertOver(ctx, tx, s, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *table) insertOver(ctx context.Context, tx *sqldb.Tx, s stamped, now map[string]int64) error {
	held, err := t.holders(ctx, tx, s.state)
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
