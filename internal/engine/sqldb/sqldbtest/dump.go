package sqldbtest

import (
	"fmt"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
)

// Dump returns all values of all tables as text: everything that a copy of the database reveals.
func Dump(t testing.TB, db *sqldb.DB) string {
	t.Helper()
	query := "SELECT name FROM sqlite_master WHERE type = 'table'"
	if db.Dialect() == sqldb.MySQL {
		query = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
	}
	rows, err := db.Query(t.Context(), query)
	tables, err := sqldb.Scan(rows, err, func(name *string, scan func(...any) error) error { return scan(name) })
	var all strings.Builder
	for _, table := range tables {
		if err == nil {
			err = dumpTable(t, db, table, &all)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// dumpTable writes one line per value, "table.column = value", of all rows of a table to to, in the
// order in which the database returns them.
func dumpTable(t testing.TB, db *sqldb.DB, table string, to *strings.Builder) error {
	rows, err := db.Query(t.Context(), "SELECT * FROM "+table)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // read to its end
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values := make([]any, len(names))
	for i := range values {
		values[i] = new([]byte)
	}
	for rows.Next() {
		if err := rows.Scan(values...); err != nil {
			return err
		}
		for i, v := range values {
			fmt.Fprintf(to, "%s.%s = %s\n", table, names[i], *v.(*[]byte))
		}
	}
	return rows.Err()
}
