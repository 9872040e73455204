package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.org/smartdrive/internal/engine/sqldb"
)

// column is a column of a table, as the schema of a new database declares it.
type column struct {
	table, name, kind string
	required          bool // NOT NULL without a default
}

// owner reports what the column names: "account", "user", "node", or "" for none of them.
func (c column) owner() string {
	switch c.name {
	case "account_id", "account":
		return "account"
	case "user_id", "principal_id":
		return "user"
	case "node_id":
		return "node"
	}
	return ""
}

// schema returns the columns of all tables by table.
func schema(t *testing.T, a *App) map[string][]column {
	t.Helper()
	rows, err := a.platform.db.Query(t.Context(), `SELECT m.name, p.name, p.type, p."notnull" AND p.dflt_value IS NULL
		FROM sqlite_master m JOIN pragma_table_info(m.name) p WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`)
	all, err := sqldb.Scan(rows, err, func(c *column, scan func(...any) error) error { return scan(&c.table, &c.name, &c.kind, &c.required) })
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string][]column{}
	for _, c := range all {
		tables[c.table] = append(tables[c.table], c)
	}
	return tables
}

// outlive lists columns whose rows outlive what they name, each with its reason.
var outlive = map[string]string{
	"migration_changes.account": "the copier of a migration deletes what it has applied",
	"owed.account_id":           "released files count until the unlinker has deleted them",
	"owed_files.account_id":     "released files count until the unlinker has deleted them",
}

// rowID is the id of each inserted row that others refer to.
const rowID = "01890a5d-ac96-774b-bcce-b302099a8057"

// columnValues are values of columns without which the purge does not find a row.
var columnValues = map[string]any{
	"bulk_items.bulk_id": rowID, "bulks.id": rowID,
	"bundle_members.bundle_id": rowID, "bundles.id": rowID, "bundles.state": "sealed",
	"export_jobs.export_id": rowID, "export_jobs.state": "pending", "export_pins.export_id": rowID, "export_pins.charged": 0, "export_texts.export_id": rowID,
	"export_wants.export_id": rowID, "exports.id": rowID, "exports.state": "pending",
	"idempotency.created_at": 1, "share_numbers.number": 1, "tombstones.seq": 1, "uploads.state": "done",
}

// Every table that names an account, a user or a node belongs to one module, and the purge of a
// deleted user leaves no row in any of them.
func TestEveryTableIsPurged(t *testing.T) {
	t.Parallel()
	a, control, api := opened(t, "--min-free", "0")
	made, err := ask(t, control, http.MethodPost, "/api/v1/admin/users", map[string]any{"name": "doomed", "password": "correct horse"})
	if err != nil {
		t.Fatal(err)
	}
	if got := request(t, api, loginAs(t, api, "doomed"), http.MethodPut, "/files/a", "content"); got != http.StatusCreated {
		t.Fatalf("PUT /files/a: %d", got)
	}
	user := made["id"].(string)
	names := map[string]string{"user": user, "account": accountOf(t, a, user)}
	var node string
	if err := a.platform.db.QueryRow(t.Context(), "SELECT id FROM nodes WHERE account_id = ? AND name = 'a'", names["account"]).Scan(&node); err != nil {
		t.Fatal(err)
	}
	names["node"] = node
	write(t, a, "UPDATE blobs SET refs = refs + 1") // of the row in export_pins
	if err := a.platform.db.QueryRow(t.Context(), "SELECT id FROM blobs").Scan(&node); err != nil {
		t.Fatal(err)
	}
	names["blob"] = node

	tables := schema(t, a)
	left := func(c column) (n int) {
		t.Helper()
		query := fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE %s = ?", c.table, c.name)
		if err := a.platform.db.QueryRow(t.Context(), query, names[c.owner()]).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	var named []column
	for table, columns := range tables {
		owning := slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.owner() == "" })
		module := moduleOf(t, a, table)
		if len(owning) == 0 {
			if module != "" {
				t.Errorf("module %s names table %s, which names no account, user or node", module, table)
			}
			continue
		}
		if module == "" {
			t.Errorf("table %s names %s of an account, user or node, and no module purges it: see register.go", table, owning[0].name)
		}
		if left(owning[0]) == 0 {
			insertRow(t, a, columns, names)
		}
		named = append(named, owning...)
	}
	if len(named) < 60 {
		t.Fatalf("%d columns name an account, user or node: something is not read", len(named))
	}

	if _, err := ask(t, control, http.MethodDelete, "/api/v1/admin/users/"+user, nil); err != nil {
		t.Fatal(err)
	}
	write(t, a, `UPDATE users SET deleted_at = deleted_at - 31 * 24 * 3600 * 1000 WHERE deleted_at > 0`)
	for range 2 {
		if _, err := a.housekeeping.runJobs(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range named {
		name := c.table + "." + c.name
		switch n := left(c); {
		case n > 0 && outlive[name] == "":
			t.Errorf("%d rows of %s still name the deleted %s", n, name, c.owner())
		case n == 0 && outlive[name] != "":
			t.Errorf("%s has a reason to outlive the %s, and needs none", name, c.owner())
		}
	}
}

// moduleOf returns the module that names a table; "" if none does. It fails the test if two do.
func moduleOf(t *testing.T, a *App, table string) (name string) {
	t.Helper()
	for _, m := range a.platform.modules.all {
		if slices.Contains(m.tables, table) {
			if name != "" {
				t.Errorf("modules %s and %s both name table %s", name, m.name, table)
			}
			name = m.name
		}
	}
	return name
}

// insertRow inserts a row that names the account, the user and the node.
func insertRow(t *testing.T, a *App, columns []column, names map[string]string) {
	t.Helper()
	var list []string
	var values []any
	for _, c := range columns {
		value, fixed := columnValues[c.table+"."+c.name]
		switch {
		case fixed:
		case c.name == "blob_id":
			value = names["blob"]
		case c.owner() != "":
			value = names[c.owner()]
		case !c.required:
			continue
		case c.kind == "INTEGER":
			value = 0
		default:
			value = uuid.Must(uuid.NewV7()).String()
		}
		list, values = append(list, c.name), append(values, value)
	}
	err := a.platform.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", columns[0].table, strings.Join(list, ", "), strings.Repeat(", ?", len(list)-1)), values...)
		return err
	})
	if err != nil {
		t.Errorf("insert into %s (%v): %v", columns[0].table, list, err)
	}
}
