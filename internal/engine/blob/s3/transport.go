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

// How long the store may take to begin an answer once it has the request. A request that may be
// repeated waits so long for each of its attempts, and a client that waits for all of them should
// still be there.
const (
	answerTime   = 8 * time.Second
	assemblyTime = time.Minute // a Complete of 10,000 parts sends its header at once and blanks while it works; not all stores do
)

// idleTime is how long a connection is kept that nobody uses. A store that closes it just when the
// next request goes out makes that one fail if its body is a client's, which can be sent only once.
// Stores and what stands before them close after 10 s and more, so here they are closed before.
const idleTime = 5 * time.Second

// Sizes in bytes.
const (
	transportBuffer = 128 << 10 // with the usual 4 KiB a part costs a system call for each of them
	largeBody       = 64 << 20  // a store syncs what it got before it answers

	maxErrorDocument = 64 << 10 // they have some hundred bytes
)

// transport sends each request where it is waited for long enough, and no longer.
type transport struct {
	quick, patient *http.Transport
	stall          time.Duration
	log            *slog.Logger
	closes         sync.Once
}

func newTransport(stall time.Duration, log *slog.Logger) *transport {
	return &transport{quick: transportThatWaits(answerTime, stall), patient: transportThatWaits(assemblyTime, stall), stall: stall, log: log}
}

func transportThatWaits(header, stall time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialTaken(dialer.DialContext, stall),
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

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	send := t.quick.RoundTrip
	if isAssembly(r) {
		send = t.patient.RoundTrip
	}
	resp, err := awaitBody(r, t.stall, send)
	if err == nil && isMisread(resp) {
		if again, ok := repeated(r); ok {
			_ = resp.Body.Close() // with its connection
			resp, err = awaitBody(again, t.stall, send)
		}
	}
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices && hasBody(r) {
		spend(resp)
	}
	if err == nil && resp.Close && resp.StatusCode == http.StatusOK {
		t.closes.Do(func() {
			t.log.Warn("the object store closes the connection after each answer, so that each request opens one, which halves the rate of small files: allow keep-alive there")
		})
	}
	return resp, err
}

// spend reads the document of an error and gives the connection up: a store that refuses a request
// may have left its body unread in there and take it for the next one (see isMisread). net/http
// gives a connection up if the answer is closed before its end; the last byte of a document of XML
// is known.
func spend(resp *http.Response) {
	size := resp.ContentLength
	if size <= 0 || size > maxErrorDocument {
		return
	}
	doc := make([]byte, size)
	n, _ := io.ReadFull(resp.Body, doc[:size-1]) // what is cut off is refused by who parses it
	_ = resp.Body.Close()
	doc[n] = '>'
	resp.Body = io.NopCloser(bytes.NewReader(doc[:n+1]))
}

// isMisread reports whether a store has taken the rest of an earlier request for this one: it
// answered that one without having read its body, and kept the connection (a defect of
// github.com/valyala/fasthttp, pull request 2368).
func isMisread(resp *http.Response) bool {
	return resp.StatusCode == http.StatusBadRequest && resp.Close
}

// repeated returns a request once more, unless its body is a client's and comes as a stream: kindOf
// lets that client try again.
func repeated(r *http.Request) (again *http.Request, ok bool) {
	if !hasBody(r) {
		return r, true
	}
	content, ok := r.Context().Value(wholeKey{}).([]byte)
	if ok {
		again = r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(content))
	}
	return again, ok
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// isAssembly reports whether the store has much to do before it can answer: it completes a
// multipart upload or aborts it, copies, lists (some stores walk a whole tree for it), deletes many
// objects, or has got a lot.
func isAssembly(r *http.Request) bool {
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

// CloseIdleConnections ends the connections that nothing is sent over.
func (t *transport) CloseIdleConnections() {
	t.quick.CloseIdleConnections()
	t.patient.CloseIdleConnections()
}
