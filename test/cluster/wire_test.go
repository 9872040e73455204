package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// balancer spreads requests over the running instances, like a reverse proxy.
type balancer struct {
	mu   sync.Mutex
	urls map[string]string // URL by name of the node
}

func (b *balancer) add(n *node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.urls == nil {
		b.urls = map[string]string{}
	}
	b.urls[n.name] = n.URL
}

func (b *balancer) remove(n *node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.urls, n.name)
}

// pick returns the URL of any instance, or "" if none is running.
func (b *balancer) pick() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := rand.IntN(max(1, len(b.urls)))
	for _, url := range b.urls {
		if i--; i < 0 {
			return url
		}
	}
	return ""
}

// only returns a balancer with one instance.
func only(n *node) *balancer { return &balancer{urls: map[string]string{n.name: n.URL}} }

// bound limits the response time of any request during a fault. The server promises less, but this
// machine is busy.
const bound = 45 * time.Second

// wire sends requests of one user.
type wire struct {
	to    *balancer
	token string
	http  *http.Client
}

func newWire(to *balancer, token string) *wire {
	return &wire{to, token, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}}}
}

// reply is the outcome of a request.
type reply struct {
	status int
	code   string // problem code
	body   []byte
	header http.Header
	err    error // no response, or a truncated one
	took   time.Duration
	from   string
}

// result is what a client may conclude from a reply.
type result int

const (
	done result = iota
	refused
	unsure
)

func (r reply) result() result {
	switch {
	case r.err != nil, r.status == http.StatusAccepted, r.code == "in-progress", r.status >= 500 && r.status != http.StatusInsufficientStorage:
		return unsure
	case r.status >= 300:
		return refused
	}
	return done
}

// unclear returns an error if a response is unacceptable: a failure must be a problem document, a
// retryable one must have Retry-After, and it must arrive within bound.
func (r reply) unclear() error {
	later := r.status == http.StatusServiceUnavailable || r.status == http.StatusTooManyRequests || r.code == "in-progress"
	switch {
	case r.took > bound:
		return fmt.Errorf("no answer within %s: %s", bound, r)
	case r.status == 0: // the instance was killed
	case r.status >= 400 && r.code == "":
		return fmt.Errorf("no problem: %s", r)
	case r.status == http.StatusInternalServerError:
		return fmt.Errorf("an internal error: %s", r)
	case later && r.header.Get("Retry-After") == "":
		return fmt.Errorf("no Retry-After: %s", r)
	}
	return nil
}

func (r reply) String() string {
	if r.err != nil {
		return r.err.Error()
	}
	return fmt.Sprintf("%d %s", r.status, bytes.TrimSpace(r.body[:min(len(r.body), 500)]))
}

// into decodes the body of a successful reply.
func into[T any](r reply) (v T, err error) {
	if r.err != nil || r.status >= 300 {
		return v, fmt.Errorf("no answer to read: %s", r)
	}
	return v, json.Unmarshal(r.body, &v)
}

// request describes a request. A body that is neither a reader nor bytes is sent as JSON.
type request struct {
	method, path string
	body         any
	length       int64 // of a reader
	key          string
}

// send sends a request to any instance.
func (w *wire) send(ctx context.Context, q request) reply {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, bound+5*time.Second)
	defer cancel()
	url := w.to.pick()
	req, err := q.build(ctx, url+"/api/v1"+q.path)
	if err != nil {
		return reply{err: err}
	}
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return reply{err: err, took: time.Since(began), from: url}
	}
	defer resp.Body.Close()
	r := reply{status: resp.StatusCode, header: resp.Header, from: url}
	r.body, r.err = io.ReadAll(resp.Body)
	r.took = time.Since(began)
	if resp.StatusCode >= 400 {
		var p struct{ Code string }
		_ = json.Unmarshal(r.body, &p) // other bodies have no code
		r.code = p.Code
	}
	return r
}

func (q request) build(ctx context.Context, url string) (*http.Request, error) {
	body, kind := io.Reader(nil), ""
	switch b := q.body.(type) {
	case nil:
	case []byte:
		body, kind, q.length = bytes.NewReader(b), "application/octet-stream", int64(len(b))
	case io.Reader:
		body, kind = b, "application/octet-stream"
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		body, kind, q.length = bytes.NewReader(text), "application/json", int64(len(text))
	}
	req, err := http.NewRequestWithContext(ctx, q.method, url, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.ContentLength = q.length
		req.Header.Set("Content-Type", kind)
	}
	if q.key != "" {
		req.Header.Set("Idempotency-Key", q.key)
	}
	return req, nil
}
