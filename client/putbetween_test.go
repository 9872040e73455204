package client

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"example.org/smartdrive/client/clienttest"
)

// thenReplaced loses the reply to the n-th request to a path, and stores another version there
// before the next request.
func thenReplaced(s *clienttest.Server, path string, n int64, file string, other []byte) {
	var seen atomic.Int64
	s.Inject(func(r *http.Request) clienttest.Fault {
		if strings.HasSuffix(r.URL.Path, path) {
			switch seen.Add(1) {
			case n:
				return clienttest.LoseReply
			case n + 1:
				s.Store(file, other, mtime)
			}
		}
		return clienttest.None
	})
}

// A file replaced before its reply arrives was sent and is not reported as damaged.
func TestPutReportsLaterReplacement(t *testing.T) {
	t.Parallel()
	other := randomBytes(2, 70)
	for _, test := range []struct {
		path string
		n    int64 // the request that does it
		size int
	}{{"/batch", 1, 50}, {"/complete", 2, 3 * mib}} {
		t.Run(strings.TrimPrefix(test.path, "/"), func(t *testing.T) {
			t.Parallel()
			s := clienttest.New(t)
			s.EnableBatches(true)
			thenReplaced(s, test.path, test.n, "/t/f", other)
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "f"), randomBytes(1, test.size))
			var got Item
			sum, err := newUploader(t, s).PutTree(t.Context(), dir, "/t", TreeOptions{Conflict: Replace, OnItem: func(i Item) { got = i }})
			if err != nil || sum.Sent != 1 || sum.Failed != 0 || got.Result.Note != noteReplaced {
				t.Errorf("%+v, %v, note %q, %v", sum, err, got.Result.Note, got.Err)
			}
			if _, versions := s.File("/t/f"); versions != 2 {
				t.Errorf("%d versions", versions)
			}
			wantFile(t, s, "/t/f", other)
		})
	}
}
