package migrate

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/engine/sqldb"
)

// row holds the values of a table's columns in a form common to both dialects: nil, int64, or
// string for text and bytes.
type row []any

// commonValue converts a value of a database driver to the form that both databases share: int64,
// string or nil, as far as columns have such values.
func commonValue(v any) any {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return v
}

// dbValue converts a common value for the column: SQLite distinguishes text from bytes, and MySQL
// validates text.
func (c *column) dbValue(v any) any {
	if s, ok := v.(string); ok && c.kind == bytesKind {
		return []byte(s)
	}
	return v
}

// args returns the values of a row, in the order of the columns, as the database takes them for an
// INSERT.
func (t *table) args(r row) []any {
	out := make([]any, len(r))
	for i := range r {
		out[i] = t.cols[i].dbValue(r[i])
	}
	return out
}

// keyOf returns the text form of a row's key: the single column, or the hex of each column joined
// with dots. The triggers compute the same form.
func (t *table) keyOf(r row) string {
	parts := make([][]byte, len(t.key))
	for i, p := range t.key {
		parts[i] = []byte(textOf(r[p]))
	}
	return keyText(parts)
}

// keyText returns the text form of a key with the given column values.
func keyText(parts [][]byte) string {
	if len(parts) == 1 {
		return string(parts[0])
	}
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = strings.ToUpper(hex.EncodeToString(p))
	}
	return strings.Join(out, ".")
}

// textOf returns the text form of a common value.
func textOf(v any) string {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case string:
		return v
	}
	return fmt.Sprint(v)
}

// keyArgs parses the text form of a key, as keyOf returns it, into query arguments, one per key
// column. It fails for text that is not a key of the table.
func (t *table) keyArgs(k string) ([]any, error) {
	parts := []string{k}
	if len(t.key) > 1 {
		parts = strings.Split(k, ".")
	}
	if len(parts) != len(t.key) {
		return nil, fmt.Errorf("%q is no key of %s", k, t.name)
	}
	out := make([]any, len(parts))
	for i, p := range parts {
		if len(t.key) > 1 {
			b, err := hex.DecodeString(p)
			if err != nil {
				return nil, fmt.Errorf("%q is no key of %s", k, t.name)
			}
			p = string(b)
		}
		c := &t.cols[t.key[i]]
		if c.kind != numberKind {
			out[i] = c.dbValue(p)
			continue
		}
		n, err := strconv.ParseInt(p, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no key of %s", k, t.name)
		}
		out[i] = n
	}
	return out, nil
}

// quote returns a quoted identifier. name must not contain a backquote.
func quote(name string) string { return "`" + name + "`" } // valid in both dialects

// columnNames returns the quoted names of the columns at the given positions.
func (t *table) columnNames(of []int) []string {
	out := make([]string, len(of))
	for i, p := range of {
		out[i] = quote(t.cols[p].name)
	}
	return out
}

// columnList returns the quoted names of all columns for a SELECT.
func (t *table) columnList() string {
	names := make([]string, len(t.cols))
	for i := range t.cols {
		names[i] = quote(t.cols[i].name)
	}
	return strings.Join(names, ", ")
}

// equalsCond returns the condition "a = ? AND b = ?" for the columns at the given positions.
func (t *table) equalsCond(of []int) string {
	return strings.Join(t.columnNames(of), " = ? AND ") + " = ?"
}

// keysCond returns a condition for rows by key. The list is padded with the last key to a power of
// two, to limit the number of distinct statements.
func (t *table) keysCond(d sqldb.Dialect, keys []string) (where string, args []any, err error) {
	size := 1
	for size < len(keys) {
		size *= 2
	}
	for i := range size {
		a, err := t.keyArgs(keys[min(i, len(keys)-1)])
		if err != nil {
			return "", nil, err
		}
		args = append(args, a...)
	}
	if len(t.key) == 1 {
		return t.columnNames(t.key)[0] + " IN (" + sqldb.Placeholders(size) + ")", args, nil
	}
	if size == 1 { // a list of one tuple makes MySQL's DELETE scan the whole table
		return t.equalsCond(t.key), args, nil
	}
	one := "(" + sqldb.Placeholders(len(t.key)) + ")"
	list := strings.TrimSuffix(strings.Repeat(one+", ", size), ", ")
	if d == sqldb.SQLite {
		list = "VALUES " + list
	}
	return "(" + strings.Join(t.columnNames(t.key), ", ") + ") IN (" + list + ")", args, nil
}

// afterCond returns a condition for the rows after a key, in key order; an empty key means all
// rows. The comparison is expanded, because MySQL uses no index range for tuples.
func (t *table) afterCond(k string) (where string, args []any, err error) {
	if k == "" {
		return "1 = 1", nil, nil
	}
	key, err := t.keyArgs(k)
	if err != nil {
		return "", nil, err
	}
	names := t.columnNames(t.key)
	var ors []string
	for i := range names {
		cond := names[i] + " > ?"
		for j := i - 1; j >= 0; j-- {
			cond = names[j] + " = ? AND " + cond
		}
		ors = append(ors, "("+cond+")")
		args = append(args, key[:i+1]...)
	}
	return "(" + names[0] + " >= ? AND (" + strings.Join(ors, " OR ") + "))", append([]any{key[0]}, args...), nil
}

// upToCond returns an SQL condition for the rows up to and including the key k, with its arguments.
// It fails if k is not a key of the table.
func (t *table) upToCond(k string) (where string, args []any, err error) {
	key, err := t.keyArgs(k)
	if err != nil {
		return "", nil, err
	}
	first := t.columnNames(t.key)[0] + " <= ?" // a separate condition, for the index range
	if len(key) == 1 {
		return first, key, nil
	}
	where, args, err = t.afterCond(k)
	return first + " AND NOT " + where, append([]any{key[0]}, args...), err
}

// scanner scans rows of a query into memory that it reuses; its dest points to its vals.
type scanner struct {
	dest []any
	vals []any
}

// newScanner returns a scanner for n columns.
func newScanner(n int) *scanner {
	s := &scanner{dest: make([]any, n), vals: make([]any, n)}
	for i := range s.dest {
		s.dest[i] = &s.vals[i]
	}
	return s
}

// row scans the current row, on which the caller has called Next, and returns it as a row of its
// own memory.
func (s *scanner) row(rows *sql.Rows) (row, error) {
	if err := rows.Scan(s.dest...); err != nil {
		return nil, err
	}
	r := make(row, len(s.vals))
	for i, v := range s.vals {
		r[i] = commonValue(v)
	}
	return r, nil
}

// readRows returns the rows of the table that rest selects: the end of the statement from WHERE on.
// It holds them all in memory; rest should have a limit.
func (t *table) readRows(ctx context.Context, q sqldb.Querier, rest string, args ...any) ([]row, error) {
	rows, err := q.Query(ctx, "SELECT "+t.columnList()+" FROM "+quote(t.name)+" "+rest, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []row
	s := newScanner(len(t.cols))
	for rows.Next() {
		r, err := s.row(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// readKeys returns rows by key from one statement, so from one point in time. Missing rows are
// absent.
func (t *table) readKeys(ctx context.Context, q sqldb.Querier, keys []string) (map[string]row, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	where, args, err := t.keysCond(q.Dialect(), keys)
	if err != nil {
		return nil, err
	}
	rows, err := t.readRows(ctx, q, "WHERE "+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.name, err)
	}
	out := make(map[string]row, len(rows))
	for _, r := range rows {
		out[t.keyOf(r)] = r
	}
	return out, nil
}

// appendUint64 appends n in 8 bytes.
func appendUint64(b []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(b, n) }

// equalRows reports whether two rows have equal values in the same order. A nil row is a missing
// one: it equals nil only.
func equalRows(a, b row) bool {
	if (a == nil) != (b == nil) || len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// hashParts returns the hex SHA-256 of the parts with their lengths.
func hashParts(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = h.Write(appendUint64(nil, uint64(len(p))))
		_, _ = h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}
