package migrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"example.org/smartdrive/internal/engine/sqldb"
)

// kind is the type of a column's values. A column may be text on one side and octets on the other:
// names are bytes on MySQL, so that no collation treats two as equal.
type kind uint8

const (
	// numberKind is a column of integers.
	numberKind kind = iota
	// textKind is a column of text.
	textKind
	// bytesKind is a column of bytes.
	bytesKind
)

// column is a column of one side.
type column struct {
	name  string
	kind  kind
	null  bool
	limit int64 // in bytes; 0: unlimited
}

// table is a table of one side. Rows of both sides have the same columns in the same order; see
// reorderColumns.
type table struct {
	name    string
	cols    []column
	key     []int   // positions of the primary key's columns
	unique  [][]int // positions of the columns of other unique keys
	numbers bool    // the key is an AUTO_INCREMENT number
	account string  // column with the owning account; empty: none
	// children lists the tables whose rows MySQL deletes together with a row of this table, without
	// firing triggers. Their key is the key of this table.
	children []string
}

// isBookkeeping reports whether a table is not moved because it is bookkeeping: of this package, of
// the schema version, or of SQLite, whose automatic numbers are carried over separately (see
// numbers.go).
func isBookkeeping(name string) bool {
	return strings.HasPrefix(name, "migration_") || strings.HasPrefix(name, "goose_") || strings.HasPrefix(name, "sqlite_")
}

// schemaOf returns the tables of a side, sorted by name. A table without primary key or with an
// unknown column type is an error.
func schemaOf(ctx context.Context, db *sqldb.DB) (tables []*table, err error) {
	if db.Dialect() == sqldb.MySQL {
		tables, err = schemaOfMySQL(ctx, db)
	} else {
		tables, err = schemaOfSQLite(ctx, db)
	}
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	slices.SortFunc(tables, func(a, b *table) int { return cmp.Compare(a.name, b.name) })
	for _, t := range tables {
		if len(t.key) == 0 {
			return nil, fmt.Errorf("table %s has no primary key", t.name)
		}
		t.account = t.ownerColumn()
	}
	return tables, nil
}

// ownerColumn returns the column that holds the owning account of a row; empty: none. In the outbox
// that is the column key.
func (t *table) ownerColumn() string {
	for _, c := range t.cols {
		if c.name == "account_id" || t.name == "outbox" && c.name == "key" || t.name == "accounts" && c.name == "id" {
			return c.name
		}
	}
	return ""
}

// columnIndex returns the position of a column, or -1.
func (t *table) columnIndex(name string) int {
	return slices.IndexFunc(t.cols, func(c column) bool { return c.name == name })
}

// schemaOfSQLite reads the tables of db with their columns, primary and unique keys. It fails for a
// column whose declared type is not INTEGER, TEXT or BLOB, except in bookkeeping tables.
func schemaOfSQLite(ctx context.Context, db *sqldb.DB) ([]*table, error) {
	rows, err := db.Query(ctx, `SELECT m.name, c.name, c.type, c."notnull", c.pk, instr(m.sql, 'AUTOINCREMENT') > 0
		FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY m.name, c.cid`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	b := schemaBuilder{}
	for rows.Next() {
		var name, title, declared string
		var notNull, auto bool
		var pk int
		if err := rows.Scan(&name, &title, &declared, &notNull, &pk, &auto); err != nil {
			return nil, err
		}
		kinds := map[string]kind{"INTEGER": numberKind, "TEXT": textKind, "BLOB": bytesKind}
		k, ok := kinds[declared]
		if !ok && !isBookkeeping(name) {
			return nil, fmt.Errorf("column %s.%s is a %s", name, title, declared)
		}
		b.column(name, column{name: title, kind: k, null: !notNull && pk == 0}, pk, auto)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return b.tables, b.uniqueSQLite(ctx, db)
}

// schemaOfMySQL reads information_schema with one query per view: a join reads the second view
// again for each row of the first, over all databases of the server.
func schemaOfMySQL(ctx context.Context, db *sqldb.DB) ([]*table, error) {
	keys, err := primaryKeys(ctx, db)
	if err != nil {
		return nil, err
	}
	rows, err := db.Query(ctx, `SELECT table_name, column_name, data_type, is_nullable = 'YES', COALESCE(character_octet_length, 0), extra LIKE '%auto_increment%'
		FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	b := schemaBuilder{}
	for rows.Next() {
		var name, typ string
		var c column
		var auto bool
		if err := rows.Scan(&name, &c.name, &typ, &c.null, &c.limit, &auto); err != nil {
			return nil, err
		}
		switch {
		case strings.HasSuffix(typ, "int"):
			c.kind = numberKind
		case strings.HasSuffix(typ, "char"), strings.HasSuffix(typ, "text"):
			c.kind = textKind
		case strings.HasSuffix(typ, "binary"), strings.HasSuffix(typ, "blob"):
			c.kind = bytesKind
		case !isBookkeeping(name):
			return nil, fmt.Errorf("column %s.%s is a %s", name, c.name, typ)
		}
		b.column(name, c, keys[[2]string{name, c.name}], auto)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if err := b.uniqueMySQL(ctx, db); err != nil {
		return nil, err
	}
	return b.tables, b.cascades(ctx, db)
}

// primaryKeys returns the position in the primary key, from 1, of the columns of a MySQL database,
// by [table, column]. Other columns are absent.
func primaryKeys(ctx context.Context, db *sqldb.DB) (map[[2]string]int, error) {
	type part struct {
		table, column string
		position      int
	}
	rows, err := db.Query(ctx, "SELECT table_name, column_name, seq_in_index FROM information_schema.statistics WHERE table_schema = DATABASE() AND index_name = 'PRIMARY'")
	all, err := sqldb.Scan(rows, err, func(p *part, scan func(...any) error) error { return scan(&p.table, &p.column, &p.position) })
	keys := make(map[[2]string]int, len(all))
	for _, p := range all {
		keys[[2]string{p.table, p.column}] = p.position
	}
	return keys, err
}

// schemaBuilder builds tables from rows sorted by table name.
type schemaBuilder struct{ tables []*table }

// column appends a column to the table of that name; columns of a table are added one after
// another. pk is its position in the primary key, from 1, or 0; auto: the database assigns numbers.
// Bookkeeping tables are left out.
func (b *schemaBuilder) column(name string, c column, pk int, auto bool) {
	if isBookkeeping(name) {
		return
	}
	if n := len(b.tables); n == 0 || b.tables[n-1].name != name {
		b.tables = append(b.tables, &table{name: name})
	}
	t := b.tables[len(b.tables)-1]
	t.cols = append(t.cols, c)
	t.numbers = t.numbers || auto
	if pk > 0 {
		for len(t.key) < pk {
			t.key = append(t.key, 0)
		}
		t.key[pk-1] = len(t.cols) - 1
	}
}

// find returns the table of that name, or nil.
func (b *schemaBuilder) find(name string) *table {
	for _, t := range b.tables {
		if t.name == name {
			return t
		}
	}
	return nil
}

// uniqueSQLite reads the unique keys of a SQLite database into the tables of b, without the primary
// keys.
func (b *schemaBuilder) uniqueSQLite(ctx context.Context, db *sqldb.DB) error {
	return b.uniqueOf(ctx, db, `SELECT m.name, i.name, c.name FROM sqlite_master m JOIN pragma_index_list(m.name) i
		JOIN pragma_index_info(i.name) c WHERE m.type = 'table' AND i."unique" = 1 AND i.origin <> 'pk' ORDER BY m.name, i.name, c.seqno`)
}

// uniqueMySQL reads the unique keys of a MySQL database into the tables of b, without the primary
// keys.
func (b *schemaBuilder) uniqueMySQL(ctx context.Context, db *sqldb.DB) error {
	return b.uniqueOf(ctx, db, `SELECT table_name, index_name, column_name FROM information_schema.statistics
		WHERE table_schema = DATABASE() AND non_unique = 0 AND index_name <> 'PRIMARY' ORDER BY table_name, index_name, seq_in_index`)
}

// uniqueOf adds unique keys to the tables of b. query returns rows of table, index and column,
// ordered by these and the column's position. Tables that b does not have are skipped.
func (b *schemaBuilder) uniqueOf(ctx context.Context, db *sqldb.DB, query string) error {
	type part struct{ table, index, column string }
	rows, err := db.Query(ctx, query)
	parts, err := sqldb.Scan(rows, err, func(p *part, scan func(...any) error) error { return scan(&p.table, &p.index, &p.column) })
	last := part{}
	for _, p := range parts {
		t := b.find(p.table)
		if t == nil {
			continue
		}
		if p.table != last.table || p.index != last.index {
			t.unique = append(t.unique, nil)
		}
		t.unique[len(t.unique)-1] = append(t.unique[len(t.unique)-1], t.columnIndex(p.column))
		last = p
	}
	return err
}

// cascades records the foreign keys by which MySQL deletes rows without firing triggers. (SQLite
// fires them.) An error reports a foreign key that cannot be captured.
func (b *schemaBuilder) cascades(ctx context.Context, db *sqldb.DB) error {
	type cascade struct{ parent, child, column, to string }
	rows, err := db.Query(ctx, `SELECT k.referenced_table_name, k.table_name, k.column_name, k.referenced_column_name
		FROM information_schema.referential_constraints r JOIN information_schema.key_column_usage k
			ON k.constraint_schema = DATABASE() AND k.table_schema = DATABASE() AND k.constraint_name = r.constraint_name AND k.table_name = r.table_name
		WHERE r.constraint_schema = DATABASE() AND (r.delete_rule NOT IN ('RESTRICT', 'NO ACTION') OR r.update_rule NOT IN ('RESTRICT', 'NO ACTION'))`)
	all, err := sqldb.Scan(rows, err, func(c *cascade, scan func(...any) error) error {
		return scan(&c.parent, &c.child, &c.column, &c.to)
	})
	for _, c := range all {
		parent, child := b.find(c.parent), b.find(c.child)
		if parent == nil || child == nil || !child.isKey(c.column) || !parent.isKey(c.to) {
			return fmt.Errorf("what is deleted from %s with a row of %s cannot be captured", c.child, c.parent)
		}
		parent.children = append(parent.children, c.child)
	}
	return err
}

// isKey reports whether the column alone is the primary key.
func (t *table) isKey(column string) bool { return len(t.key) == 1 && t.cols[t.key[0]].name == column }

// schemaDiff describes the first difference of two schemas; empty: rows of one side fit into the
// other.
func schemaDiff(a, b []*table) string {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a) || i < len(b) && b[i].name < a[i].name:
			return "only one side has table " + b[i].name
		case i >= len(b) || a[i].name < b[i].name:
			return "only one side has table " + a[i].name
		}
		if how := a[i].diff(b[i]); how != "" {
			return "table " + a[i].name + ": " + how
		}
	}
	return ""
}

// diff describes the first difference of two tables in key, number of columns, names or kinds of
// columns. It returns "" if there is none. Text and bytes count as the same kind.
func (t *table) diff(o *table) string {
	names := func(t *table, of []int) (s []string) {
		for _, i := range of {
			s = append(s, t.cols[i].name)
		}
		return s
	}
	if !slices.Equal(names(t, t.key), names(o, o.key)) {
		return "the keys differ"
	}
	if len(t.cols) != len(o.cols) {
		return "the columns differ"
	}
	for _, c := range t.cols {
		i := o.columnIndex(c.name)
		if i < 0 || (o.cols[i].kind == numberKind) != (c.kind == numberKind) {
			return "column " + c.name + " differs"
		}
	}
	return ""
}

// reorderColumns returns the tables with columns in the order of model, so that rows of both sides
// have the same layout.
func reorderColumns(model, tables []*table) []*table {
	out := make([]*table, len(tables))
	for i, t := range tables {
		o := *t
		o.cols = make([]column, len(t.cols))
		moved := make([]int, len(t.cols)) // from the old position
		for j, c := range model[i].cols {
			old := t.columnIndex(c.name)
			o.cols[j], moved[old] = t.cols[old], j
		}
		o.key, o.unique = remap(t.key, moved), make([][]int, len(t.unique))
		for j, u := range t.unique {
			o.unique[j] = remap(u, moved)
		}
		out[i] = &o
	}
	return out
}

// remap returns, for each position in of, the position moved[position].
func remap(of, moved []int) []int {
	out := make([]int, len(of))
	for i, p := range of {
		out[i] = moved[p]
	}
	return out
}
