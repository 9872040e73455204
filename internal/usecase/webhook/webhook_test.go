package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/webhook"
)

// fixture is an account with activity and a manual clock.
type fixture struct {
	db    *sqldb.DB
	parts webhook.Parts
	who   drive.Who
	root  drive.NodeID

	mu  sync.Mutex
	now time.Time
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureIn(t, sqldbtest.Open(t))
}

func newFixtureIn(t *testing.T, db *sqldb.DB) *fixture {
	t.Helper()
	y := &fixture{db: db, now: time.UnixMilli(1_800_000_000_000)}
	log := activity.New(activity.Options{DB: y.db, Now: y.clock})
	secrets := vault.New(vault.Options{DB: y.db, Keys: []vault.Key{vault.NewKey()}, Now: y.clock})
	if err := secrets.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	y.parts = webhook.Parts{
		DB: y.db, Log: log, Access: access.New(access.Options{DB: y.db, Now: y.clock}), Vault: secrets,
		Tree: tree.New(tree.Options{Now: y.clock, OnEffect: log.RecordNode}),
	}
	y.who = drive.Who{User: drive.NewID[drive.UserID](), Account: drive.NewID[drive.AccountID]()}
	y.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if _, err := tx.Exec(ctx, "INSERT INTO accounts (id, created_at) VALUES (?, 1)", y.who.Account); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO users (id, account_id, name, slot, password, admin, state, created_at, updated_at)
			VALUES (?, ?, 'ann', 'ann', '', 0, 'active', 1, 1)`, y.who.User, y.who.Account); err != nil {
			return err
		}
		if err := (quota.Ledger{}).Create(ctx, tx, y.who.Account, nil); err != nil {
			return err
		}
		y.root, err = y.parts.Tree.Create(ctx, tx, y.who.Account)
		return err
	})
	return y
}

func (f *fixture) write(t *testing.T, fn func(context.Context, *sqldb.Tx) error) {
	t.Helper()
	if err := f.db.Write(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// mkdir creates folders, each in its own transaction.
func (f *fixture) mkdir(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			tx.SetActor(f.who)
			if err := (quota.Ledger{}).Lock(ctx, tx, f.who.Account); err != nil {
				return err
			}
			_, err := f.parts.Tree.CreateFolder(ctx, tx, f.who.Account, tree.Place{Parent: f.root, Name: drive.Name(name)})
			return err
		})
	}
}

func (f *fixture) hooks() *webhook.Webhooks {
	return webhook.New(f.parts, webhook.Options{Source: "smartdrive/test", Now: f.clock, Transport: http.DefaultTransport, Log: slog.New(slog.DiscardHandler)})
}

func (f *fixture) hook(t *testing.T, w *webhook.Webhooks, url string, types ...string) webhook.Hook {
	t.Helper()
	h, err := w.Create(t.Context(), f.who, webhook.HookChange{URL: &url, Types: &types}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// request is one request that a receiver got.
type request struct{ id, name string }

// receiver records requests and responds as answer says.
type receiver struct {
	*httptest.Server

	mu     sync.Mutex
	all    []request
	answer func(n int, name string) int
	secret string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{answer: func(int, string) int { return http.StatusNoContent }}
	r.Server = httptest.NewServer(http.HandlerFunc(func(res http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		var ev struct {
			ID, Type string
			Data     struct{ Name string }
		}
		if err := json.Unmarshal(body, &ev); err != nil {
			t.Error(err)
		}
		id := req.Header.Get("Webhook-Id")
		r.mu.Lock()
		defer r.mu.Unlock()
		if want := sign(r.secret, id, req.Header.Get("Webhook-Timestamp"), body); r.secret != "" && want != req.Header.Get("Webhook-Signature") || ev.ID != id {
			t.Errorf("the signature is %s, want %s; the event is %s", req.Header.Get("Webhook-Signature"), want, body)
		}
		r.all = append(r.all, request{id, ev.Data.Name})
		res.WriteHeader(r.answer(len(r.all), ev.Data.Name))
	}))
	t.Cleanup(r.Close)
	return r
}

// sign is an independent implementation of the signature.
func sign(secret, id, timestamp string, body []byte) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err.Error()
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "." + string(body)))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func (r *receiver) names() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.all {
		all = append(all, g.name)
	}
	return all
}

func wantNames(t *testing.T, want, got []string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func sendAll(t *testing.T, w *webhook.Webhooks) {
	t.Helper()
	if err := webhook.SendDue(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

// TestRefusedAddressesAreNotTaken: a webhook to an address that no event can be sent to is refused
// when it is created, and when its address changes.
func TestRefusedAddressesAreNotTaken(t *testing.T) {
	t.Parallel()
	y := newFixture(t)
	w := webhook.New(y.parts, webhook.Options{Now: y.clock, Refuses: func(_ context.Context, host string) bool { return host == "10.1.2.3" }})
	refused, allowed := "http://10.1.2.3:80/hook", "http://hook.example.org"
	if _, err := w.Create(t.Context(), y.who, webhook.HookChange{URL: &refused}, nil); drive.KindOf(err) != drive.BadRequest {
		t.Errorf("created with %v", err)
	}
	h, err := w.Create(t.Context(), y.who, webhook.HookChange{URL: &allowed}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Change(t.Context(), y.who, h.ID, webhook.HookChange{URL: &refused}); drive.KindOf(err) != drive.BadRequest {
		t.Errorf("changed with %v", err)
	}
	if h, err = w.Find(t.Context(), y.who, h.ID); err != nil || h.URL != allowed {
		t.Errorf("the webhook is at %s: %v", h.URL, err)
	}
}

// TestEventsAreSentInOrder: a receiver gets the requested events in order and signed. A refused
// event is sent again with the same id, and later events wait.
func TestEventsAreSentInOrder(t *testing.T) {
	t.Parallel()
	y, r := newFixture(t), newReceiver(t)
	w := y.hooks()
	y.mkdir(t, "before")
	r.secret = y.hook(t, w, r.URL, "node").Secret
	y.mkdir(t, "a", "b", "c")
	r.answer = func(n int, name string) int {
		if name == "b" && n < 4 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	sendAll(t, w)
	wantNames(t, []string{"a", "b"}, r.names())
	sendAll(t, w) // not due yet
	wantNames(t, []string{"a", "b"}, r.names())
	y.advance(5 * time.Second)
	sendAll(t, w)
	y.advance(time.Minute)
	sendAll(t, w)
	wantNames(t, []string{"a", "b", "b", "b", "c"}, r.names())
	if r.all[1].id != r.all[2].id || r.all[2].id != r.all[3].id || r.all[0].id == r.all[1].id {
		t.Errorf("the ids are %v", r.all)
	}
	sendAll(t, w)
	wantNames(t, []string{"a", "b", "b", "b", "c"}, r.names())
}

// TestTurnEndsForOthers: a slow receiver's turn ends so that others get theirs, without loss or
// duplicates.
func TestTurnEndsForOthers(t *testing.T) {
	t.Parallel()
	y, r := newFixture(t), newReceiver(t)
	w := y.hooks()
	y.hook(t, w, r.URL, "node")
	y.mkdir(t, "a", "b", "c", "d", "e")
	r.answer = func(int, string) int {
		y.advance(3 * time.Second)
		return http.StatusOK
	}
	sendAll(t, w)
	wantNames(t, []string{"a", "b"}, r.names())
	sendAll(t, w)
	wantNames(t, []string{"a", "b", "c", "d"}, r.names())
	sendAll(t, w)
	sendAll(t, w)
	wantNames(t, []string{"a", "b", "c", "d", "e"}, r.names())
}

// TestManyWebhooksHideNoOthers: many waiting webhooks of one account do not hide those of others.
func TestManyWebhooksHideNoOthers(t *testing.T) {
	t.Parallel()
	y := newFixture(t)
	w := y.hooks()
	mine := y.hook(t, w, "http://127.0.0.1:1", "node")
	y.mkdir(t, "a")
	crowd := []drive.AccountID{drive.NewID[drive.AccountID]()}
	ids := y.addCompetitors(t, mine.ID, crowd, 300)
	if n := webhook.TakeTurns(w, crowd[0], ids...); n == 0 || n == len(ids) {
		t.Fatalf("%d of %d have a turn", n, len(ids))
	}
	if due, err := webhook.Due(t.Context(), w); err != nil || !slices.Equal(due, []webhook.ID{mine.ID}) {
		t.Errorf("%d are found, want the one that can have a turn: %v", len(due), err)
	}
}

// TestSlowAccountsHideNoOthers: with more slow accounts waiting than one poll reads, the next poll
// continues behind them.
func TestSlowAccountsHideNoOthers(t *testing.T) {
	t.Parallel()
	y, r := newFixture(t), newReceiver(t)
	w := y.hooks()
	mine := y.hook(t, w, r.URL, "node")
	y.mkdir(t, "a")
	slow := make([]drive.AccountID, webhook.DueOfALook+300)
	for i := range slow {
		slow[i] = drive.NewID[drive.AccountID]()
	}
	ids := y.addCompetitors(t, mine.ID, slow, 1)
	for i, id := range ids[:16] { // as many as may run at a time
		webhook.TakeTurns(w, slow[i], id)
	}
	webhook.Slow(w, slow...)
	for range 2 {
		if err := webhook.Look(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	wantNames(t, []string{"a"}, r.names())
}

// addCompetitors gives each of some new accounts n copies of a webhook, and an entry to send. They
// have waited longer than the webhook.
func (f *fixture) addCompetitors(t *testing.T, of webhook.ID, accounts []drive.AccountID, n int) (ids []webhook.ID) {
	t.Helper()
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, account := range accounts {
			if _, err := tx.Exec(ctx, "INSERT INTO accounts (id, created_at) VALUES (?, 1)", account); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `INSERT INTO activity (salt, account_id, seq, at, verb, user_id, session_id, head, address, node_id, folder_id, name, data)
				SELECT salt, ?, seq, at, verb, user_id, session_id, head, address, node_id, folder_id, name, data FROM activity LIMIT 1`, account.String()); err != nil {
				return err
			}
			for range n {
				id := drive.NewID[webhook.ID]()
				ids = append(ids, id)
				_, err := tx.Exec(ctx, `INSERT INTO webhooks (id, account_id, user_id, name, url, secret, types, state, reason, position, skipped, failures, failing_since,
					not_before, status, error, sent_at, created_at, updated_at, old_secret, old_until)
					SELECT ?, ?, user_id, name, url, secret, types, state, reason, 0, skipped, failures, failing_since,
					not_before, status, error, sent_at, created_at, updated_at, old_secret, old_until FROM webhooks WHERE id = ?`, id.String(), account.String(), of)
				if err != nil {
					return err
				}
			}
		}
		_, err := tx.Exec(ctx, "UPDATE webhooks SET sent_at = 1 WHERE id = ?", of)
		return err
	})
	return ids
}

// TestRotation: a replaced secret signs beside the new one until its end and no longer. The new one
// is shown once.
func TestRotation(t *testing.T) {
	t.Parallel()
	y := newFixture(t)
	w := y.hooks()
	var mu sync.Mutex
	var signed []string
	r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		signed = append(strings.Fields(req.Header.Get("Webhook-Signature")), req.Header.Get("Webhook-Id"), req.Header.Get("Webhook-Timestamp"), string(body))
	}))
	defer r.Close()
	h := y.hook(t, w, r.URL, "node")
	by := func(what string, secrets ...string) {
		t.Helper()
		y.mkdir(t, what)
		sendAll(t, w)
		mu.Lock()
		defer mu.Unlock()
		got, rest := signed[:len(signed)-3], signed[len(signed)-3:]
		var want []string
		for _, s := range secrets {
			want = append(want, sign(s, rest[0], rest[1], []byte(rest[2])))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s is signed (-want +got):\n%s", what, d)
		}
	}
	rotate := func(keep time.Duration) webhook.Hook {
		t.Helper()
		now, err := w.Rotate(t.Context(), y.who, h.ID, keep, nil)
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	by("first", h.Secret)
	second := rotate(time.Hour)
	by("both", second.Secret, h.Secret)
	y.advance(time.Hour)
	by("after the hour", second.Secret)
	third := rotate(time.Hour)
	fourth := rotate(time.Hour)
	by("the one before", fourth.Secret, third.Secret)
	fifth := rotate(0)
	by("at once", fifth.Secret)
	if _, err := w.Rotate(t.Context(), y.who, h.ID, webhook.MaxSecretOverlap+1, nil); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("kept for longer than may be: %v", err)
	}
	other := drive.Who{User: drive.NewID[drive.UserID](), Account: drive.NewID[drive.AccountID]()}
	if _, err := w.Rotate(t.Context(), other, h.ID, 0, nil); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("rotated by somebody else: %v", err)
	}
	if one, err := w.Find(t.Context(), y.who, h.ID); err != nil || one.Secret != "" || one.OldSecretUntil != 0 {
		t.Errorf("%+v %v", one, err)
	}
}

// TestCrashedSenderLosesNothing: a crash while sending loses no event, and duplicates have the same
// id.
func TestCrashedSenderLosesNothing(t *testing.T) {
	t.Parallel()
	y, r := newFixture(t), newReceiver(t)
	w := y.hooks()
	r.secret = y.hook(t, w, r.URL, "node").Secret
	var want []string
	for i := range 60 {
		want = append(want, strings.Repeat("x", i+1))
	}
	y.mkdir(t, want...)
	for kill := 1; ; kill++ {
		ctx, die := context.WithCancel(t.Context())
		sent := 0
		r.mu.Lock()
		r.answer = func(int, string) int {
			if sent++; sent == 7*kill {
				die()
			}
			return http.StatusOK
		}
		r.mu.Unlock()
		err := webhook.SendDueAndDie(ctx, y.hooks())
		died := ctx.Err() != nil
		die()
		if !died {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	ids := map[string]string{}
	var first []string
	for _, g := range r.all {
		if was, there := ids[g.name]; there && was != g.id {
			t.Errorf("%s came as %s and as %s", g.name, was, g.id)
		} else if !there {
			first = append(first, g.name)
		}
		ids[g.name] = g.id
	}
	wantNames(t, want, first)
	if len(r.all) == len(want) {
		t.Error("no process has died in the middle")
	}
}

// TestRejectedAndFailingWebhooks: a repeatedly rejected event is skipped. A webhook that fails for
// three days is disabled and continues at its position when activated.
func TestRejectedAndFailingWebhooks(t *testing.T) {
	t.Parallel()
	y, r := newFixture(t), newReceiver(t)
	w := y.hooks()
	h := y.hook(t, w, r.URL, "node.created")
	r.answer = func(_ int, name string) int {
		if name == "bad" {
			return http.StatusUnprocessableEntity
		}
		return http.StatusOK
	}
	y.mkdir(t, "bad", "good")
	for range 6 {
		sendAll(t, w)
		y.advance(time.Hour)
	}
	wantNames(t, []string{"bad", "bad", "bad", "bad", "bad", "good"}, r.names())
	r.answer = func(int, string) int { return http.StatusInternalServerError }
	y.mkdir(t, "late")
	for range 75 {
		sendAll(t, w)
		y.advance(time.Hour)
	}
	h, err := w.Find(t.Context(), y.who, h.ID)
	if err != nil || h.State != webhook.Disabled || h.Reason != webhook.Failing || h.Skipped != 1 {
		t.Fatalf("%+v %v", h, err)
	}
	told, err := y.parts.Log.ListBefore(t.Context(), y.db, y.who.Account, 0, 1)
	if err != nil || len(told) != 1 || told[0].Verb != activity.WebhookDisabled {
		t.Errorf("the last thing that happened is %+v %v", told, err)
	}
	r.all = nil
	r.answer = func(int, string) int { return http.StatusOK }
	active := webhook.Active
	if _, err := w.Change(t.Context(), y.who, h.ID, webhook.HookChange{State: &active}); err != nil {
		t.Fatal(err)
	}
	sendAll(t, w)
	wantNames(t, []string{"late"}, r.names())

	// Replay everything, then a single event.
	r.all = nil
	if _, err := w.Replay(t.Context(), y.who, h.ID, time.UnixMilli(1_800_000_000_000)); err != nil {
		t.Fatal(err)
	}
	sendAll(t, w)
	wantNames(t, []string{"bad", "good", "late"}, r.names())
	if status, err := w.SendOnce(t.Context(), y.who, h.ID, r.all[1].id); err != nil || status != http.StatusOK || r.all[3] != r.all[1] {
		t.Errorf("%d %v, %v", status, err, r.all)
	}
	if _, err := w.SendOnce(t.Context(), y.who, h.ID, "1-00000000"); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("an id with another salt: %v", err)
	}
}

// TestClockJumpDisablesNoWebhook: a webhook that fails before and after the server stood still for
// days is not disabled, and a clock that was ahead delays it no longer than it was ahead.
func TestClockJumpDisablesNoWebhook(t *testing.T) {
	t.Parallel()
	y, r := newFixture(t), newReceiver(t)
	w := y.hooks()
	h := y.hook(t, w, r.URL, "node")
	r.answer = func(int, string) int { return http.StatusBadGateway }
	y.mkdir(t, "a")
	sendAll(t, w)
	y.advance(100 * 24 * time.Hour)
	sendAll(t, w)
	if h, err := w.Find(t.Context(), y.who, h.ID); err != nil || h.State != webhook.Active || h.Failures != 2 {
		t.Fatalf("after two attempts it is %+v, %v", h, err)
	}
	y.advance(-100 * 24 * time.Hour)
	r.answer = func(int, string) int { return http.StatusOK }
	sendAll(t, w)
	wantNames(t, []string{"a", "a", "a"}, r.names())
}

// TestSlowReceiverDelaysNoOthers: a hanging receiver delays no other.
func TestSlowReceiverDelaysNoOthers(t *testing.T) {
	t.Parallel()
	y, r := newFixture(t), newReceiver(t)
	w := y.hooks()
	hold, entered := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(entered); <-hold }))
	defer slow.Close()
	y.hook(t, w, slow.URL)
	y.hook(t, w, r.URL, "node")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	arrived := make(chan string, 8)
	r.answer = func(_ int, name string) int { arrived <- name; return http.StatusOK }
	running.Go(func() { _ = w.Run(ctx) })
	y.mkdir(t, "a")
	<-entered
	y.mkdir(t, "b")
	for _, want := range []string{"a", "b"} {
		if got := <-arrived; got != want {
			t.Errorf("%s came, want %s", got, want)
		}
	}
	stop()
	close(hold)
	running.Wait()
}

// TestWebhookAuthorization: others cannot see a webhook, and nothing is sent after its user loses
// the right.
func TestWebhookAuthorization(t *testing.T) {
	t.Parallel()
	y, r := newFixture(t), newReceiver(t)
	w := y.hooks()
	h := y.hook(t, w, r.URL)
	other := drive.Who{User: drive.NewID[drive.UserID](), Account: drive.NewID[drive.AccountID]()}
	if _, err := w.Find(t.Context(), other, h.ID); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("found by somebody else: %v", err)
	}
	if all, err := w.List(t.Context(), y.who, ""); err != nil || len(all) != 1 || all[0].Secret != "" {
		t.Errorf("%+v %v", all, err)
	}
	for _, url := range []string{"ftp://example.org", "https://ann@example.org", "https://", strings.Repeat("x", 3000)} {
		if _, err := w.Create(t.Context(), y.who, webhook.HookChange{URL: &url}, nil); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%.40s was taken: %v", url, err)
		}
	}
	types := []string{"node.eaten"}
	if _, err := w.Change(t.Context(), y.who, h.ID, webhook.HookChange{Types: &types}); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("a type that there is none of was taken: %v", err)
	}
	y.mkdir(t, "a")
	y.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM users WHERE id = ?", y.who.User)
		return err
	})
	sendAll(t, w)
	if len(r.names()) != 0 {
		t.Errorf("sent %v", r.names())
	}
	if h, err := w.Find(t.Context(), y.who, h.ID); err != nil || h.Reason != webhook.RightLost {
		t.Errorf("%+v %v", h, err)
	}
	if slices.Contains(activity.Verbs(), activity.Verb("node.eaten")) {
		t.Error("it is listed")
	}
}
