package rest_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// choose names files for a download.
func (u user) choose(t *testing.T, in map[string]any) (made map[string]any, at string) {
	t.Helper()
	made = u.post(t, "/archives", in).json(t, http.StatusCreated)
	return made, "/archives/" + made["id"].(string)
}

// Each is downloaded, none is counted as an export, and none is refused.
func TestAnyNumberOfSelectionsIsDownloaded(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	a, b := u.put(t, "/d/a.txt", []byte("first"))["id"], u.put(t, "/d/照片/b.txt", []byte("second"))["parent_id"]
	for i := range 55 {
		made, at := u.choose(t, map[string]any{"nodes": []any{a, b, a}, "name": fmt.Sprint("choice ", i)})
		got := u.get(t, at)
		want := map[string]string{fmt.Sprintf("choice %d/a.txt", i): "first", fmt.Sprintf("choice %d/照片/b.txt", i): "second"}
		if diff := cmp.Diff(want, unzip(t, got.body)); diff != "" {
			t.Fatalf("the zip %d: %s", i, diff)
		}
		if made["total"] != 2.0 || made["size"] != float64(len(got.body)) || made["etag"] != got.Header.Get("ETag") {
			t.Fatalf("it is said to be %v, and is %d bytes, %s", made, len(got.body), got.Header.Get("ETag"))
		}
	}
	if all := u.get(t, "/exports").items(t); len(all) != 0 {
		t.Errorf("%d exports were made", len(all))
	}
}

func TestAFolderIsDownloadedByItsID(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	u.put(t, "/d/a.txt", []byte("first"))
	file := u.put(t, "/d/b/c.txt", []byte("second"))
	d := u.get(t, "/nodes?path=/d").json(t, http.StatusOK)["id"].(string)
	whole := u.get(t, "/nodes/"+d+"/archive")
	if diff := cmp.Diff(map[string]string{"d/a.txt": "first", "d/b/c.txt": "second"}, unzip(t, whole.body)); diff != "" {
		t.Error(diff)
	}
	head := u.send(t, "HEAD", "/nodes/"+d+"/archive", nil)
	if head.ContentLength != int64(len(whole.body)) || head.Header.Get("Content-Disposition") != `attachment; filename="d.zip"; filename*=UTF-8''d.zip` {
		t.Errorf("its head is %d bytes, %v", head.ContentLength, head.Header)
	}
	if got := unzip(t, u.get(t, "/nodes/root/archive").body); len(got) != 2 || got["export/d/a.txt"] != "first" {
		t.Errorf("of the root it has %v", got)
	}
	u.get(t, "/nodes/"+file["id"].(string)+"/archive").problem(t, drive.BadRequest, map[string]any{"field": "folder"})
	u.send(t, "DELETE", "/nodes/"+d, nil)
	u.get(t, "/nodes/"+d+"/archive").problem(t, drive.WrongState, map[string]any{"state": "trashed"})
}

// An interrupted download of a selection resumes as long as nothing has changed. Otherwise it fails
// clearly or starts again.
func TestSelectionDownloadResumes(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	a, b := u.put(t, "/a.txt", []byte("first"))["id"], u.put(t, "/b.txt", []byte("second"))["id"]
	made, at := u.choose(t, map[string]any{"nodes": []any{a, b}})
	tag := made["etag"].(string)
	whole := u.get(t, at)
	for _, headers := range [][]string{{"Range", "bytes=40-"}, {"Range", "bytes=40-", "If-Range", tag}, {"Range", "bytes=40-", "If-Match", tag}} {
		if rest := u.get(t, at, headers...); rest.StatusCode != http.StatusPartialContent || !bytes.Equal(rest.body, whole.body[40:]) {
			t.Errorf("with %v: %s", headers, rest)
		}
	}
	u.get(t, at, "Range", "bytes=9999-").problem(t, drive.Range, map[string]any{"size": len(whole.body)})
	if rep := u.get(t, at, "If-None-Match", tag); rep.StatusCode != http.StatusNotModified {
		t.Errorf("what is there already: %s", rep)
	}

	u.put(t, "/a.txt", []byte("third"))
	for _, headers := range [][]string{{"Range", "bytes=40-"}, {"Range", "bytes=40-", "If-Range", tag}} {
		again := u.get(t, at, headers...)
		if again.StatusCode != http.StatusOK || unzip(t, again.body)["export/a.txt"] != "third" || again.Header.Get("ETag") == tag {
			t.Errorf("after a change, with %v: %s", headers, again)
		}
	}
	u.get(t, at, "Range", "bytes=40-", "If-Match", tag).problem(t, drive.Precondition, nil)
	now := u.get(t, at).Header.Get("ETag")
	if rest := u.get(t, at, "Range", "bytes=40-", "If-Range", now); rest.StatusCode != http.StatusPartialContent {
		t.Errorf("what began after the change does not go on: %s", rest)
	}
	u.send(t, "DELETE", "/nodes/"+b.(string), nil)
	u.get(t, at, "Range", "bytes=40-", "If-Range", now).problem(t, drive.WrongState, map[string]any{"state": "trashed"})
}

func TestASelectionIsItsAccountsOnly(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, other := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	a := u.put(t, "/d/a.txt", []byte("first"))
	_, at := u.choose(t, map[string]any{"nodes": []any{a["id"]}})
	_, its := other.choose(t, map[string]any{"nodes": []any{other.put(t, "/b.txt", []byte("second"))["id"]}})
	for _, in := range []map[string]any{{"nodes": []any{a["id"]}}, {"folder": a["parent_id"]}} {
		other.post(t, "/archives", in).problem(t, drive.NotFound, nil)
	}
	other.get(t, at).problem(t, drive.NotFound, nil)
	other.get(t, "/nodes/"+a["parent_id"].(string)+"/archive").problem(t, drive.NotFound, nil)
	u.get(t, its).problem(t, drive.NotFound, nil)
	u.get(t, "/archives/x").problem(t, drive.NotFound, nil)
	for what, in := range map[string]map[string]any{
		"nothing": {}, "both": {"nodes": []any{a["id"]}, "folder": a["parent_id"]},
		"a file as a folder": {"folder": a["id"]},
	} {
		if rep := u.post(t, "/archives", in); rep.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", what, rep)
		}
	}
	u.post(t, "/archives", map[string]any{"nodes": []any{a["id"]}, "name": "a/b"}).problem(t, drive.BadName, nil)

	token := u.post(t, "/tokens", map[string]any{"name": "reader", "scopes": []string{"read"}}).json(t, http.StatusCreated)
	reader := u
	reader.token = token["token"].(string)
	_, at = reader.choose(t, map[string]any{"nodes": []any{a["id"]}})
	if rep := reader.get(t, at); rep.StatusCode != http.StatusOK {
		t.Errorf("a token that may read: %s", rep)
	}
	u.send(t, "DELETE", "/tokens/"+token["id"].(string), nil)
	reader.get(t, at).problem(t, drive.Unauthenticated, nil)
}

func TestAKeyMakesASelectionOnce(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	in := map[string]any{"nodes": []any{u.put(t, "/a.txt", []byte("first"))["id"]}}
	first := u.post(t, "/archives", in, "Idempotency-Key", "k").json(t, http.StatusCreated)
	if again := u.post(t, "/archives", in, "Idempotency-Key", "k").json(t, http.StatusCreated); again["id"] != first["id"] {
		t.Error("the same key made another one")
	}
}

// A user whose clients do not read has a limited number of slots and does not keep others from
// reading.
func TestConcurrentZipsPerUserAreLimited(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, other := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	made, at := u.choose(t, map[string]any{"nodes": []any{u.put(t, "/a.txt", []byte("first"))["id"]}})
	w := &idle{ResponseWriter: httptest.NewRecorder(), writing: make(chan struct{}), end: make(chan struct{})}
	var reading sync.WaitGroup
	for range 8 {
		reading.Go(func() {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1"+at, nil)
			r.Header.Set("Authorization", "Bearer "+u.token)
			u.server.ServeHTTP(w, r)
		})
		<-w.writing
	}
	u.get(t, at).problem(t, drive.Rate, map[string]any{"limit": 8, "sent": 9})
	u.get(t, "/nodes/root/children").json(t, http.StatusOK)
	_, its := other.choose(t, map[string]any{"nodes": []any{other.put(t, "/b.txt", []byte("second"))["id"]}})
	if rep := other.get(t, its); rep.StatusCode != http.StatusOK {
		t.Errorf("somebody else: %s", rep)
	}
	close(w.end)
	reading.Wait()
	if rep := u.get(t, at); rep.StatusCode != http.StatusOK || made["etag"] != rep.Header.Get("ETag") {
		t.Errorf("after the others have ended: %s", rep)
	}
}
