package client

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"example.org/smartdrive/client/clienttest"
)

// A resumed upload replaces only a version that the user can have meant: the one that existed when
// the replace was requested, or one reported to the user since.
func TestPutResumedReplacesOnlyWhatWasMeant(t *testing.T) {
	t.Parallel()
	content, old, other := randomBytes(20, 10*mib+1), randomBytes(21, 5000), randomBytes(22, 6000)
	for _, test := range []struct {
		name          string
		first, second Conflict
		between       bool   // somebody puts another version between the runs
		during        bool   // ... before the second run completes
		want          string // state or code
		path          string // of what was sent; empty: nowhere
	}{
		{"nobody comes", Replace, Replace, false, false, "sent", "/f"},
		{"somebody comes between the runs", Replace, Replace, true, false, "version-changed", ""},
		{"somebody comes during the second run", Replace, Replace, false, true, "version-changed", ""},
		{"told to replace what is there now", Rename, Replace, true, false, "sent", "/f"},
		{"told to, and somebody comes while it sends", Rename, Replace, false, true, "version-changed", ""},
		{"told to keep both", Replace, Rename, true, false, "sent", "/f (2)"},
		{"told to replace nothing", Replace, Fail, true, false, "name-taken", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := clienttest.New(t)
			s.Store("/f", old, mtime)
			src := newSource(t, content)
			ctx, cancel := context.WithCancel(t.Context())
			var sent atomic.Int64
			s.Inject(func(r *http.Request) clienttest.Fault {
				if isPart(r.Method, r.URL.Path) && sent.Add(1) > 5 {
					cancel()
					return clienttest.Refuse
				}
				return clienttest.None
			})
			if _, err := newUploader(t, s).Put(ctx, src, "/f", PutOptions{Conflict: test.first}); err == nil {
				t.Fatal("the first run was not interrupted")
			}
			if test.between {
				s.Store("/f", other, mtime)
			}
			var come sync.Once
			s.Inject(func(r *http.Request) clienttest.Fault {
				if test.during && strings.HasSuffix(r.URL.Path, "/complete") { // what was sent by the first run may still come, and says nothing
					come.Do(func() { s.Store("/f", other, mtime) })
				}
				return clienttest.None
			})
			res, err := newUploader(t, s).Put(t.Context(), src, "/f", PutOptions{Conflict: test.second})
			if got := string(res.State) + string(CodeOf(err)); got != test.want {
				t.Fatalf("%s, want %s: %v", got, test.want, err)
			}
			if test.path != "" {
				wantFile(t, s, test.path, content)
				return
			}
			wantFile(t, s, "/f", other)
			s.Inject(nil)
			if _, err := newUploader(t, s).Put(t.Context(), src, "/f", PutOptions{Conflict: Replace}); err != nil {
				t.Fatalf("told of it, and asked once more: %v", err)
			}
			wantFile(t, s, "/f", content)
		})
	}
}
