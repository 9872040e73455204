package dav_test

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.org/smartdrive/internal/testkit/transcripttest"
)

// Each transcript contains the requests of a client in their order, written from what is known of
// the client, and the responses. No client may lose a byte or find a file that does not exist.
func TestClientTranscripts(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(all) < 7 {
		t.Fatal(all, err)
	}
	for _, file := range all {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			transcripttest.Play(t, file, transcripttest.Options{
				Handler: s.CheckedHandler(t),
				Prepare: func(r *http.Request) {
					if r.Method != http.MethodOptions {
						r.SetBasicAuth("ann", "x")
					}
				},
				Headers: []string{"DAV", "MS-Author-Via", "Allow", "ETag", "Lock-Token", "Location", "Content-Range", "Last-Modified", "X-OC-MTime"},
				Mask:    []*regexp.Regexp{regexp.MustCompile(`<D:opaque[^>]*>([^<]+)</D:opaque`)},
			})
			s.CheckLedger(t, s.Who)
		})
	}
}
