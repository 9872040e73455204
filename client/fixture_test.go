package client

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/client/clienttest"
)

// mtime is when every test file was last changed.
var mtime = time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)

func newClient(t *testing.T, s *clienttest.Server) *Client {
	t.Helper()
	c, err := New(Options{
		BaseURL: s.URL(), Token: clienttest.Token, RetryFor: 10 * time.Second, MinBackoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// newUploader returns an uploader with parts of 1 MiB; larger files are sent as uploads.
func newUploader(t *testing.T, s *clienttest.Server) *Uploader {
	t.Helper()
	u, err := newClient(t, s).Uploader(UploadOptions{PartSize: 1 << 20, RetryFor: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// randomBytes returns n random bytes, the same for the same seed.
func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = r.Read(b) // it does not fail
	return b
}

func writeFile(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, mtime, mtime); err != nil {
		t.Fatal(err)
	}
	return path
}

func newSource(t *testing.T, content []byte) Source {
	t.Helper()
	src, err := FileSource(writeFile(t, filepath.Join(t.TempDir(), "local.bin"), content))
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func wantFile(t *testing.T, s *clienttest.Server, path string, content []byte) {
	t.Helper()
	if got, _ := s.File(path); !bytes.Equal(got, content) {
		t.Errorf("%s has %d bytes, want %d; or they differ", path, len(got), len(content))
	}
}

func isPart(method, path string) bool {
	return method == http.MethodPut && strings.Contains(path, "/parts/")
}

// once returns a fault for the n-th request (from 1) that match accepts.
func once(n int64, fault clienttest.Fault, match func(method, path string) bool) func(*http.Request) clienttest.Fault {
	var seen atomic.Int64
	return func(r *http.Request) clienttest.Fault {
		if match(r.Method, r.URL.Path) && seen.Add(1) == n {
			return fault
		}
		return clienttest.None
	}
}

// newBarrier returns a function that blocks until it has been called n times, so that n concurrent
// callers meet. It fails the test after 20 s.
func newBarrier(t *testing.T, n int32) func() {
	var came atomic.Int32
	all, met := context.WithCancel(t.Context())
	return func() {
		if came.Add(1) == n {
			met()
		}
		select {
		case <-all.Done():
		case <-time.After(20 * time.Second):
			t.Errorf("%d came beside each other, want %d", came.Load(), n)
			met() // the others need not wait as long
		}
	}
}
