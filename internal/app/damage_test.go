package app

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/test/process"
)

// damagePage fills the root page of a table or an index with the same byte, in the database of a
// server that is stopped. It returns what undoes that.
func damagePage(t *testing.T, cfg config.Config, name string, fill byte) (repair func()) {
	t.Helper()
	path := filepath.Join(cfg.Data, databaseFile)
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	var page, size int64
	err = db.QueryRowContext(t.Context(), `SELECT s.rootpage, p.page_size FROM sqlite_schema AS s, pragma_page_size() AS p WHERE s.name = ?`, name).Scan(&page, &size)
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	was := make([]byte, size)
	if _, err := f.ReadAt(was, (page-1)*size); err != nil {
		t.Fatal(err)
	}
	write := func(f *os.File, b []byte) {
		if _, err := f.WriteAt(b, (page-1)*size); err != nil {
			t.Fatal(err)
		}
	}
	write(f, bytes.Repeat([]byte{fill}, int(size)))
	return func() {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		write(f, was)
	}
}

// restarted is an installation after a restart, with its control socket and its API.
type restarted struct {
	*App
	control *http.Client
	api     *httptest.Server
	close   func()
}

func restart(t *testing.T, cfg config.Config) restarted {
	t.Helper()
	a, err := Open(t.Context(), cfg, silent)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := a.server(t.Context(), a.api("test", server.NewLimiter[drive.UserID](32)), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(srv)
	control, done := a.serveInProcess(t.Context())
	closed := false
	end := func() {
		if closed {
			return
		}
		closed = true
		api.Close()
		if err := done(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	return restarted{a, control, api, end}
}

// get returns the status and the body of an answer.
func (r restarted) get(t *testing.T, token, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.api.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := r.api.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// withFolder is an installation with a user who has a folder /f.
func withFolder(t *testing.T) (cfg config.Config, token string) {
	t.Helper()
	cfg = testConfig(t)
	r := restart(t, cfg)
	if _, err := ask(t, r.control, http.MethodPost, "/api/v1/admin/users", map[string]any{"name": "ann", "password": "correct horse"}); err != nil {
		t.Fatal(err)
	}
	token = loginAs(t, r.api, "ann")
	if s := request(t, r.api, token, http.MethodPost, "/nodes", `{"type":"folder","path":"/f"}`); s != http.StatusCreated {
		t.Fatal(s)
	}
	r.close()
	return cfg, token
}

// The audit and fsck find damaged pages of a SQLite database, whatever the pages contain. /readyz
// and a metric report the damage, nothing is deleted or repaired, no reply says that an item does
// not exist, and fsck names the remedy. After the file is repaired, all reports end.
func TestADamagedDatabaseIsDiagnosed(t *testing.T) {
	t.Parallel()
	cfg, token := withFolder(t)
	for _, page := range []string{"nodes_trash", "findings", "findings_subject", "users_deleted"} {
		repair := damagePage(t, cfg, page, 0x55)
		r := restart(t, cfg)
		if status, body := r.get(t, token, "/api/v1/nodes?path=/g"); status != http.StatusNotFound {
			t.Errorf("%s: before the check %d %s", page, status, body)
		}
		report, err := r.auditor.RunOnce(t.Context())
		if err != nil || !report.DatabaseDamaged || report.Clean() || report.Total != 1 || report.Findings[0].Invariant != "S1" {
			t.Errorf("%s: the audit says %+v, %v", page, report, err)
		}
		found, err := ask(t, r.control, http.MethodPost, RouteFsck, map[string]any{"repair": true})
		if err != nil || found["database_damaged"] != true || found["complete"] != false || found["repaired"] != 0.0 {
			t.Errorf("%s: fsck says %v, %v", page, found, err)
		}
		if status, body := r.get(t, token, "/readyz"); status != http.StatusOK || !strings.Contains(body, `"database-pages":"failing"`) {
			t.Errorf("%s: readyz says %d %s", page, status, body)
		}
		if status, body := r.get(t, token, "/api/v1/nodes?path=/g"); status != http.StatusServiceUnavailable || !strings.Contains(body, "database is damaged") {
			t.Errorf("%s: of what its rows do not show it says %d %s", page, status, body)
		}
		m := telemetry.NewMetrics()
		observeAudit(m, r.auditor)
		if text := figuresOf(t, m); !strings.Contains(text, "smartdrive_database_damaged 1\n") || strings.Contains(text, "smartdrive_database_checked_timestamp_seconds 0\n") {
			t.Errorf("%s: the figures are\n%s", page, text)
		}
		if _, err := r.housekeeping.runJobs(t.Context(), jobTime); err != nil {
			t.Errorf("%s: the housekeeping: %v", page, err)
		}
		r.close()
		repair()
	}
	r := restart(t, cfg)
	if report, err := r.auditor.RunOnce(t.Context()); err != nil || !report.Clean() || r.auditor.DatabaseDamaged() {
		t.Errorf("of a file that is whole again the audit says %+v, %v", report, err)
	}
	if status, body := r.get(t, token, "/readyz"); !strings.Contains(body, `"database-pages":"ok"`) {
		t.Errorf("readyz says %d %s", status, body)
	}
}

// A read or write that meets a damaged page fails with a plain message and starts a check of the
// whole file.
func TestAnAccessToADamagedPage(t *testing.T) {
	t.Parallel()
	cfg, token := withFolder(t)
	for _, page := range []string{"nodes", "trees", "nodes_slot", "sessions"} {
		repair := damagePage(t, cfg, page, 0)
		r := restart(t, cfg)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.auditor.RunPageChecks(ctx) }()
		status, body := r.get(t, token, "/api/v1/nodes?path=/f")
		if status != http.StatusServiceUnavailable || !strings.Contains(body, `"reason":"database-damaged"`) || !strings.Contains(body, "database is damaged") {
			t.Errorf("%s: a read is answered %d %s", page, status, body)
		}
		if status := request(t, r.api, token, http.MethodPost, "/nodes", `{"type":"folder","path":"/h"}`); status != http.StatusServiceUnavailable {
			t.Errorf("%s: a write is answered %d", page, status)
		}
		process.Eventually(t, time.Minute, "the damage is known", func() error {
			if !r.auditor.DatabaseDamaged() {
				return errors.New("the checker has found nothing")
			}
			return nil
		})
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.close()
		repair()
	}
}

// A server that cannot start on a damaged database, and a command on it, name the way out; and the
// way by the daily copy ends with everything in its place.
func TestDamageInstructions(t *testing.T) {
	t.Parallel()
	cfg, token := withFolder(t)
	r := restart(t, cfg)
	if err := r.platform.snapshot(t.Context(), r.platform.kept.Now()); err != nil {
		t.Fatal(err)
	}
	r.close()
	damagePage(t, cfg, "meta", 0x55)
	_, openErr := Open(t.Context(), cfg, silent)
	_, _, reachErr := ConnectControl(t.Context(), cfg, silent)
	for _, err := range []error{openErr, reachErr} {
		if err == nil || !strings.Contains(err.Error(), "is damaged") || !strings.Contains(err.Error(), ".recover") || !strings.Contains(err.Error(), filepath.Join(cfg.Data, snapshotDir)) {
			t.Errorf("it says %v", err)
		}
	}
	path := filepath.Join(cfg.Data, databaseFile)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	copies, err := filepath.Glob(filepath.Join(cfg.Data, snapshotDir, "*.db"))
	if err != nil || len(copies) != 1 {
		t.Fatalf("%v, %v", copies, err)
	}
	b, err := os.ReadFile(copies[0])
	if err = errors.Join(err, os.WriteFile(path, b, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Adopt(t.Context(), cfg, silent); err != nil {
		t.Fatal(err)
	}
	r = restart(t, cfg)
	if found, err := ask(t, r.control, http.MethodPost, RouteFsck, map[string]any{}); err != nil || found["ended_restored"] != true {
		t.Errorf("fsck says %v, %v", found, err)
	}
	if status, body := r.get(t, token, "/api/v1/nodes?path=/f"); status != http.StatusOK {
		t.Errorf("the folder: %d %s", status, body)
	}
}
