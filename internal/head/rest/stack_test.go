package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/growth"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/domain/star"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/export"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/intake/ingest"
	"example.org/smartdrive/internal/usecase/admin"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/bulk"
	"example.org/smartdrive/internal/usecase/collect"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/handover"
	"example.org/smartdrive/internal/usecase/history"
	"example.org/smartdrive/internal/usecase/notify"
	"example.org/smartdrive/internal/usecase/setting"
	"example.org/smartdrive/internal/usecase/share"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
	"example.org/smartdrive/internal/usecase/webhook"
)

// stack is the API on real parts, behind the server's middleware, under a virtual clock.
type stack struct {
	*uploadtest.Site
	api     *rest.API
	server  *server.Server
	files   *files.Files
	bulk    *bulk.Bulk
	letters *outbox.Outbox
	exports *export.Exports
	intake  *ingest.Intake
	teller  *notify.Notifier

	downloads *history.Downloads
}

const password = "correct horse"

// callers is the number of concurrent requests: twice the connections of a test's database. With
// more, requests would only wait longer for a connection than a transaction takes.
const callers = 16

func newStack(t testing.TB, opt uploadtest.Options, change ...func(*rest.Options)) *stack {
	t.Helper()
	return newStackOf(t, opt, files.Options{}, change...)
}

// newStackOf is newStack with use cases of files that work in other steps.
func newStackOf(t testing.TB, opt uploadtest.Options, steps files.Options, change ...func(*rest.Options)) *stack {
	t.Helper()
	s := &stack{Site: uploadtest.New(t, opt)}
	now := s.Clock.Now
	accounts := account.Options{Cost: account.Cost{MemoryKiB: 64, Passes: 1, Threads: 1}, Now: now, Happened: history.AccountHook(s.Activity)}
	auth := account.NewAuth(s.DB, accounts)
	users := account.NewUsers(s.DB, auth, accounts)
	prepared, err := idem.OpenPreparedIDs(t.Context(), s.DB, idem.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is published while tests read records, so the reader need not wait for rolled-back
	// offsets.
	s.letters = outbox.New(s.DB, outbox.Options{Source: "smartdrive/test", Now: now, GapTime: time.Nanosecond})
	secret := vault.New(vault.Options{DB: s.DB, Keys: []vault.Key{vault.NewKey()}, Now: now})
	if err := secret.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys := idem.NewKeys(s.DB, idem.Options{Now: now, Sealer: secret})
	s.downloads = history.NewDownloads(history.Parts{DB: s.DB, Log: s.Activity, Tree: s.Tree}, now, nil)
	s.files = files.New(files.Options{
		DB: s.DB, Tree: s.Tree, Content: s.Content, Store: s.Local.Blobs, Now: now, Access: s.Access, OnDownload: s.downloads.File,
		Batch: steps.Batch, Direct: steps.Direct, OnStart: steps.OnStart,
		OnHandover: func(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, after string, limit int) (string, error) {
			return s.intake.Unfile(ctx, tx, account, after, limit)
		},
	})
	var handovers *handover.Handovers
	busy := func(ctx context.Context, q sqldb.Querier, id drive.AccountID) error {
		return handovers.Busy(ctx, q, id)
	}
	o := rest.Options{
		DB: s.DB, Uploads: s.Sessions, Files: s.files, Links: files.NewLinks(s.files, files.LinkOptions{Epochs: users, Secret: secret.LinkSecret}),
		Shelf: files.NewQuickAccess(s.files, star.New(s.DB, now)), Now: now,
		AccountParts: rest.AccountParts{Auth: auth, Users: users, Sessions: account.NewSessions(s.DB, users, auth, accounts)},
		KeyParts:     rest.KeyParts{Keys: keys, Prepared: prepared, Conflicts: idem.NewConflicts(s.DB, idem.Options{Now: now})},
		LimitParts:   rest.LimitParts{DoubleClicks: idem.NewClickLimiter(idem.Options{Now: now}), Requests: server.NewLimiter[drive.UserID](32)},
		AdminParts: rest.AdminParts{
			Admin:       admin.New(admin.Parts{DB: s.DB, Users: users, Trees: s.Tree, Access: s.Access, Keys: keys, Busy: busy}, admin.Options{}),
			DeadLetters: s.letters, Timers: timer.New(timer.Options{Queue: s.Queue}), Growth: growth.New(s.DB, now),
			Settings: setting.New(setting.Parts{DB: s.DB, Users: users, Live: setting.NewLive(config.Config{}), Log: slog.New(slog.DiscardHandler), Now: now, Activity: s.Activity}),
		},
	}
	told := notify.Parts{DB: s.DB, Notices: notice.New(notice.Options{DB: s.DB, Now: now}), Access: s.Access, Users: users, Tree: s.Tree, Log: s.Activity, Now: now}
	s.teller, o.Notices = notify.NewNotifier(told, true), notify.NewInbox(told, true)
	o.Spaces = space.New(space.Parts{DB: s.DB, Access: s.Access, Users: users, Tree: s.Tree, Log: s.Activity, Events: s.letters, Busy: busy}, space.Options{Now: now})
	o.Downloads = s.downloads
	o.History = history.New(history.Parts{DB: s.DB, Log: s.Activity, Access: s.Access, Users: users, Tree: s.Tree})
	o.Webhooks = webhook.New(webhook.Parts{DB: s.DB, Log: s.Activity, Access: s.Access, Tree: s.Tree, Vault: secret}, webhook.Options{Source: "smartdrive/test", Now: now})
	o.Shares = share.New(share.Options{DB: s.DB, Access: s.Access, Tree: s.Tree, Users: users, Vault: secret, Now: now, Log: s.Activity})
	o.Bulk = bulk.New(bulk.Options{DB: s.DB, Tree: s.Tree, Files: s.files, Shares: o.Shares, Now: now, MaxImmediate: 3})
	s.bulk = o.Bulk
	o.Batches = batch.New(batch.Options{DB: s.DB, Tree: s.Tree, Uploads: s.Sessions, Files: s.files, Keys: keys})
	o.Collects = collect.New(collect.Options{DB: s.DB, Access: s.Access, Tree: s.Tree, Users: users, Vault: secret, Now: now, Log: s.Activity})
	handovers = handover.New(handover.Parts{
		DB: s.DB, Users: users, Access: s.Access, Tree: s.Tree, Files: s.files, Shares: o.Shares, Collects: o.Collects, Uploads: s.Sessions,
		Activity: s.Activity,
	})
	o.Handovers = handovers
	s.exports = export.New(export.Options{
		DB: s.DB, Tree: s.Tree, Store: s.Local.Blobs, Users: users, Secret: secret.LinkSecret, MinFree: -1, Log: slog.New(slog.DiscardHandler),
		Clock: func(context.Context) (drive.Time, error) { return drive.TimeOf(now()), nil },
	})
	o.Exports = s.exports
	s.intake = ingest.New(ingest.Options{
		DB: s.DB, Tree: s.Tree, Store: s.Local.Blobs, Log: slog.New(slog.DiscardHandler),
		Clock: func(context.Context) (drive.Time, error) { return drive.TimeOf(now()), nil },
	})
	o.Intake = s.intake
	for _, fn := range change {
		fn(&o)
	}
	if _, _, err := o.Admin.EnsureFirstUser(t.Context(), password, nil); err != nil {
		t.Fatal(err)
	}
	s.api = rest.New(o)
	mux := http.NewServeMux()
	s.api.Register(mux)
	s.server = server.New(server.Options{Routes: mux, Log: slog.New(slog.DiscardHandler)})
	return s
}

// request is a request of a test. Body is nil, []byte, a string (JSON), an io.Reader (of unknown
// length), or a value that is sent as JSON.
type request struct {
	method, path string
	token        string
	body         any
	header       map[string]string
	length       int64 // declared, where it differs from the body's; -1 none
}

type response struct {
	*http.Response
	body []byte
}

func (s *stack) do(t testing.TB, in request) response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), in.method, in.path, in.reader(t))
	if _, isJSON := in.body.(string); isJSON || in.isValue() {
		r.Header.Set("Content-Type", "application/json")
	}
	if in.length != 0 {
		r.ContentLength = in.length
	}
	if in.token != "" {
		r.Header.Set("Authorization", "Bearer "+in.token)
	}
	for name, value := range in.header {
		if value == "" {
			r.Header.Del(name)
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	got := response{w.Result(), w.Body.Bytes()}
	conforms(t, in, got)
	return got
}

func (in request) isValue() bool {
	switch in.body.(type) {
	case nil, []byte, string, io.Reader:
		return false
	}
	return true
}

func (in request) reader(t testing.TB) io.Reader {
	switch b := in.body.(type) {
	case nil:
		return nil
	case []byte:
		return bytes.NewReader(b)
	case string:
		return strings.NewReader(b)
	case io.Reader:
		return b
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.NewReader(raw)
	}
}

// user is a logged-in user.
type user struct {
	*stack
	name, id, token string
}

func (s *stack) login(t testing.TB, name string) user {
	t.Helper()
	u := user{stack: s, name: name}
	got := s.do(t, request{method: "POST", path: "/api/v1/sessions", body: map[string]string{"name": name, "password": password}})
	u.token = got.json(t, http.StatusCreated)["token"].(string)
	me := u.get(t, "/me").json(t, http.StatusOK)
	u.id = me["user"].(map[string]any)["id"].(string)
	return u
}

func (s *stack) admin(t testing.TB) user { return s.login(t, admin.FirstUser) }

// newUser creates a user and logs in. A total of 0 stands for the default quota.
func (s *stack) newUser(t testing.TB, name string, total drive.ByteSize) user {
	t.Helper()
	in := map[string]any{"name": name, "password": password}
	if total > 0 {
		in["total"] = total
	}
	s.admin(t).post(t, "/admin/users", in).json(t, http.StatusCreated)
	return s.login(t, name)
}

func (u user) send(t testing.TB, method, path string, body any, header ...string) response {
	t.Helper()
	in := request{method: method, path: "/api/v1" + path, token: u.token, body: body, header: map[string]string{}}
	for i := 0; i+1 < len(header); i += 2 {
		in.header[header[i]] = header[i+1]
	}
	return u.do(t, in)
}

func (u user) get(t testing.TB, path string, header ...string) response {
	t.Helper()
	return u.send(t, "GET", path, nil, header...)
}

func (u user) post(t testing.TB, path string, body any, header ...string) response {
	t.Helper()
	return u.send(t, "POST", path, body, header...)
}

// put stores a small file and returns its node.
func (u user) put(t testing.TB, path string, content []byte) map[string]any {
	t.Helper()
	got := u.send(t, "PUT", "/files"+path+"?parents=true", content)
	if got.StatusCode != http.StatusCreated && got.StatusCode != http.StatusOK {
		t.Fatalf("PUT %s: %s", path, got)
	}
	return got.json(t, got.StatusCode)
}

func (r response) String() string { return fmt.Sprintf("%d %s", r.StatusCode, r.body) }

// json returns the body of a response that must have the status.
func (r response) json(t testing.TB, status int) map[string]any {
	t.Helper()
	if r.StatusCode != status {
		t.Fatalf("the status is %d, want %d: %s", r.StatusCode, status, r.body)
	}
	var doc map[string]any
	if err := json.Unmarshal(r.body, &doc); err != nil {
		t.Fatalf("read %s: %v", r.body, err)
	}
	return doc
}

// problem checks that the response is that problem, with the members given, and returns it.
func (r response) problem(t testing.TB, kind drive.Kind, want map[string]any) map[string]any {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("it is no problem but %q: %s", got, r)
	}
	doc := r.json(t, r.StatusCode)
	if doc["code"] != kind.String() || doc["status"] != float64(r.StatusCode) {
		t.Fatalf("the problem is %s, want %s", r, kind)
	}
	for name, value := range want {
		if got, want := asJSON(t, doc[name]), asJSON(t, value); got != want {
			t.Fatalf("%s is %s, want %s: %s", name, got, want, r)
		}
	}
	return doc
}

// forge returns a token, or an address that ends in one, with other characters in the place of its
// last n.
func forge(token string, n int) string {
	good := token[len(token)-n:]
	bad := strings.Repeat("A", n)
	if bad == good { // as one signature in many ends
		bad = strings.Repeat("Q", n)
	}
	return token[:len(token)-n] + bad
}

// asJSON makes values comparable that came from JSON with such that did not.
func asJSON(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// items returns the items of a page.
func (r response) items(t testing.TB) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, item := range r.json(t, http.StatusOK)["items"].([]any) {
		all = append(all, item.(map[string]any))
	}
	return all
}
