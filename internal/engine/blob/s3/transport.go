package s3

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits for the store to begin its answer once it has the request. A retried request waits this
// long per attempt, and the client must still be there after all of them.
const (
	responseTimeout     = 8 * time.Second
	slowResponseTimeout = time.Minute // completing 10,000 parts takes long, and not all stores send a header first
)

// idleTime is how long an idle connection is kept. If the store closes a connection just as the
// next request is sent, a request with a streamed body fails, because it cannot be retried. Stores
// and proxies close after 10 s or more, so the client closes earlier.
const idleTime = 5 * time.Second

// Sizes in bytes.
const (
	transportBuffer = 128 << 10 // the default of 4 KiB costs a system call per 4 KiB of a part
	largeBody       = 64 << 20  // from here on a store syncs before it answers

	maxErrorDocument = 64 << 10 // error documents have some hundred bytes
)

// transport sends each request with a response timeout that fits its kind.
type transport struct {
	fast, slow *http.Transport
	stall      time.Duration // stall limit per connection
	log        *slog.Logger
	warnClose  sync.Once // guards a warning that is logged once
}

// newTransport returns a transport with a stall limit.
func newTransport(stall time.Duration, log *slog.Logger) *transport {
	return &transport{fast: newHTTPTransport(responseTimeout, stall), slow: newHTTPTransport(slowResponseTimeout, stall), stall: stall, log: log}
}

// newHTTPTransport returns an HTTP transport with a response header timeout and a stall limit.
func newHTTPTransport(header, stall time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialWithStall(dialer.DialContext, stall),
		MaxIdleConns:          1024,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       idleTime,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: header,
		ExpectContinueTimeout: time.Second,
		WriteBufferSize:       transportBuffer,
		ReadBufferSize:        transportBuffer,
		DisableCompression:    true,
	}
}

// RoundTrip sends r, and once more if the store misread it and its body can be repeated. It aborts
// a request that stalls. Of an error response to a request with a body it reads the document, and
// it logs once that the store does not keep connections.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	send := t.fast.RoundTrip
	if isSlow(r) {
		send = t.slow.RoundTrip
	}
	resp, err := sendWithStall(r, t.stall, send)
	if err == nil && isMisread(resp) {
		if again, ok := cloneForRetry(r); ok {
			_ = resp.Body.Close() // with its connection
			resp, err = sendWithStall(again, t.stall, send)
		}
	}
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices && hasBody(r) {
		bufferErrorDocument(resp)
	}
	if err == nil && resp.Close && resp.StatusCode == http.StatusOK {
		t.warnClose.Do(func() {
			t.log.Warn("the object store closes the connection after each answer; this halves the rate of small files: enable keep-alive in the store or its proxy")
		})
	}
	return resp, err
}

// bufferErrorDocument buffers the document of an error response and closes the connection. A store
// that refuses a request may have left its body unread and take the body for the next request (see
// isMisread). net/http drops the connection if the body is closed before its end, so the last byte
// is not read; it is always '>' in XML.
func bufferErrorDocument(resp *http.Response) {
	size := resp.ContentLength
	if size <= 0 || size > maxErrorDocument {
		return
	}
	doc := make([]byte, size)
	n, _ := io.ReadFull(resp.Body, doc[:size-1]) // a truncated document fails to parse
	_ = resp.Body.Close()
	doc[n] = '>'
	resp.Body = io.NopCloser(bytes.NewReader(doc[:n+1]))
}

// isMisread reports whether the store took the rest of an earlier request for this one, because it
// answered that request without reading its body and kept the connection (a defect of
// github.com/valyala/fasthttp, pull request 2368).
func isMisread(resp *http.Response) bool {
	return resp.StatusCode == http.StatusBadRequest && resp.Close
}

// cloneForRetry returns a copy of r to send again. ok is false if the body is a stream; that error
// is Unavailable (see kindOf), so the client retries.
func cloneForRetry(r *http.Request) (again *http.Request, ok bool) {
	if !hasBody(r) {
		return r, true
	}
	content, ok := r.Context().Value(bufferedBodyKey{}).([]byte)
	if ok {
		again = r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(content))
	}
	return again, ok
}

// hasBody reports whether r has a body.
func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// isSlow reports whether the store needs long before it answers: it completes or aborts a
// multipart upload, copies, lists (some stores walk a tree), deletes many objects, or has received
// a large body.
func isSlow(r *http.Request) bool {
	if r.Header.Get("X-Amz-Copy-Source") != "" || r.ContentLength > largeBody {
		return true
	}
	q := r.URL.Query()
	switch r.Method {
	case http.MethodGet:
		return q.Has("uploads") || q.Has("list-type")
	case http.MethodPost, http.MethodDelete:
		return q.Has("uploadId") || q.Has("delete")
	default:
		return false
	}
}

// CloseIdleConnections closes the idle connections.
func (t *transport) CloseIdleConnections() {
	t.fast.CloseIdleConnections()
	t.slow.CloseIdleConnections()
}
