package kill

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// ear is the receiver of a user's webhook. Sometimes it records an event and disconnects without a
// reply, so that the server has to send it again.
type ear struct {
	of     *user
	secret []byte
	web    *httptest.Server

	mu      sync.Mutex
	order   []string          // ids, as they came first
	heard   map[string]string // what came with an id
	repeats int
	wrong   error
}

const hangUpEvery = 500 // requests

// newEar makes a webhook of a user.
func (l *loop) newEar(u *user) *ear {
	l.t.Helper()
	e := &ear{of: u, heard: map[string]string{}}
	e.web = httptest.NewServer(e)
	l.t.Cleanup(e.web.Close)
	w := newWire(l.gate, u.token)
	r := w.send(l.t.Context(), request{method: "POST", path: "/webhooks", body: map[string]any{"url": e.web.URL, "types": []string{"node", "upload"}}})
	made, err := into[struct{ Secret string }](r)
	if err == nil {
		e.secret, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(made.Secret, "whsec_"))
	}
	if err != nil || len(e.secret) == 0 {
		l.t.Fatalf("make a webhook of %s: %v", u.name, err)
	}
	return e
}

// ServeHTTP receives one event.
func (e *ear) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the server was killed, and has told nothing
	}
	if e.take(r.Header, body)%hangUpEvery == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusNoContent)
}

// take records an event and returns how often it has been received.
func (e *ear) take(h http.Header, body []byte) int {
	id := h.Get("Webhook-Id")
	mac := hmac.New(sha256.New, e.secret)
	_, _ = io.WriteString(mac, id+"."+h.Get("Webhook-Timestamp")+".")
	_, _ = mac.Write(body)
	e.mu.Lock()
	defer e.mu.Unlock()
	if h.Get("Webhook-Signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
		e.wrong = fmt.Errorf("event %s has the signature %q", id, h.Get("Webhook-Signature"))
	}
	before, again := e.heard[id]
	switch {
	case !again:
		e.order = append(e.order, id)
		e.heard[id] = string(body)
	case before != string(body):
		e.wrong = fmt.Errorf("event %s was\n%s\nand came again as\n%s", id, before, body)
	default:
		e.repeats++
	}
	return len(e.order) + e.repeats
}

// compare compares the received events with the activity log since the webhook was created: the
// same events in the same order.
func (e *ear) compare(ctx context.Context, db *sql.DB) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wrong != nil {
		return e.wrong
	}
	rows, err := db.QueryContext(ctx, `SELECT printf('%d-%08x', id, salt), verb, node_id, data FROM activity
		WHERE account_id = (SELECT account_id FROM users WHERE id = ?1) AND (verb LIKE 'node.%' OR verb LIKE 'upload.%')
		AND id > (SELECT MAX(id) FROM activity a WHERE a.verb = 'webhook.created' AND a.user_id = ?1) ORDER BY id`, e.of.id)
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var id, verb, node, data string
		if err := rows.Scan(&id, &verb, &node, &data); err != nil {
			return err
		}
		if n >= len(e.order) || e.order[n] != id {
			return fmt.Errorf("event %d is %s (%s of node %s) by the log; heard were %q", n, id, verb, node, e.order[max(0, n-3):min(n+3, len(e.order))])
		}
		var told struct {
			ID, Type string
			Data     struct {
				Node    string `json:"node_id"`
				Details json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(e.heard[id]), &told); err != nil {
			return fmt.Errorf("event %s: %w", id, err)
		}
		if told.ID != id || told.Type != verb || told.Data.Node != node || string(told.Data.Details) != data {
			return fmt.Errorf("event %s is %s of node %s with %s by the log; heard was %s", id, verb, node, data, e.heard[id])
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if n < len(e.order) {
		return fmt.Errorf("heard were %d events, the log has %d: %q are not there", len(e.order), n, e.order[n:])
	}
	return nil
}

// compareEars compares the events that all webhooks have received with the log, after all were
// sent.
func (l *loop) compareEars() {
	l.t.Helper()
	db, err := l.openDatabase()
	if err != nil {
		l.t.Fatal(err)
	}
	defer db.Close()
	for _, e := range l.ears {
		if err := e.compare(l.t.Context(), db); err != nil {
			l.fail(nil, "the webhook of %s: %v", e.of.name, err)
		}
	}
}

// told returns the numbers of received events and of repeats.
func (l *loop) told() (events, repeats int) {
	for _, e := range l.ears {
		e.mu.Lock()
		events, repeats = events+len(e.order), repeats+e.repeats
		e.mu.Unlock()
	}
	return events, repeats
}

// The comparison can fail.
func TestLostEventIsDetected(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, q := range []string{
		`CREATE TABLE users (id, account_id)`, `INSERT INTO users VALUES ('ann', 'hers')`,
		`CREATE TABLE activity (id, salt, account_id, verb, user_id, node_id, data)`,
		`INSERT INTO activity VALUES (1, 1, 'hers', 'node.created', 'ann', 'a', '{}'), (2, 2, 'hers', 'webhook.created', 'ann', '', '{}'),
			(3, 3, 'hers', 'node.created', 'ann', 'b', '{}'), (4, 4, 'hers', 'share.created', 'ann', '', '{}'), (5, 5, 'hers', 'node.moved', 'ann', 'b', '{"a":1}')`,
	} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	const first, last = "3-00000003", "5-00000005"
	bodies := map[string]string{
		first: `{"id":"3-00000003","type":"node.created","data":{"node_id":"b","details":{}}}`,
		last:  `{"id":"5-00000005","type":"node.moved","data":{"node_id":"b","details":{"a":1}}}`,
	}
	for what, c := range map[string]struct {
		heard []string
		fine  bool
	}{
		"all": {[]string{first, last}, true}, "all, one twice": {[]string{first, first, last}, true}, "one is lost": {[]string{last}, false},
		"the last is lost": {[]string{first}, false}, "another order": {[]string{last, first}, false}, "one of nothing": {[]string{first, last, "9-00000009"}, false},
	} {
		e := &ear{of: &user{id: "ann"}, heard: map[string]string{}}
		for _, id := range c.heard {
			body := []byte(bodies[id])
			mac := hmac.New(sha256.New, nil)
			mac.Write([]byte(id + ".1." + string(body)))
			e.take(http.Header{
				"Webhook-Id": {id}, "Webhook-Timestamp": {"1"}, "Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))},
			}, body)
		}
		if err := e.compare(t.Context(), db); (err == nil) != c.fine {
			t.Errorf("%s: %v", what, err)
		}
	}
}
