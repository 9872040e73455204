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

	"smartdrive/internal/engine/sqldb"
)

// row is the values of a table's columns as both dialects agree on them: nil, int64, or string for
// text and bytes.
type row []any

// canonical makes one of what a driver returns.
func canonical(v any) any {
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

// arg makes of a value what the side's column takes: SQLite tells text from bytes, and MySQL checks
// what is text.
func (c *column) arg(v any) any {
	if s, ok := v.(string); ok && c.kind == octets {
		return []byte(s)
	}
	return v
}

// args are the values of a row for an INSERT.
func (t *table) args(r row) []any {
	out := make([]any, len(r))
	for i := range r {
		out[i] = t.cols[i].arg(r[i])
	}
	return out
}

// keyOf is the text form of a row's key: the one column, or the hex of each joined with dots. The
// triggers make the same.
func (t *table) keyOf(r row) string {
	parts := make([][]byte, len(t.key))
	for i, p := range t.key {
		parts[i] = []byte(plain(r[p]))
	}
	return keyText(parts)
}

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

func plain(v any) string {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case string:
		return v
	}
	return fmt.Sprint(v)
}

// keyArgs are the values of a key's columns.
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
		if c.kind != number {
			out[i] = c.arg(p)
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

func quote(name string) string { return "`" + name + "`" } // both dialects take it

func (t *table) names(of []int) []string {
	out := make([]string, len(of))
	for i, p := range of {
		out[i] = quote(t.cols[p].name)
	}
	return out
}

func (t *table) columns() string {
	names := make([]string, len(t.cols))
	for i := range t.cols {
		names[i] = quote(t.cols[i].name)
	}
	return strings.Join(names, ", ")
}

// equals is a condition on columns for one row: "a = ? AND b = ?".
func (t *table) equals(of []int) string { return strings.Join(t.names(of), " = ? AND ") + " = ?" }

// inKeys is a condition for rows by their keys. The list is as long as the next power of two, with
// the last key again, so that there are few texts.
func (t *table) inKeys(d sqldb.Dialect, keys []string) (where string, args []any, err error) {
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
		return t.names(t.key)[0] + " IN (" + sqldb.Marks(size) + ")", args, nil
	}
	if size == 1 { // a list of one tuple makes a DELETE of MySQL read the whole table
		return t.equals(t.key), args, nil
	}
	one := "(" + sqldb.Marks(len(t.key)) + ")"
	list := strings.TrimSuffix(strings.Repeat(one+", ", size), ", ")
	if d == sqldb.SQLite {
		list = "VALUES " + list
	}
	return "(" + strings.Join(t.names(t.key), ", ") + ") IN (" + list + ")", args, nil
}

// after is a condition for the rows behind a key, in the order of keys; it is written out because
// MySQL finds no range for a comparison of tuples.
func (t *table) after(k string) (where string, args []any, err error) {
	if k == "" {
		return "1 = 1", nil, nil
	}
	key, err := t.keyArgs(k)
	if err != nil {
		return "", nil, err
	}
	names := t.names(t.key)
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

// upTo is a condition for the rows up to a key.
func (t *table) upTo(k string) (where string, args []any, err error) {
	key, err := t.keyArgs(k)
	if err != nil {
		return "", nil, err
	}
	first := t.names(t.key)[0] + " <= ?" // by itself, for the range
	if len(key) == 1 {
		return first, key, nil
	}
	where, args, err = t.after(k)
	return first + " AND NOT " + where, append([]any{key[0]}, args...), err
}

// scanner reads rows without allocating for each value.
type scanner struct {
	dest []any
	vals []any
}

func newScanner(n int) *scanner {
	s := &scanner{dest: make([]any, n), vals: make([]any, n)}
	for i := range s.dest {
		s.dest[i] = &s.vals[i]
	}
	return s
}

func (s *scanner) row(rows *sql.Rows) (row, error) {
	if err := rows.Scan(s.dest...); err != nil {
		return nil, err
	}
	r := make(row, len(s.vals))
	for i, v := range s.vals {
		r[i] = canonical(v)
	}
	return r, nil
}

// readRows reads what a query with the table's columns finds.
func (t *table) readRows(ctx context.Context, q sqldb.Querier, rest string, args ...any) ([]row, error) {
	rows, err := q.Query(ctx, "SELECT "+t.columns()+" FROM "+quote(t.name)+" "+rest, args...)
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

// readKeys reads rows by their keys, in one statement: as they were at one moment.
func (t *table) readKeys(ctx context.Context, q sqldb.Querier, keys []string) (map[string]row, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	where, args, err := t.inKeys(q.Dialect(), keys)
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

func binary8(b []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(b, n) }

// equalRows compares what two sides have of a row; nil is none.
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

func sum(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = h.Write(binary8(nil, uint64(len(p))))
		_, _ = h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}
