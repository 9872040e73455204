package sqldb

import "strings"

// Dialect is the kind of database. Both kinds use the same SQL text, with few exceptions.
type Dialect uint8

// The dialects. MySQL includes MariaDB.
const (
	SQLite Dialect = iota
	MySQL
)

// String returns the name of the dialect, also the directory of its migrations.
func (d Dialect) String() string {
	if d == MySQL {
		return "mysql"
	}
	return "sqlite"
}

// Dialect returns the kind of the database.
func (db *DB) Dialect() Dialect {
	if r := db.routed(); r != nil {
		return r.Primary().Dialect()
	}
	return db.dialect
}

// Concurrency returns the number of transactions that can run at once: 1 for SQLite, the size of
// the connection pool for MySQL.
func (db *DB) Concurrency() int {
	if r := db.routed(); r != nil {
		return r.Primary().Concurrency()
	}
	if p, ok := db.writer.(*pool); ok {
		return p.db.Stats().MaxOpenConnections
	}
	return 1
}

// Dialect returns the kind of database of the transaction.
func (tx *Tx) Dialect() Dialect { return tx.dialect }

// ForUpdate returns the suffix for a SELECT of rows that the transaction changes afterwards: " FOR
// UPDATE" on MySQL, nothing on SQLite, which has a single writer.
func (tx *Tx) ForUpdate() string {
	if tx.dialect == MySQL {
		return " FOR UPDATE"
	}
	return ""
}

// Limit returns " LIMIT" with one placeholder, for frequent queries. SQLite reparses a statement
// each time a new value is bound to a bare LIMIT ?.
func (d Dialect) Limit() string {
	if d == SQLite {
		return " LIMIT (? + 0)"
	}
	return " LIMIT ?"
}

// Placeholders returns n placeholders for a list: "?, ?, ?".
func Placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }
