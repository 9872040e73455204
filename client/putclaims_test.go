package client

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/client/clienttest"
)

// Content that the server has is claimed, many files per request; other files are sent, and a name
// conflict fails only its file.
func TestPutTreeClaims(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	s := clienttest.New(t)
	s.EnableBatches(true)
	dir := filepath.Join(t.TempDir(), "tree")
	want := map[string][]byte{}
	for i := range 6 {
		content := randomBytes(uint64(40+i), size+i)
		if i < 4 {
			s.Store(fmt.Sprintf("/had/%d", i), content, mtime)
		}
		name := fmt.Sprintf("sub/f%d", i)
		writeFile(t, filepath.Join(dir, name), content)
		want["/t/"+name] = content
	}
	s.Store("/t/sub/f3", []byte("in the way"), mtime)
	u, err := newClient(t, s).Uploader(UploadOptions{PartSize: 2 << 20, RetryFor: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := u.PutTree(t.Context(), dir, "/t", TreeOptions{Conflict: Replace})
	expect := Summary{Sent: 2, Instant: 4, Bytes: 2*size + 4 + 5}
	if diff := cmp.Diff(expect, sum); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for path, content := range want {
		wantFile(t, s, path, content)
	}
	if n := s.CountBatchItems("claim"); n != 6 {
		t.Errorf("%d claims", n)
	}
	batches := s.CountRequests(func(method, path string) bool { return method == http.MethodPost && strings.HasSuffix(path, "/batch") })
	if batches > 2 {
		t.Errorf("%d batches", batches)
	}
}

// If no claim hits, claiming stops except for an occasional probe.
func TestClaimsWithoutHitsStop(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	u, err := newClient(t, s).Uploader(UploadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := &claimBatcher{batcher: &batcher{u: u}}
	e := batchEntry{src: Source{Size: minClaimSize}}
	asks := func() (n int) {
		for range 160 {
			if c.accepts(e) {
				n++
			}
		}
		return n
	}
	if n := asks(); n != 160 {
		t.Errorf("at first %d of 160 ask", n)
	}
	c.asked, c.hits = 100, 0
	if n := asks(); n != 160/probeInterval {
		t.Errorf("%d of 160 ask although nothing was there", n)
	}
	c.hits = 10
	if n := asks(); n != 160 {
		t.Errorf("%d of 160 ask although one in ten is there", n)
	}
}
