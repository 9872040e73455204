package plans

import (
	"regexp"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// No statement on SQLite scans a whole table without a listed reason. An empty database is enough,
// because the planner uses only the schema unless ANALYZE was run, which SmartDrive never does.
func TestNoStatementReadsAWholeTable(t *testing.T) {
	t.Parallel()
	statements := recordedStatements(t, sqldb.SQLite)
	db := sqldbtest.Open(t)
	known := readReasons(t, "sqlite.txt")
	for _, s := range statements {
		steps, err := planOnSQLite(t, db, s)
		if err != nil {
			t.Errorf("%s: %v\n%s", s.From, err, s.Text)
			continue
		}
		known.judge(t, s, judgeSQLite(steps))
	}
	known.unused(t)
}

// planOnSQLite returns the steps of EXPLAIN QUERY PLAN (sqlite.org/eqp.html).
func planOnSQLite(t *testing.T, db *sqldb.DB, s statement) ([]string, error) {
	t.Helper()
	rows, err := db.Query(t.Context(), "EXPLAIN QUERY PLAN "+s.Text, arguments(s)...)
	return sqldb.Scan(rows, err, func(step *string, scan func(...any) error) error {
		var id, parent, notused int64
		return scan(&id, &parent, &notused, step)
	})
}

// arguments returns the recorded arguments.
func arguments(s statement) []any {
	list := make([]any, len(s.Args))
	for i, a := range s.Args {
		switch a := a.(type) {
		case float64:
			list[i] = int64(a)
		case map[string]any:
			text, _ := a["bytes"].(string)
			list[i] = []byte(text)
		default:
			list[i] = a
		}
	}
	return list
}

var (
	scanned  = regexp.MustCompile(`^SCAN (\S+)`)
	producer = regexp.MustCompile(`^(?:CO-ROUTINE|MATERIALIZE) (\S+)`) // a subquery or a common table

	// inStatement are rows that are no table's: they stand in the statement, or a function makes
	// them.
	inStatement = regexp.MustCompile(`CONSTANT ROW|ROW VALUES|VIRTUAL TABLE`)
)

// judgeSQLite returns the defect of a plan, or "". Defects are: - a scan of a whole table in any
// order, - a join that first builds an automatic index, which scans the whole table, - a sort of
// rows that only a bound on one side has selected.
func judgeSQLite(steps []string) string {
	own := map[string]bool{}
	sorts, equal := "", false
	for _, step := range steps {
		if m := producer.FindStringSubmatch(step); m != nil {
			own[m[1]] = true
		}
		if strings.HasPrefix(step, "USE TEMP B-TREE") {
			sorts = step
		}
		equal = equal || strings.Contains(step, "=?")
	}
	for _, step := range steps {
		m := scanned.FindStringSubmatch(step)
		switch {
		case m != nil && !own[m[1]] && !inStatement.MatchString(step), strings.Contains(step, "AUTOMATIC"):
			return step
		}
	}
	if sorts != "" && !equal && hasSearch(steps) {
		return sorts
	}
	return ""
}

func hasSearch(steps []string) bool {
	for _, step := range steps {
		if strings.HasPrefix(step, "SEARCH ") {
			return true
		}
	}
	return false
}

// chosen names the index that a statement must use where SQLite could also pick a useless one:
// EXPLAIN calls both a search.
var chosen = map[string]string{
	"SELECT id FROM uploads WHERE ended_at > 0 AND":               "uploads_ended",
	"SELECT id FROM operations WHERE state IN ('done', 'failed')": "operations_ended",
	"SELECT DISTINCT collect_id FROM collected WHERE state":       "collected_open",
}

// What housekeeping looks for each hour it finds by the index that was made for it.
func TestHousekeepingTakesItsIndexes(t *testing.T) {
	t.Parallel()
	statements := recordedStatements(t, sqldb.SQLite)
	db := sqldbtest.Open(t)
	for text, index := range chosen {
		found := false
		for _, s := range statements {
			if !strings.HasPrefix(s.Text, text) {
				continue
			}
			found = true
			steps, err := planOnSQLite(t, db, s)
			if err != nil || !strings.Contains(strings.Join(steps, "; "), index+" ") {
				t.Errorf("%s: %v, %v; want %s\n%s", s.From, steps, err, index, s.Text)
			}
		}
		if !found {
			t.Errorf("nothing begins with %q any more", text)
		}
	}
}
