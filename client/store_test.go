package client

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/client/clienttest"
)

// shop is an object store as S3: it has its own ETags and refuses requests with two kinds of
// credentials.
type shop struct {
	*httptest.Server
	mu       sync.Mutex
	contents map[string][]byte
	got      []*http.Request
	fault    func(n int64, w http.ResponseWriter) http.ResponseWriter // of the n-th request, from 1; nil: it has answered
	n        atomic.Int64
}

// newShop starts a store on another port of s's host and makes s redirect all downloads there.
func newShop(t *testing.T, s *clienttest.Server) *shop {
	t.Helper()
	h := &shop{contents: map[string][]byte{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	s.RedirectDownloads(func(content []byte) string {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.contents["/"+clienttest.DigestOf(content)] = content
		return h.URL + "/" + clienttest.DigestOf(content) + "?X-Amz-Signature=secret"
	})
	return h
}

func (h *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.got = append(h.got, r)
	content := h.contents[r.URL.Path]
	h.mu.Unlock()
	if h.fault != nil {
		if w = h.fault(h.n.Add(1), w); w == nil {
			return
		}
	}
	if r.Header.Get("Authorization") != "" {
		refuse(w, http.StatusBadRequest, "InvalidArgument")
		return
	}
	w.Header().Set("ETag", `"0123456789abcdef"`)
	http.ServeContent(w, r, "", mtime, bytes.NewReader(content))
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`<?xml version="1.0"?><Error><Code>` + code + `</Code></Error>`))
}

// headers returns all requests' values of a header that were not empty.
func (h *shop) headers(name string) (values []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.got {
		if v := r.Header.Get(name); v != "" {
			values = append(values, v)
		}
	}
	return values
}

// tornReply is cut off after some bytes.
type tornReply struct {
	http.ResponseWriter
	left int
}

func (c *tornReply) Write(b []byte) (int, error) {
	if c.left < len(b) {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

func TestGetFromTheStoreWithoutTheToken(t *testing.T) {
	t.Parallel()
	for _, custom := range []bool{false, true} {
		s := clienttest.New(t)
		h := newShop(t, s)
		content := randomBytes(30, 5*mib+7)
		s.Store("/f", content, mtime)
		o := Options{BaseURL: s.URL(), Token: clienttest.Token, MinBackoff: time.Millisecond}
		if custom {
			o.HTTPClient = &http.Client{} // one that would take the token along to another port of the host
		}
		c, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.Downloader(DownloadOptions{PartSize: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "f")
		if _, err := d.Get(t.Context(), "/f", path, GetOptions{}); err != nil {
			t.Fatal(err)
		}
		wantLocal(t, path, content)
		if ranges := h.headers("Range"); len(ranges) != 6 {
			t.Errorf("the store was asked for the ranges %q", ranges)
		}
		for _, name := range []string{"Authorization", "Cookie", "If-Range", "Referer"} {
			if got := h.headers(name); len(got) > 0 {
				t.Errorf("the store was sent %s: %q", name, got)
			}
		}
		c.Close()
	}
}

func TestGetSurvivesTheFaultsOfTheStore(t *testing.T) {
	t.Parallel()
	refusing := func(status int, code string) func(http.ResponseWriter) http.ResponseWriter {
		return func(w http.ResponseWriter) http.ResponseWriter {
			refuse(w, status, code)
			return nil
		}
	}
	for name, fault := range map[string]func(w http.ResponseWriter) http.ResponseWriter{
		"the address has expired": refusing(http.StatusForbidden, "AccessDenied"),
		"it is busy":              refusing(http.StatusServiceUnavailable, "SlowDown"),
		"it cuts the connection":  func(http.ResponseWriter) http.ResponseWriter { panic(http.ErrAbortHandler) },
		"it cuts the body":        func(w http.ResponseWriter) http.ResponseWriter { return &tornReply{w, 70_000} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := clienttest.New(t)
			h := newShop(t, s)
			h.fault = func(n int64, w http.ResponseWriter) http.ResponseWriter {
				if n > 2 {
					return w
				}
				return fault(w)
			}
			content := randomBytes(31, 3*mib)
			s.Store("/f", content, mtime)
			path := filepath.Join(t.TempDir(), "f")
			res, err := newDownloader(t, s).Get(t.Context(), "/f", path, GetOptions{})
			if err != nil || res.Moved != int64(len(content)) || h.n.Load() < 5 {
				t.Fatalf("%d bytes by %d requests: %v", res.Moved, h.n.Load(), err)
			}
			wantLocal(t, path, content)
		})
	}
}

func TestStoreRefusalNamesStore(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	h := newShop(t, s)
	h.fault = func(_ int64, w http.ResponseWriter) http.ResponseWriter {
		refuse(w, http.StatusForbidden, "AccessDenied")
		return nil
	}
	s.Store("/f", []byte("content"), mtime)
	_, err := newDownloader(t, s).Get(t.Context(), "/f", filepath.Join(t.TempDir(), "f"), GetOptions{})
	refused, ok := errors.AsType[*StoreError](err)
	if !ok || refused.Status != http.StatusForbidden || refused.Code != "AccessDenied" || !strings.HasSuffix(h.URL, refused.Host) {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the address of the content is shown: %v", err)
	}
}

// A file replaced between two ranges is never assembled from both versions.
func TestGetFromTheStoreFollowsReplacement(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	newShop(t, s)
	content := randomBytes(33, 4*mib)
	s.Store("/f", randomBytes(32, 6*mib), mtime)
	var replaced atomic.Bool
	s.Inject(func(r *http.Request) clienttest.Fault {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=3145728-") && replaced.CompareAndSwap(false, true) {
			s.Store("/f", content, mtime)
		}
		return clienttest.None
	})
	path := filepath.Join(t.TempDir(), "f")
	if _, err := newDownloader(t, s).Get(t.Context(), "/f", path, GetOptions{}); err != nil {
		t.Fatal(err)
	}
	wantLocal(t, path, content)
}

// A proxy's redirect is not followed, neither with nor without the token.
func TestForeignRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var followed atomic.Bool
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	t.Cleanup(trap.Close)
	for name, header := range map[string]map[string]string{
		"a proxy's":       {"Location": trap.URL},
		"one to nowhere":  {"ETag": `"b3-1"`},
		"one to a file":   {"ETag": `"b3-1"`, "Location": "file:///etc/passwd"},
		"to no address":   {"ETag": `"b3-1"`, "Location": "http://[::1"},
		"one that loops ": {"ETag": `"b3-1"`, "Location": "/api/v1/nodes/x/content"},
	} {
		c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			for k, v := range header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		if body, err := c.Open(t.Context(), "x", Range{}); err == nil {
			_ = body.Close()
			t.Errorf("%s: it was taken for content", name)
		}
		if _, err := c.Node(t.Context(), "x"); err == nil {
			t.Errorf("%s: it was taken for a node", name)
		}
	}
	if followed.Load() {
		t.Error("a proxy's redirect was followed")
	}
}

// Content requested over TLS is not fetched without TLS.
func TestARedirectFromTLSToHTTPIsNotFollowed(t *testing.T) {
	t.Parallel()
	var followed atomic.Bool
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	t.Cleanup(trap.Close)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"b3-1"`)
		w.Header().Set("Location", trap.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	t.Cleanup(s.Close)
	c, err := New(Options{BaseURL: s.URL, HTTPClient: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Open(t.Context(), "x", Range{}); err == nil || !strings.Contains(err.Error(), "307") || followed.Load() {
		t.Errorf("got %v, followed: %v", err, followed.Load())
	}
}
