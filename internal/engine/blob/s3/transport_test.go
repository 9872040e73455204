package s3

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestSlowRequestsGetLongerTimeout checks which requests count as slow.
func TestSlowRequestsGetLongerTimeout(t *testing.T) {
	t.Parallel()
	if all := attempts * responseTimeout; all >= 40*time.Second {
		t.Errorf("a store that has fallen silent holds a request for %s", all)
	}
	for _, c := range []struct {
		method, query, copied string
		length                int64
		want                  bool
	}{
		{method: http.MethodHead},
		{method: http.MethodGet},
		{method: http.MethodGet, query: "?uploadId=x"},                    // ListParts
		{method: http.MethodGet, query: "?uploads=&prefix=x", want: true}, // ListMultipartUploads
		{method: http.MethodGet, query: "?list-type=2", want: true},
		{method: http.MethodDelete},
		{method: http.MethodPost, query: "?uploads="}, // CreateMultipartUpload
		{method: http.MethodPut, query: "?uploadId=x&partNumber=1", length: 8 << 20},
		{method: http.MethodPut, query: "?uploadId=x&partNumber=1", length: 1 << 30, want: true},
		{method: http.MethodPut, query: "?uploadId=x&partNumber=1", copied: "/b/k", want: true},
		{method: http.MethodPost, query: "?uploadId=x", want: true},
		{method: http.MethodPost, query: "?delete=", want: true}, // DeleteObjects
		{method: http.MethodDelete, query: "?uploadId=x", want: true},
	} {
		r := httptest.NewRequest(c.method, "http://store/b/k"+c.query, nil)
		r.ContentLength = c.length
		if c.copied != "" {
			r.Header.Set("X-Amz-Copy-Source", c.copied)
		}
		if isSlow(r) != c.want {
			t.Errorf("%s %s of %d bytes: waited for is %v", c.method, c.query, c.length, !c.want)
		}
	}
}

// TestClosedConnectionsAreLoggedOnce: a store without keep-alive costs a handshake per request.
func TestClosedConnectionsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{true, false} {
		store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if closes {
				w.Header().Set("Connection", "close")
			}
		}))
		t.Cleanup(store.Close)
		var said bytes.Buffer
		transport := newTransport(time.Minute, slog.New(slog.NewTextHandler(&said, nil)))
		t.Cleanup(transport.CloseIdleConnections)
		for range 3 {
			resp, err := transport.RoundTrip(httptest.NewRequest(http.MethodPut, store.URL+"/b/k", nil))
			noError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			noError(t, err)
			noError(t, resp.Body.Close())
		}
		want := 0
		if closes {
			want = 1
		}
		if n := bytes.Count(said.Bytes(), []byte("keep-alive")); n != want {
			t.Errorf("closes %v: told %d times, want %d: %s", closes, n, want, said.String())
		}
	}
}

// TestMisreadRequestIsRetried: a store that has left the rest of a request in the connection
// rejects the next request and closes. That request is sent again, unless its body is a stream.
func TestMisreadRequestIsRetried(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method string
		body   io.Reader
		want   int
	}{
		{http.MethodHead, nil, http.StatusOK},
		{http.MethodDelete, http.NoBody, http.StatusOK},
		{http.MethodPut, strings.NewReader("x"), http.StatusBadRequest},
		{http.MethodPut, newBufferedBody([]byte("x")), http.StatusOK},
	} {
		var asked atomic.Int32
		store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got, err := io.ReadAll(r.Body); c.method == http.MethodPut && string(got) != "x" {
				t.Errorf("sent with %q, %v", got, err)
			}
			if asked.Add(1) == 1 {
				w.Header().Set("Connection", "close")
				w.WriteHeader(http.StatusBadRequest)
			}
		}))
		t.Cleanup(store.Close)
		transport := newTransport(time.Minute, slog.New(slog.DiscardHandler))
		t.Cleanup(transport.CloseIdleConnections)
		ctx, body, _ := unwrapBuffered(t.Context(), c.body)
		r, err := http.NewRequestWithContext(ctx, c.method, store.URL+"/b/k", body)
		noError(t, err)
		resp, err := transport.RoundTrip(r)
		noError(t, err)
		noError(t, resp.Body.Close())
		if resp.StatusCode != c.want {
			t.Errorf("%s: answered %s", c.method, resp.Status)
		}
	}
}

// TestConnectionIsDroppedAfterRefusedBody: a store that rejects a request may have left its body in
// the connection, so no other request may use it. The error is still returned.
func TestConnectionIsDroppedAfterRefusedBody(t *testing.T) {
	t.Parallel()
	const doc = "<Error><Code>NoSuchUpload</Code></Error>"
	for _, c := range []struct {
		name   string
		method string
		body   string
		status int
		kept   bool
	}{
		{"refused", http.MethodPut, "x", http.StatusNotFound, false},
		{"taken", http.MethodPut, "x", http.StatusOK, true},
		{"without a body", http.MethodGet, "", http.StatusNotFound, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var from []string
			store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				from = append(from, r.RemoteAddr)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, doc)
			}))
			t.Cleanup(store.Close)
			transport := newTransport(time.Minute, slog.New(slog.DiscardHandler))
			t.Cleanup(transport.CloseIdleConnections)
			for range 2 {
				r, err := http.NewRequestWithContext(t.Context(), c.method, store.URL+"/b/k", strings.NewReader(c.body))
				noError(t, err)
				resp, err := transport.RoundTrip(r)
				noError(t, err)
				got, err := io.ReadAll(resp.Body)
				noError(t, err)
				noError(t, resp.Body.Close())
				if string(got) != doc {
					t.Errorf("answered %q", got)
				}
			}
			if kept := from[0] == from[1]; kept != c.kept {
				t.Errorf("the connection was kept: %v", kept)
			}
		})
	}
}
