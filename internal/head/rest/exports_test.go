package rest_test

import (
	"archive/zip"
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

func (s *stack) drain(t *testing.T) {
	t.Helper()
	if err := s.exports.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// names lists the names in a zip.
func names(t *testing.T, raw []byte) (all []string) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		all = append(all, f.Name)
	}
	return all
}

func TestAFolderIsExported(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	u.put(t, "/docs/store/x.pdf", []byte("x"))
	folder := u.put(t, "/docs/y.txt", []byte("y"))["parent_id"].(string)
	in := map[string]any{"folder": folder, "filter": map[string]any{"ext": []string{"pdf"}}}
	v := u.post(t, "/exports", in, "Idempotency-Key", `"k"`).json(t, http.StatusCreated)
	if again := u.post(t, "/exports", in, "Idempotency-Key", `"k"`).json(t, http.StatusCreated); again["id"] != v["id"] {
		t.Error("the same key made another batch")
	}
	one := "/exports/" + v["id"].(string)
	u.get(t, one+"/content").problem(t, drive.WrongState, map[string]any{"state": "pending"})
	s.drain(t)
	v = u.get(t, one).json(t, http.StatusOK)
	listed := u.get(t, "/exports").items(t)
	if v["state"] != "sealed" || v["total"] != 1.0 || v["request"] == nil || len(listed) != 1 {
		t.Fatalf("it is %v", v)
	}
	if listed[0]["id"] != v["id"] || listed[0]["request"] != nil { // which may be long
		t.Errorf("in the list it is %v", listed[0])
	}
	got := u.get(t, one+"/content")
	if diff := cmp.Diff([]string{"docs/store/x.pdf"}, names(t, got.body)); diff != "" {
		t.Error(diff)
	}
	if got.Header.Get("ETag") != v["etag"] || !strings.Contains(got.Header.Get("Content-Disposition"), `filename="docs.zip"`) {
		t.Errorf("the headers are %v", got.Header)
	}
	part := u.get(t, one+"/content", "Range", "bytes=4-9")
	if part.StatusCode != http.StatusPartialContent || !bytes.Equal(part.body, got.body[4:10]) {
		t.Errorf("a range is %s", part)
	}
	u.get(t, one+"/content", "Range", "bytes=99999-").problem(t, drive.Range, nil)
	head := u.send(t, "HEAD", one+"/content", nil)
	if head.StatusCode != http.StatusOK || head.Header.Get("Content-Length") == "" || len(head.body) != 0 {
		t.Errorf("HEAD is %s with %v", head, head.Header)
	}
	u.send(t, "DELETE", one, nil)
	u.get(t, one+"/content").problem(t, drive.Gone, map[string]any{"reason": "withdrawn"})
}

func TestZipLinkWorksUntilItExpires(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	node := u.put(t, "/x.pdf", []byte("x"))["id"].(string)
	v := u.post(t, "/exports", map[string]any{"nodes": []string{node}}).json(t, http.StatusCreated)
	one := "/exports/" + v["id"].(string)
	u.post(t, one+"/links", map[string]any{"expires_in": 60}).problem(t, drive.WrongState, nil)
	s.drain(t)
	link := u.post(t, one+"/links", map[string]any{"expires_in": 60}).json(t, http.StatusCreated)["url"].(string)
	at := link[strings.Index(link, "/api/v1"):]
	got := s.do(t, request{method: "GET", path: at})
	if diff := cmp.Diff([]string{"export/x.pdf"}, names(t, got.body)); diff != "" {
		t.Error(diff)
	}
	s.do(t, request{method: "GET", path: forge(at, 2)}).problem(t, drive.NotFound, nil)
	s.Clock.Advance(time.Minute)
	s.do(t, request{method: "GET", path: at}).problem(t, drive.Gone, map[string]any{"reason": "link-expired"})
}

func TestAManifestIsExportedAndSupplemented(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	u.put(t, "/x.pdf", []byte("x"))
	list := []byte("id,path,name\r\n1,/x.pdf,store/x.pdf\r\n2,/missing.pdf,store/y.pdf\r\n")
	v := u.post(t, "/exports/manifest?name=disk", list).json(t, http.StatusCreated)
	s.drain(t)
	one := "/exports/" + v["id"].(string)
	errs := u.get(t, one+"/errors").items(t)
	if len(errs) != 1 || errs[0]["id"] != "2" || errs[0]["path"] != "/missing.pdf" || errs[0]["reason"] != "missing" {
		t.Fatalf("the errors are %v", errs)
	}
	if diff := cmp.Diff([]string{"disk/store/x.pdf", "err.txt"}, names(t, u.get(t, one+"/content").body)); diff != "" {
		t.Error(diff)
	}
	u.put(t, "/found.pdf", []byte("y"))
	more := map[string]any{"mode": "complete", "items": []any{map[string]any{"n": errs[0]["n"], "path": "/found.pdf"}}}
	next := u.post(t, one+"/supplement", more).json(t, http.StatusCreated)
	s.drain(t)
	if diff := cmp.Diff([]string{"disk/store/x.pdf", "disk/store/y.pdf"}, names(t, u.get(t, "/exports/"+next["id"].(string)+"/content").body)); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{
		"", "path\n/../x\n", `{"path":"/x","url":"http://a/"}`, `{"nope":1}`, `{"url":"forbidden"}`, "what\n1\n", "{\"path\":\"/x\"}\n[",
	} {
		if got := u.post(t, "/exports/manifest", []byte(bad)); got.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %s", bad, got)
		}
	}
	other := u.post(t, "/exports/manifest", []byte("path\n/x.pdf\n")).json(t, http.StatusCreated)
	v = u.post(t, "/exports/manifest", []byte(`{"url":"http://forbidden.example/x"}`)).json(t, http.StatusCreated)
	s.drain(t)
	errs = u.get(t, "/exports/"+v["id"].(string)+"/errors").items(t)
	if len(errs) != 1 || errs[0]["reason"] != "not-allowed" || errs[0]["detail"] != nil {
		t.Errorf("a host that is not allowed is %v", errs)
	}
	if got := u.get(t, "/exports/"+other["id"].(string)).json(t, http.StatusOK); got["state"] != "sealed" {
		t.Errorf("the other is %v", got)
	}
}
