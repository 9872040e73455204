package dav_test

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"smartdrive/internal/testkit/transcripttest"
)

// What clients send, in their order, and what they are answered: each file is written from what is
// known of its client. None of them may lose a byte, or find something that is not there.
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
