package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/fsck"
)

// opened is an installation without running engines, its control, and its API as a network server.
func opened(t *testing.T, args ...string) (a *App, control *http.Client, api *httptest.Server) {
	t.Helper()
	a, err := Open(t.Context(), testConfig(t, args...), silent)
	if err != nil {
		t.Fatal(err)
	}
	api = httptest.NewServer(a.api("test", server.NewLimiter[drive.UserID](32)).Handler())
	control, done := a.serveInProcess(t.Context())
	t.Cleanup(func() {
		api.Close()
		if err := done(); err != nil {
			t.Error(err)
		}
	})
	return a, control, api
}

// request speaks with the API as a user; it returns the status.
func request(t *testing.T, api *httptest.Server, token, method, path, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, api.URL+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := api.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}

// A user who was deleted 30 days ago leaves nothing: no row, no file, no staged byte. Others keep
// theirs.
func TestADeletedUserIsPurged(t *testing.T) {
	t.Parallel()
	a, control, api := opened(t, "--min-free", "0", "--blob-grace", "0")
	var doomed string
	for _, name := range []string{"doomed", "stays"} {
		made, err := ask(t, control, http.MethodPost, "/api/v1/admin/users", map[string]any{"name": name, "password": "correct horse"})
		if err != nil {
			t.Fatal(err)
		}
		token := loginAs(t, api, name)
		if name == "doomed" {
			doomed = made["id"].(string)
		}
		for path, content := range map[string]string{"/files/a/b/" + name + "?parents=true": name, "/files/shared": "the same bytes"} {
			if got := request(t, api, token, http.MethodPut, path, content); got != http.StatusCreated {
				t.Fatalf("PUT %s: %d", path, got)
			}
		}
		if got := request(t, api, token, http.MethodPost, "/uploads", `{"path":"/open","size":5}`); got != http.StatusCreated {
			t.Fatalf("begin: %d", got)
		}
		var file string
		if err := a.platform.db.QueryRow(t.Context(), `SELECT n.id FROM nodes n JOIN users u ON u.account_id = n.account_id
			WHERE u.name = ? AND n.name = 'shared'`, name).Scan(&file); err != nil {
			t.Fatal(err)
		}
		for path, body := range map[string]string{
			"/shares": fmt.Sprintf(`{"node":%q,"code":"auto"}`, file), "/collects": `{"folder":"root","title":"in"}`,
		} {
			if got := request(t, api, token, http.MethodPost, path, body); got != http.StatusCreated {
				t.Fatalf("POST %s: %d", path, got)
			}
		}
	}
	account := accountOf(t, a, doomed)
	if _, err := ask(t, control, http.MethodDelete, "/api/v1/admin/users/"+doomed, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.housekeeping.runJobs(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if n := rows(t, a, account); n == 0 {
		t.Fatal("the user was purged at once")
	}
	write(t, a, `UPDATE users SET deleted_at = deleted_at - 31 * 24 * 3600 * 1000 WHERE deleted_at > 0`)
	for range 2 { // it may be interrupted and run again
		if _, err := a.housekeeping.runJobs(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if n := rows(t, a, account); n != 0 {
		t.Errorf("%d rows are left of the account", n)
	}
	if _, err := a.unlinker.DeleteDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	contents := 0
	err := a.platform.storage.store.List(t.Context(), func(blob.Entry) error { contents++; return nil })
	if err != nil || contents != 2 {
		t.Errorf("%d contents are there, not the two of the other user, %v", contents, err)
	}
	if n := countFiles(t, a.platform.cfg.Data, "staging"); n != 2 {
		t.Errorf("%d staged files are there, not the data and the journal of one upload", n)
	}
	report, err := a.console().fsck(t.Context(), fsck.Scope{Deep: true})
	if err != nil || !report.Clean() {
		t.Errorf("fsck: %+v, %v", report, err)
	}
}

func loginAs(t *testing.T, api *httptest.Server, name string) (token string) {
	t.Helper()
	body := fmt.Sprintf(`{"name":%q,"password":"correct horse"}`, name)
	resp, err := api.Client().Post(api.URL+"/api/v1/sessions", "application/json", strings.NewReader(body)) //nolint:noctx // a test's own server
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var login struct{ Token string }
	if err := json.NewDecoder(resp.Body).Decode(&login); err != nil || login.Token == "" {
		t.Fatalf("log in: %s, %v", resp.Status, err)
	}
	return login.Token
}

func accountOf(t *testing.T, a *App, user string) (account string) {
	t.Helper()
	if err := a.platform.db.QueryRow(t.Context(), `SELECT account_id FROM users WHERE id = ?`, user).Scan(&account); err != nil {
		t.Fatal(err)
	}
	return account
}

// rows counts the account's rows in all tables that have an account column.
func rows(t *testing.T, a *App, account string) (n int) {
	t.Helper()
	err := a.platform.db.QueryRow(t.Context(), `SELECT (SELECT COUNT(*) FROM accounts WHERE id = ?1) + (SELECT COUNT(*) FROM users WHERE account_id = ?1) +
		(SELECT COUNT(*) FROM ledgers WHERE account_id = ?1) + (SELECT COUNT(*) FROM trees WHERE account_id = ?1) +
		(SELECT COUNT(*) FROM nodes WHERE account_id = ?1) + (SELECT COUNT(*) FROM versions WHERE account_id = ?1) +
		(SELECT COUNT(*) FROM tombstones WHERE account_id = ?1) + (SELECT COUNT(*) FROM operations WHERE account_id = ?1) +
		(SELECT COUNT(*) FROM uploads WHERE account_id = ?1) + (SELECT COUNT(*) FROM shares WHERE account_id = ?1) +
		(SELECT COUNT(*) FROM collects WHERE account_id = ?1) + (SELECT COUNT(*) FROM collected WHERE account_id = ?1)`, account).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func write(t *testing.T, a *App, statement string) {
	t.Helper()
	err := a.platform.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, statement)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func countFiles(t *testing.T, dirs ...string) (n int) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dirs...), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// An administrator lists a timer whose handler failed permanently, and replays it: it is armed
// again under the generation that it had when it failed.
func TestADeadTimerIsReplayed(t *testing.T) {
	t.Parallel()
	a, control, _ := opened(t)
	key := timer.Key{Kind: timer.Park, ID: uuid.Must(uuid.NewV7())}
	if err := a.timers.onDead(t.Context(), timer.Fired{Key: key, Gen: 7, Attempt: 5}, errors.New("boom")); err != nil {
		t.Fatal(err)
	}
	dead, err := ask(t, control, http.MethodGet, "/api/v1/admin/dead-letters", nil)
	if err != nil {
		t.Fatal(err)
	}
	items := dead["items"].([]any)
	if len(items) != 1 || items[0].(map[string]any)["failures"] != 5.0 {
		t.Fatalf("dead letters: %v", dead)
	}
	consumers := a.transport.consumers()
	runOnce(t, consumers) // from now on they read
	if _, err := ask(t, control, http.MethodPost, "/api/v1/admin/dead-letters/"+items[0].(map[string]any)["id"].(string)+"/replay", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.timers.engine.Show(t.Context(), key); !drive.IsKind(err, drive.NotFound) {
		t.Fatalf("the timer is there before its replay: %v", err)
	}
	runOnce(t, consumers)
	state, err := a.timers.engine.Show(t.Context(), key)
	if err != nil || state.Gen != 7 {
		t.Errorf("the timer is %+v, %v", state, err)
	}
}

// The purge of a user with a wrong balance fails; other users are purged all the same.
func TestFailedPurgeDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	a, control, _ := opened(t)
	accounts := map[string]string{}
	for i, name := range []string{"broken", "doomed"} {
		made, err := ask(t, control, http.MethodPost, "/api/v1/admin/users", map[string]any{"name": name, "password": "correct horse"})
		if err != nil {
			t.Fatal(err)
		}
		id := made["id"].(string)
		accounts[name] = accountOf(t, a, id)
		if _, err := ask(t, control, http.MethodDelete, "/api/v1/admin/users/"+id, nil); err != nil {
			t.Fatal(err)
		}
		write(t, a, fmt.Sprintf("UPDATE users SET deleted_at = %d WHERE id = '%s'", 1+i, id)) // in this order
	}
	write(t, a, fmt.Sprintf("UPDATE ledgers SET finished = 1 WHERE account_id = '%s'", accounts["broken"]))
	if _, err := a.housekeeping.runJobs(t.Context(), time.Hour); err == nil {
		t.Error("a user was purged who has something")
	}
	if n := rows(t, a, accounts["doomed"]); n != 0 {
		t.Errorf("%d rows are left of the other user", n)
	}
	write(t, a, fmt.Sprintf("UPDATE ledgers SET finished = 0 WHERE account_id = '%s'", accounts["broken"]))
	if _, err := a.housekeeping.runJobs(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	if n := rows(t, a, accounts["broken"]); n != 0 {
		t.Errorf("%d rows are left of the user whose balance is right again", n)
	}
}

func runOnce(t *testing.T, consumers []*stream.Runner) {
	t.Helper()
	for _, c := range consumers {
		if _, err := c.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The ballast that was given up comes back with the housekeeping.
func TestHousekeepingPlacesTheBallast(t *testing.T) {
	t.Parallel()
	a, _, _ := opened(t)
	statBallast(t, a.platform.cfg.Data)
	dropBallast(a.platform.cfg.Data)
	if _, err := a.housekeeping.runJobs(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	statBallast(t, a.platform.cfg.Data)
}

// A run that ends before it came to all chores, because many took as long as they may, is gone on
// with where it ended: those at the end of the list have their turn, too.
func TestInterruptedRunContinues(t *testing.T) {
	t.Parallel()
	var did []string
	h := &housekeeping{}
	run := func(last string) remaining {
		did = nil
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var all []job
		for _, name := range []string{"a", "b", "c", "d"} {
			all = append(all, oneShot(func(ctx context.Context) error {
				did = append(did, name)
				if name == last {
					end()
				}
				return ctx.Err()
			}))
		}
		l, _ := h.runAll(ctx, all, time.Hour)
		return l
	}
	for _, want := range []struct{ last, did string }{{"b", "ab"}, {"c", "bc"}, {"c", "c"}, {"a", "cda"}, {"", "abcd"}, {"", "abcd"}} {
		l := run(want.last)
		if got := strings.Join(did, ""); got != want.did {
			t.Errorf("a run that ends at %q did %q, want %q", want.last, got, want.did)
		}
		if l.cut != (want.last != "") {
			t.Errorf("a run that ends at %q: %+v", want.last, l)
		}
	}
}

// A housekeeping run that is interrupted reports the jobs that failed before. Otherwise a job that
// always fails would stay unreported if every run is interrupted.
func TestInterruptedRunReportsFailures(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	fails := errors.New("the disk is full")
	all := []job{
		oneShot(func(context.Context) error { return fails }),
		oneShot(func(ctx context.Context) error {
			end()
			return ctx.Err()
		}),
	}
	if l, err := (&housekeeping{}).runAll(ctx, all, time.Hour); !l.cut || !errors.Is(err, fails) || errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", l, err)
	}
}

// A long job, such as the purge of an account with ten million files, is interrupted and continued
// soon, so that every other job gets its turn.
func TestSlowJobDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	forever := job(func(ctx context.Context) (bool, error) {
		<-ctx.Done()
		return false, ctx.Err()
	})
	if more, cut, err := forever.runWithin(t.Context(), time.Millisecond); !more || !cut || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that never ends: %v, %v, %v", more, cut, err)
	}
	a, _, _ := opened(t)
	if l, err := a.housekeeping.runJobs(t.Context(), time.Nanosecond); !l.cut || err != nil {
		t.Errorf("without time: %+v, %v", l, err)
	}
	if l, err := a.housekeeping.runJobs(t.Context(), time.Hour); l.cut || err != nil {
		t.Errorf("with time: %+v, %v", l, err)
	}
	for want, l := range map[time.Duration]remaining{purgeEvery: {}, purgeSoon: {more: true}, purgeAgain: {more: true, cut: true}} {
		if got := l.delay(nil); got != want {
			t.Errorf("%+v comes again in %v", l, got)
		}
	}
	if got := (remaining{more: true}).delay(io.ErrUnexpectedEOF); got != purgeAgain {
		t.Errorf("with more to do beside one that failed it comes again in %v", got)
	}
}

// The copy of the day is made beside the housekeeping, and not in an installation that was put back
// and is still to be checked.
func TestDailyCopyIsMade(t *testing.T) {
	t.Parallel()
	a, _, _ := opened(t)
	copies := func() (n int) {
		all, err := filepath.Glob(filepath.Join(a.platform.cfg.Data, snapshotDir, "*.db"))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	for _, restored := range []bool{true, false} {
		a.platform.Restored = restored
		if err := a.housekeeping.copy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := copies(); (n == 1) == restored {
			t.Errorf("restored: %v, and there are %d copies", restored, n)
		}
	}
}
