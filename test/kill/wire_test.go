package kill

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gate holds requests back while there is no server.
type gate struct {
	mu   sync.Mutex
	base string
	up   chan struct{} // closed while a server answers
}

func newGate() *gate { return &gate{up: make(chan struct{})} }

func (g *gate) open(base string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.base = base
	close(g.up)
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.up:
		g.up = make(chan struct{})
	default: // it was not ready yet
	}
}

func (g *gate) await(ctx context.Context) (string, error) {
	g.mu.Lock()
	up := g.up
	g.mu.Unlock()
	select {
	case <-up:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.base, nil
}

// wire sends requests of one user, as any HTTP client would.
type wire struct {
	gate  *gate
	token string
	http  *http.Client
}

// patience is how long one request may take; the server promises to answer within 10 s.
const patience = 60 * time.Second

func newWire(g *gate, token string) *wire {
	return &wire{g, token, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true}}}
}

// reply is what came of a request.
type reply struct {
	status int
	code   string // of a problem
	body   []byte
	header http.Header
	err    error // no answer, or half of one
	unsent bool  // the request did not leave: nobody was there
}

// result returns what a reply proves about its request.
func (r reply) result() result {
	switch {
	case r.unsent:
		return refused
	case r.err != nil, r.status == http.StatusAccepted, r.code == "in-progress", r.status >= 500 && r.status != http.StatusInsufficientStorage:
		return unsure
	case r.status >= 300:
		return refused
	}
	return done
}

type result int

const (
	done result = iota
	refused
	unsure
)

func (r reply) String() string {
	if r.err != nil {
		return r.err.Error()
	}
	return fmt.Sprintf("%d %s", r.status, bytes.TrimSpace(r.body[:min(len(r.body), 500)]))
}

// into decodes the body.
func into[T any](r reply) (v T, err error) {
	if r.err != nil || r.status >= 300 {
		return v, fmt.Errorf("no answer to read: %s", r)
	}
	return v, json.Unmarshal(r.body, &v)
}

// request is one request. A body that is not a reader is sent as JSON.
type request struct {
	method, path string
	body         any
	length       int64
	header       map[string]string
}

func (w *wire) send(ctx context.Context, q request) reply {
	base, err := w.gate.await(ctx)
	if err != nil {
		return reply{err: err, unsent: true}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	url := base + "/api/v1" + q.path
	if strings.HasPrefix(q.path, "/tus/") {
		url = base + q.path
	}
	req, err := q.build(ctx, url)
	if err != nil {
		return reply{err: err, unsent: true}
	}
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	// net/http sends a request with an idempotency key again if its connection breaks, so a refused
	// last connection does not prove that the request was never sent.
	var left atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { left.Store(true) }}
	resp, err := w.http.Do(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		return reply{err: err, unsent: !left.Load()}
	}
	defer resp.Body.Close()
	r := reply{status: resp.StatusCode, header: resp.Header}
	r.body, r.err = io.ReadAll(resp.Body)
	if resp.StatusCode >= 400 {
		var p struct{ Code string }
		_ = json.Unmarshal(r.body, &p) // what is no problem has no code
		r.code = p.Code
	}
	return r
}

func (q request) build(ctx context.Context, url string) (*http.Request, error) {
	body, isReader := q.body.(io.Reader)
	if !isReader && q.body != nil {
		b, err := json.Marshal(q.body)
		if err != nil {
			return nil, err
		}
		body, q.length = bytes.NewReader(b), int64(len(b))
	}
	req, err := http.NewRequestWithContext(ctx, q.method, url, body)
	if err != nil {
		return nil, err
	}
	switch {
	case isReader:
		req.ContentLength = q.length
		req.Header.Set("Content-Type", "application/octet-stream")
		if q.length == 0 {
			req.Body = http.NoBody
		}
	case q.body != nil:
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range q.header {
		req.Header.Set(name, value)
	}
	return req, nil
}

func (w *wire) login(t *testing.T, name, password string) string {
	t.Helper()
	r := w.send(t.Context(), request{method: "POST", path: "/sessions", body: map[string]string{"name": name, "password": password}})
	v, err := into[struct{ Token string }](r)
	if err != nil || v.Token == "" {
		t.Fatalf("log in as %s: %v", name, err)
	}
	return v.Token
}

func (w *wire) createUser(t *testing.T, name, password string, total int64) string {
	t.Helper()
	r := w.send(t.Context(), request{method: "POST", path: "/admin/users", body: map[string]any{"name": name, "password": password, "total": total}})
	v, err := into[struct{ ID string }](r)
	if err != nil || v.ID == "" {
		t.Fatalf("create user %s: %v", name, err)
	}
	return v.ID
}
