package rest_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

func inflated(t testing.TB, raw []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// A page of a list is a tenth of its size for a client that takes gzip, and the same page.
func TestListsAreSentCompressed(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	for i := range 20 {
		u.post(t, "/nodes", map[string]any{"type": "folder", "path": fmt.Sprintf("/folder %d", i)}).json(t, http.StatusCreated)
	}
	const list = "/nodes/root/children"
	plain, packed := u.get(t, list), u.get(t, list, "Accept-Encoding", "br, gzip")
	if got := packed.Header.Get("Content-Encoding"); got != "gzip" || packed.Header.Get("Vary") != "Accept-Encoding" || 4*len(packed.body) > len(plain.body) {
		t.Fatalf("%d bytes are sent as %q, Vary %q, of %d", len(packed.body), got, packed.Header.Get("Vary"), len(plain.body))
	}
	if got := packed.Header.Get("Content-Length"); got != fmt.Sprint(len(packed.body)) {
		t.Errorf("Content-Length is %s of %d", got, len(packed.body))
	}
	if diff := cmp.Diff(string(plain.body), string(inflated(t, packed.body))); diff != "" {
		t.Error(diff)
	}
	for _, header := range [][]string{
		{"Accept-Encoding", "gzip;q=0"},
		{"Accept-Encoding", "identity"},
		{"Accept-Encoding", "gzip", "Sec-Fetch-Site", "cross-site"},
		{"Accept-Encoding", "gzip", "Sec-Fetch-Site", "same-site"},
	} {
		if got := u.get(t, list, header...).Header.Get("Content-Encoding"); got != "" {
			t.Errorf("with %v it is %s", header, got)
		}
	}
	if got := u.get(t, list+"?limit=1", "Accept-Encoding", "gzip").Header.Get("Content-Encoding"); got != "" {
		t.Errorf("a small answer is %s", got)
	}
}

// The length of a response reveals nothing about its links and codes.
func TestSecretsAreNeverCompressed(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	folder := u.post(t, "/nodes", map[string]any{"type": "folder", "path": "/shared"}).json(t, http.StatusCreated)["id"]
	for range 10 {
		u.post(t, "/shares", map[string]any{"node": folder, "code": "auto"}).json(t, http.StatusCreated)
		u.post(t, "/collects", map[string]any{"folder": folder, "title": "send"}).json(t, http.StatusCreated)
		s.Clock.Advance(time.Second) // clicks of one user are counted
	}
	for _, list := range []string{"/shares", "/collects"} {
		got := u.get(t, list, "Accept-Encoding", "gzip")
		if len(got.body) < 2000 || got.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s is %d bytes, sent as %q", list, len(got.body), got.Header.Get("Content-Encoding"))
		}
	}
}
