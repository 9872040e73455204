package sqldb

import "strings"

// Dialect is the kind of database. SQL text is shared; what differs is asked of the dialect by
// those few who must.
type Dialect uint8

// The dialects. MySQL is MariaDB as well.
const (
	SQLite Dialect = iota
	MySQL
)

// String returns the name of the dialect, which is also the name of the directory of its
// migrations.
func (d Dialect) String() string {
	if d == MySQL {
		return "mysql"
	}
	return "sqlite"
}

// Dialect says what kind of database it is.
func (db *DB) Dialect() Dialect {
	if r := db.routed(); r != nil {
		return r.Primary().Dialect()
	}
	return db.dialect
}

// Concurrency returns how many transactions the database runs at a time: one in SQLite, the size of
// the connection pool in MySQL.
func (db *DB) Concurrency() int {
	if r := db.routed(); r != nil {
		return r.Primary().Concurrency()
	}
	if p, ok := db.writer.(*pool); ok {
		return p.db.Stats().MaxOpenConnections
	}
	return 1
}

// Dialect says what kind of database the transaction is in.
func (tx *Tx) Dialect() Dialect { return tx.dialect }

// ForUpdate is what to put at the end of a SELECT whose rows the transaction goes on to change
// according to what it read: " FOR UPDATE" where others may change them meanwhile, nothing where
// there is one writer.
func (tx *Tx) ForUpdate() string {
	if tx.dialect == MySQL {
		return " FOR UPDATE"
	}
	return ""
}

// Limit is what to put at the end of a SELECT that is made often and whose plan must not depend on
// how many rows are asked for: LIMIT and a placeholder. When the placeholder stands alone, SQLite
// parses and plans the statement again each time that a number is bound to it.
func (d Dialect) Limit() string {
	if d == SQLite {
		return " LIMIT (? + 0)"
	}
	return " LIMIT ?"
}

// Marks returns n placeholders for a list: "?, ?, ?".
func Marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }
