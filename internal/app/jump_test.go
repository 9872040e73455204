package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
)

// The clocks of the machine and of the database have jumped 100 days ahead when the server starts.
// Housekeeping and all other jobs delete nothing, neither rows nor files. After 100 real days they
// delete everything that is due.
func TestAClockThatJumpsDeletesNothing(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, "--min-free", "0")
	a := reopened(t, cfg, func(*App) {})
	fillWithOldThings(t, a)

	const jump = 100 * 24 * time.Hour
	agePast(t, a, jump)
	a = reopened(t, cfg, func(a *App) { setKept(t, a, time.Now().Add(-jump)) })
	before, files := countTables(t, a), countFiles(t, cfg.Data, "blobs")
	cleanUp(t, a)
	for table, n := range countTables(t, a) {
		if n < before[table] {
			t.Errorf("a clock that jumped has deleted rows of %s: there were %d, and are %d", table, before[table], n)
		}
	}
	if now := countFiles(t, cfg.Data, "blobs"); now != files {
		t.Errorf("a clock that jumped has deleted files: there were %d, and are %d", files, now)
	}

	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = reopened(t, cfg, func(a *App) { setKept(t, a, time.Now()) })
	cleanUp(t, a)
	after := countTables(t, a)
	for _, table := range []string{
		"nodes", "versions", "tombstones", "users", "accounts", "ledgers", "uploads", "outbox", "idempotency", "sessions", "blobs",
	} {
		if before[table] <= after[table] {
			t.Errorf("of %s there were %d rows, and after the time has really passed there are %d: the test shows nothing of them",
				table, before[table], after[table])
		}
	}
	for table, column := range map[string]string{"released": "released_at", "operations": "updated_at"} { // the cleaning makes new ones
		var old int
		err := a.platform.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM "+table+" WHERE "+column+" < ?", drive.TimeOf(time.Now().Add(-time.Hour))).Scan(&old)
		if err != nil || old > 0 || before[table] == 0 {
			t.Errorf("of %s %d of %d rows are there; error %v", table, old, before[table], err)
		}
	}
}

// reopened opens the installation, calls touch, closes it, and opens it again.
func reopened(t *testing.T, cfg config.Config, touch func(*App)) *App {
	t.Helper()
	a, err := Open(t.Context(), cfg, silent)
	if err == nil {
		touch(a)
		if err = a.Close(); err == nil {
			a, err = Open(t.Context(), cfg, silent)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() }) // a second time does no harm
	return a
}

// setKept sets the retention clock in the database, as if no process had run since then.
func setKept(t *testing.T, a *App, at time.Time) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"time": drive.TimeOf(at), "seen": drive.TimeOf(at), "steady": 0})
	if err != nil {
		t.Fatal(err)
	}
	write(t, a, fmt.Sprintf(`UPDATE meta SET value = '%s' WHERE name = 'retention'`, text))
}

// fillWithOldThings makes one of everything that is kept for a while and then deleted, and closes
// a.
func fillWithOldThings(t *testing.T, a *App) {
	t.Helper()
	api := httptest.NewServer(a.api("test", server.NewLimiter[drive.UserID](32)).Handler())
	defer api.Close()
	control, done := a.serveInProcess(t.Context())
	defer func() { // which closes a
		if err := done(); err != nil {
			t.Error(err)
		}
	}()
	for _, name := range []string{"stays", "leaves"} {
		made, err := ask(t, control, http.MethodPost, "/api/v1/admin/users", map[string]any{"name": name, "password": "correct horse"})
		if err != nil {
			t.Fatal(err)
		}
		token := loginAs(t, api, name)
		for n := range 8 { // versions
			if got := request(t, api, token, http.MethodPut, "/files/versions?conflict=replace", strings.Repeat(name, n+1)); got/100 != 2 {
				t.Fatalf("replace: %d", got)
			}
		}
		for _, path := range []string{"/files/trashed", "/files/gone"} {
			if got := request(t, api, token, http.MethodPut, path, path+name); got != http.StatusCreated {
				t.Fatalf("PUT %s: %d", path, got)
			}
		}
		if got := request(t, api, token, http.MethodDelete, "/nodes/"+nodeOf(t, a, name, "trashed"), ""); got/100 != 2 {
			t.Fatalf("trash: %d", got)
		}
		if got := request(t, api, token, http.MethodDelete, "/nodes/"+nodeOf(t, a, name, "gone")+"?permanent=true", ""); got/100 != 2 {
			t.Fatalf("delete: %d", got)
		}
		if got := request(t, api, token, http.MethodPost, "/uploads", `{"path":"/open","size":5}`); got != http.StatusCreated {
			t.Fatalf("begin: %d", got)
		}
		if name == "leaves" {
			if _, err := ask(t, control, http.MethodDelete, "/api/v1/admin/users/"+made["id"].(string), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(t, a, 3)
	write(t, a, `INSERT INTO operations (id, account_id, user_id, kind, args, state, created_at, updated_at)
		SELECT '0192d000-0000-7000-8000-000000000001', account_id, id, 'copy', '{}', 'done', strftime('%s') * 1000, strftime('%s') * 1000
		FROM users WHERE name = 'stays'`)
	write(t, a, `INSERT INTO idempotency (user_id, method, route, key, fingerprint, status, body, created_at)
		SELECT id, 'POST', '/', 'k', x'00', 201, x'00', strftime('%s') * 1000 FROM users WHERE name = 'stays'`)
	write(t, a, `UPDATE uploads SET state = 'gone', reserved = 0, ended_at = strftime('%s') * 1000 WHERE state = 'active' AND account_id IN (SELECT account_id FROM users WHERE name = 'stays')`)
	write(t, a, `UPDATE ledgers SET reserved = 0 WHERE account_id IN (SELECT account_id FROM users WHERE name = 'stays')`)
}

func nodeOf(t *testing.T, a *App, user, name string) (id string) {
	t.Helper()
	if err := a.platform.db.QueryRow(t.Context(), `SELECT n.id FROM nodes n JOIN users u ON u.account_id = n.account_id WHERE u.name = ? AND n.name = ?`, user, name).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// agePast makes everything older than it is: each number of any row that is a time.
func agePast(t *testing.T, a *App, by time.Duration) {
	t.Helper()
	db, err := Open(t.Context(), a.platform.cfg, silent)
	if err != nil {
		t.Fatal(err)
	}
	for table := range countTables(t, db) {
		for _, column := range strs(t, db, `SELECT name FROM pragma_table_info('`+table+`') WHERE type = 'INTEGER'`) {
			write(t, db, fmt.Sprintf("UPDATE `%s` SET `%s` = `%s` - %d WHERE `%s` BETWEEN 1600000000000 AND 2000000000000",
				table, column, column, by.Milliseconds(), column))
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func strs(t *testing.T, a *App, query string) (all []string) {
	t.Helper()
	rows, err := a.platform.db.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// countTables counts the rows of every table.
func countTables(t *testing.T, a *App) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, table := range strs(t, a, `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'goose_%'`) {
		var rows int
		if err := a.platform.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM `"+table+"`").Scan(&rows); err != nil {
			t.Fatal(err)
		}
		n[table] = rows
	}
	return n
}

// cleanUp runs all jobs that delete, more than once.
func cleanUp(t *testing.T, a *App) {
	t.Helper()
	for range 2 {
		if _, err := a.housekeeping.runJobs(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := a.housekeeping.copy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := a.unlinker.DeleteDue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
