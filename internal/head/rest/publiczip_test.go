package rest_test

import (
	"archive/zip"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// unzip returns the contents of a zip by name.
func unzip(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(text)
	}
	return files
}

func TestASharedFolderIsDownloadedAsAZip(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	a := u.put(t, "/top/pub/a.txt", []byte("first"))["id"].(string)
	u.put(t, "/top/pub/照片/b.txt", []byte("second"))
	outside := u.put(t, "/top/secret", []byte("x"))["id"].(string)
	u.post(t, "/nodes", map[string]any{"type": "folder", "path": "/top/pub/empty"}).json(t, http.StatusCreated)
	id := func(path string) string {
		return u.get(t, "/nodes?path="+path).json(t, http.StatusOK)["id"].(string)
	}
	v, made := u.shareOf(t, id("/top/pub"), nil)
	v.get(t, "/nodes/root/zip").problem(t, drive.Unauthenticated, nil)
	v = v.open(t, "")
	all := map[string]string{"pub/a.txt": "first", "pub/照片/b.txt": "second", "pub/empty/": ""}

	whole := v.get(t, "/nodes/root/zip")
	if diff := cmp.Diff(all, unzip(t, whole.body)); diff != "" || whole.Header.Get("Content-Type") != "application/zip" {
		t.Errorf("the zip: %s %v", diff, whole.Header)
	}
	head := v.send(t, "HEAD", "/nodes/root/zip", nil)
	tag := whole.Header.Get("ETag")
	if head.ContentLength != int64(len(whole.body)) || tag == "" || head.Header.Get("ETag") != tag {
		t.Errorf("its head: %d bytes, %s", head.ContentLength, head.Header.Get("ETag"))
	}
	rest := v.get(t, "/nodes/root/zip", "Range", "bytes=40-", "If-Range", tag)
	if rest.StatusCode != http.StatusPartialContent || !bytes.Equal(rest.body, whole.body[40:]) {
		t.Errorf("from byte 40: %s", rest)
	}
	got := unzip(t, v.get(t, "/nodes/root/zip?nodes="+a).body)
	if diff := cmp.Diff(map[string]string{"pub/a.txt": "first"}, got); diff != "" {
		t.Errorf("of one file: %s", diff)
	}
	below := id("/top/pub/照片")
	got = unzip(t, v.get(t, "/nodes/"+below+"/zip").body)
	if diff := cmp.Diff(map[string]string{"照片/b.txt": "second"}, got); diff != "" {
		t.Errorf("of a folder below: %s", diff)
	}
	for _, path := range []string{"/nodes/root/zip?nodes=" + outside, "/nodes/" + outside + "/zip", "/nodes/" + below + "/zip?nodes=" + a, "/nodes/root/zip?nodes=x"} {
		v.get(t, path).problem(t, drive.NotFound, nil)
	}
	got = unzip(t, v.get(t, "/nodes/"+id("/top/pub/empty")+"/zip").body)
	if diff := cmp.Diff(map[string]string{"empty/": ""}, got); diff != "" {
		t.Errorf("of an empty folder: %s", diff)
	}
	if got := u.get(t, "/shares/"+made["id"].(string)).json(t, http.StatusOK)["downloads"]; got != 4.0 {
		t.Errorf("%v downloads are counted, want 4: the head and the rest are none", got)
	}
	u.put(t, "/top/pub/a.txt", []byte("third"))
	if again := v.get(t, "/nodes/root/zip", "Range", "bytes=40-", "If-Range", tag); again.StatusCode != http.StatusOK || again.Header.Get("ETag") == tag {
		t.Errorf("after a replace: %d %s", again.StatusCode, again.Header.Get("ETag"))
	}
}

func TestZipsOfAShareEndAtItsLimit(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	u.put(t, "/pub/a.txt", []byte("first"))
	pub := u.get(t, "/nodes?path=/pub").json(t, http.StatusOK)["id"].(string)
	v, _ := u.shareOf(t, pub, map[string]any{"max_downloads": 1})
	one, two := v.open(t, ""), v.open(t, "")
	if got := one.get(t, "/nodes/root/zip", "Range", "bytes=0-9"); got.StatusCode != http.StatusPartialContent {
		t.Fatalf("the first: %s", got)
	}
	one.get(t, "/nodes/root/zip").problem(t, drive.Gone, map[string]any{"reason": "used-up"})
	two.get(t, "/nodes/root/zip", "Range", "bytes=10-").problem(t, drive.Gone, map[string]any{"reason": "used-up"})
	if got := one.get(t, "/nodes/root/zip", "Range", "bytes=10-"); got.StatusCode != http.StatusPartialContent {
		t.Errorf("what was begun cannot be ended: %s", got)
	}
}

// A request for the first byte only is not counted as a download, and a visitor without downloads
// left gets nothing.
func TestExhaustedShareSendsNothing(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	u.put(t, "/pub/a.txt", []byte("first"))
	file := u.get(t, "/nodes?path=/pub/a.txt").json(t, http.StatusOK)["id"].(string)
	v, _ := u.shareOf(t, u.get(t, "/nodes?path=/pub").json(t, http.StatusOK)["id"].(string), map[string]any{"max_downloads": 1})
	one, two := v.open(t, ""), v.open(t, "")
	look := func(who visitor, at string) response { return who.get(t, at, "Range", "bytes=0-0") }
	at := "/nodes/" + file + "/content"
	if got := look(two, at); got.StatusCode != http.StatusPartialContent {
		t.Errorf("before: %s", got)
	}
	if got := one.get(t, at); got.StatusCode != http.StatusOK {
		t.Fatalf("the one download: %s", got)
	}
	for _, at := range []string{at, "/nodes/root/zip"} {
		look(two, at).problem(t, drive.Gone, map[string]any{"reason": "used-up"})
	}
	if got := look(one, at); got.StatusCode != http.StatusPartialContent {
		t.Errorf("who has begun it looks again: %s", got)
	}
}

func TestASharedFolderIsListedInOrder(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	for _, path := range []string{"/pub/a.txt", "/pub/b.pdf", "/pub/z/x", "/pub/c.png"} {
		u.put(t, path, []byte("x"))
	}
	v, _ := u.shareOf(t, u.get(t, "/nodes?path=/pub").json(t, http.StatusOK)["id"].(string), nil)
	v = v.open(t, "")
	for query, want := range map[string]string{
		"?folders_first=true": "z a.txt b.pdf c.png ", "?folders_first=true&order=desc": "z c.png b.pdf a.txt ", "?sort=type&order=desc": "a.txt c.png b.pdf z ",
	} {
		got := ""
		for _, n := range v.get(t, "/nodes/root/children"+query).items(t) {
			got += n["name"].(string) + " "
		}
		if got != want {
			t.Errorf("%s lists %q, want %q", query, got, want)
		}
	}
}

// A reader that reads nothing occupies a slot. One address has a limited number of slots.
func TestShareZipsPerAddressAreLimited(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	u.put(t, "/pub/a.txt", []byte("first"))
	v, _ := u.shareOf(t, u.get(t, "/nodes?path=/pub").json(t, http.StatusOK)["id"].(string), nil)
	v = v.open(t, "")
	w := &idle{ResponseWriter: httptest.NewRecorder(), writing: make(chan struct{}), end: make(chan struct{})}
	var reading sync.WaitGroup
	for range 4 {
		reading.Go(func() {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/public/shares/"+v.token+"/nodes/root/zip", nil)
			r.Header.Set("Authorization", "Share "+v.access)
			v.server.ServeHTTP(w, r)
		})
		<-w.writing
	}
	v.get(t, "/nodes/root/zip").problem(t, drive.Rate, map[string]any{"limit": 4, "sent": 5})
	v.get(t, "/nodes/root/children").json(t, http.StatusOK)
	close(w.end)
	reading.Wait()
	if got := v.get(t, "/nodes/root/zip"); got.StatusCode != http.StatusOK {
		t.Errorf("after the others have ended: %s", got)
	}
}

// idle is a client that reads nothing for a while, and is then gone.
type idle struct {
	http.ResponseWriter
	writing, end chan struct{}
}

func (w *idle) Header() http.Header { return http.Header{} }

func (w *idle) WriteHeader(int) {}

func (w *idle) Write([]byte) (int, error) {
	select {
	case w.writing <- struct{}{}:
	case <-w.end:
	}
	<-w.end
	return 0, io.ErrClosedPipe
}
