package plans

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/depth"
)

// many is how many rows of a table a server may mean to read without a bound from an index.
const many = 10_000

// A server chooses plans by the contents of tables, so statements are explained with a million
// rows. Reasons in sqlite.txt also hold here.
func TestServerReadsNoWholeTable(t *testing.T) {
	t.Parallel()
	depth.Deep(t)
	statements := recordedStatements(t, sqldb.MySQL)
	db := openServer(t)
	populate(t, db, million)
	known, plans := readReasons(t, "mariadb.txt"), readReasons(t, "sqlite.txt")
	for _, s := range statements {
		var plan string
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { // a reader may not even explain a write
			return tx.QueryRow(ctx, "EXPLAIN FORMAT=JSON "+s.Text, unquoted(arguments(s))...).Scan(&plan)
		})
		if err != nil {
			t.Errorf("%s: %v\n%s", s.From, err, s.Text)
			continue
		}
		wrong, err := judgeServer(plan)
		if err != nil {
			t.Errorf("%s: %v\n%s", s.From, err, plan)
		}
		if plans.why[sqldbtest.Normal(s.Text)] == "" && plans.why["@"+s.From] == "" {
			known.judge(t, s, wrong)
		}
	}
	known.unused(t)
}

// openServer opens a database of the test's own on the server.
func openServer(t *testing.T) *sqldb.DB {
	t.Helper()
	source, _ := sqldbtest.Empty(t)
	db, err := sqldb.Open(t.Context(), sqldb.Options{MySQL: source, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// unquoted takes double quotes out of texts: MariaDB repeats them in its JSON as they are, which is
// then none.
func unquoted(args []any) []any {
	for i, a := range args {
		if text, ok := a.(string); ok {
			args[i] = strings.ReplaceAll(text, `"`, "")
		}
	}
	return args
}

// judgeServer searches a plan, whose nesting differs between MariaDB and MySQL, for complete scans
// of tables or indexes.
func judgeServer(plan string) (wrong string, err error) {
	var tree any
	if err := json.Unmarshal([]byte(plan), &tree); err != nil {
		return "", err
	}
	return wholeTable(tree), nil
}

func wholeTable(node any) string {
	switch node := node.(type) {
	case []any:
		for _, child := range node {
			if wrong := wholeTable(child); wrong != "" {
				return wrong
			}
		}
	case map[string]any:
		how, _ := node["access_type"].(string)
		if rows := max(number64(node["rows"]), number64(node["rows_examined_per_scan"])); (how == "ALL" || how == "index") && rows > many {
			return fmt.Sprintf("%v is read by %s, %.0f rows", node["table_name"], how, rows)
		}
		for _, child := range node {
			if wrong := wholeTable(child); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

func number64(v any) float64 {
	n, _ := v.(float64)
	return n
}

func TestJudgeOfServerPlans(t *testing.T) {
	t.Parallel()
	for plan, wrong := range map[string]string{
		`{"query_block": {"select_id": 1, "table": {"table_name": "uploads", "access_type": "range", "key": "uploads_ended", "rows": 500000}}}`: "",
		`{"query_block": {"select_id": 1, "table": {"table_name": "leases", "access_type": "ALL", "rows": 7}}}`:                                 "",
		`{"query_block": {"message": "Impossible WHERE noticed after reading const tables"}}`:                                                   "",
		`{"query_block": {"nested_loop": [{"table": {"table_name": "t", "access_type": "ALL", "rows": 99733}}]}}`:                               "t is read by ALL, 99733 rows",
		`{"query_block": {"ordering_operation": {"table": {"table_name": "n", "access_type": "index", "rows_examined_per_scan": 10001}}}}`:      "n is read by index, 10001 rows",
	} {
		if got, err := judgeServer(plan); err != nil || got != wrong {
			t.Errorf("%s: %q, %v; want %q", plan, got, err, wrong)
		}
	}
}
