package client

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/client/clienttest"
)

func TestPutTreeGetTreeRoundTrip(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	dir := filepath.Join(t.TempDir(), "tree")
	files := map[string][]byte{"a": randomBytes(1, 10), "sub/b": randomBytes(2, 2*mib+1), "sub/deep/c": nil, "same": randomBytes(1, 10)}
	for name, content := range files {
		writeFile(t, filepath.Join(dir, name), content)
	}
	if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	special := makeSpecial(t, filepath.Join(dir, "pipe"))
	u := newUploader(t, s)
	sum, err := u.PutTree(t.Context(), dir, "/x/tree", TreeOptions{SkipSame: true})
	want := Summary{Sent: 4, Folders: 3, Symlinks: 1, Special: special, Bytes: 2*mib + 21}
	if diff := cmp.Diff(want, sum); err != nil || diff != "" {
		t.Fatalf("%v %s", err, diff)
	}
	for name, content := range files {
		wantFile(t, s, "/x/tree/"+name, content)
	}

	before := s.CountRequests(func(method, _ string) bool { return method != http.MethodGet })
	if err := os.Chtimes(filepath.Join(dir, "a"), mtime, mtime.AddDate(1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "same"), randomBytes(3, 11))
	sum, err = u.PutTree(t.Context(), dir, "/x/tree", TreeOptions{SkipSame: true, Conflict: Replace})
	want = Summary{Sent: 1, Skipped: 3, Symlinks: 1, Special: special, Bytes: 11}
	if diff := cmp.Diff(want, sum); err != nil || diff != "" {
		t.Errorf("again: %v %s", err, diff)
	}
	if n := s.CountRequests(func(method, _ string) bool { return method != http.MethodGet }) - before; n != 3 { // the folder, a batch, which this server does not take, and the file
		t.Errorf("again: %d requests that change something", n)
	}

	back := filepath.Join(t.TempDir(), "back")
	sum, err = newDownloader(t, s).GetTree(t.Context(), "/x/tree", back, TreeOptions{})
	if err != nil || sum.Received != 4 || sum.Folders != 2 {
		t.Errorf("back: %+v, %v", sum, err)
	}
	wantLocal(t, filepath.Join(back, "sub", "deep", "c"), nil)
}

// One request per file, over no more connections than configured; one failure does not affect other
// files.
func TestPutTreeOfSmallFiles(t *testing.T) {
	t.Parallel()
	const files = 400
	s := clienttest.New(t)
	s.Store("/t/f007/in the way", nil, mtime) // a folder where a file is to go
	var mu sync.Mutex
	from := map[string]bool{}
	s.Inject(func(r *http.Request) clienttest.Fault {
		mu.Lock()
		defer mu.Unlock()
		from[r.RemoteAddr] = true
		return clienttest.None
	})
	dir := t.TempDir()
	for i := range files {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("f%03d", i)), []byte{byte(i)})
	}
	var failed []string
	sum, err := newUploader(t, s).PutTree(t.Context(), dir, "/t", TreeOptions{SkipSame: true, Conflict: Replace, OnItem: func(i Item) {
		if i.Err != nil {
			failed = append(failed, i.Path)
		}
	}})
	if err != nil || sum.Sent != files-1 || sum.Failed != 1 || !cmp.Equal(failed, []string{"/t/f007"}) {
		t.Errorf("%+v, %v, failed %q", sum, err, failed)
	}
	puts := s.CountRequests(func(method, path string) bool { return method == http.MethodPut && strings.Contains(path, "/files/") })
	// A request that starts before the last answer was read to its end takes another connection:
	// there are more than workers.
	if puts != files || len(from) > files/4 {
		t.Errorf("%d requests over %d connections", puts, len(from))
	}
	for addr := range from {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			t.Error(err)
		}
	}
}

// An error that would hit every file stops the tree at the first.
func TestPutTreeStopsWhenLoggedOut(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	dir := t.TempDir()
	for i := range 100 {
		writeFile(t, filepath.Join(dir, fmt.Sprint(i)), []byte{byte(i)})
	}
	u, err := newClient(t, s).WithToken("expired").Uploader(UploadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = u.PutTree(t.Context(), dir, "/t", TreeOptions{}); !IsCode(err, CodeUnauthenticated) {
		t.Errorf("got %v", err)
	}
	if n := s.CountRequests(func(string, string) bool { return true }); n != 1 {
		t.Errorf("%d requests", n)
	}
}
