package resumable

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// A client that supports the draft gets interim responses with the offset, at most one per second
// and ever more rarely, and then the final response.
func TestProgressResponsesGetRarer(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][]string{
		"8": {"2", "4", "5"}, // a sixth would come when a 32nd of the hour has passed
		"7": nil, "": nil,
	} {
		now := time.Unix(1_800_000_000, 0)
		h := New(Options{Now: func() time.Time { return now }})
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(interopField, interop)
			w.Header().Set("Location", "/resumable/x")
			kept := (&call{Head: h, w: w, r: r}).progress()
			if kept == nil {
				return
			}
			for i, step := range []time.Duration{500 * time.Millisecond, time.Second, 0, time.Second, time.Hour, 100 * time.Second} {
				now = now.Add(step)
				kept(drive.ByteSize(i + 1))
			}
			_, _ = io.WriteString(w, "done")
		}))
		t.Cleanup(srv.Close)
		var got []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code != statusResumable || h.Get("Location") != "/resumable/x" || h.Get(interopField) != interop {
				t.Errorf("an interim response %d %v", code, h)
			}
			got = append(got, h.Get(offsetField))
			return nil
		}})
		req, err := http.NewRequestWithContext(ctx, http.MethodPatch, srv.URL, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		if version != "" {
			req.Header.Set(interopField, version)
		}
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if !slices.Equal(got, want) || resp.Header.Get(offsetField) != "" || resp.StatusCode != http.StatusOK {
			t.Errorf("version %q: %v, then %d %v", version, got, resp.StatusCode, resp.Header)
		}
	}
}

func TestWantsDigest(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"sha-256=1": true, "sha-512=3, sha-256=10, unixsum=0": true, "sha-256=5,\tsha-512=1": true, "": false, "sha-256=0": false, "sha-256": false,
		"sha-256=11": false, "sha-256=-1": false, "sha-512=5": false, "SHA-256=5": false, "sha-256=5, sha-256=0": false, "sha-256=x": false,
	} {
		if got := wantsDigest(http.Header{"Want-Repr-Digest": {in}}); got != want {
			t.Errorf("%q: %v", in, got)
		}
	}
}

func FuzzWantsDigest(f *testing.F) {
	f.Add("sha-256=1, sha-512=2")
	f.Fuzz(func(t *testing.T, s string) {
		if wantsDigest(http.Header{"Want-Repr-Digest": {s}}) && !strings.Contains(s, "sha-256=") {
			t.Errorf("%q wants none", s)
		}
	})
}
