package rest_test

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

func photo(t *testing.T, w, h int) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range img.Pix {
		img.Pix[i] = byte(i * 7)
	}
	for y := range h {
		img.SetRGBA(0, y, color.RGBA{A: 255})
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestThumbnails(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	id := u.put(t, "/p/photo.jpg", photo(t, 1000, 500))["id"].(string)
	at := "/nodes/" + id + "/thumbnail"
	got := u.get(t, at)
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "image/jpeg" || got.Header.Get("Cache-Control") != "private, no-cache" {
		t.Fatalf("%d %v", got.StatusCode, got.Header)
	}
	if img, err := jpeg.Decode(bytes.NewReader(got.body)); err != nil || img.Bounds().Size() != (image.Point{X: 256, Y: 128}) {
		t.Errorf("it is %v, %v", img.Bounds(), err)
	}
	if got.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(got.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the headers are %v", got.Header)
	}
	larger := u.get(t, at+"?size=512&rev=1")
	if img, err := jpeg.Decode(bytes.NewReader(larger.body)); err != nil || img.Bounds().Dx() != 512 || !strings.Contains(larger.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("512 is %v %v", larger.Header, err)
	}
	tag := got.Header.Get("ETag")
	if tag == "" || tag == larger.Header.Get("ETag") {
		t.Errorf("the tags are %s and %s", tag, larger.Header.Get("ETag"))
	}
	if again := u.get(t, at, "If-None-Match", tag); again.StatusCode != http.StatusNotModified || again.Header.Get("ETag") != tag {
		t.Errorf("again: %s", again)
	}
	u.put(t, "/p/photo.jpg", photo(t, 100, 100)) // another version
	if again := u.get(t, at, "If-None-Match", tag); again.StatusCode != http.StatusOK {
		t.Errorf("of the next version: %s", again)
	}
	u.get(t, at+"?size=300").problem(t, drive.BadRequest, map[string]any{"field": "size"})
}

func TestWhatHasNoThumbnail(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, other := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	for path, c := range map[string]struct {
		content []byte
		reason  string
	}{
		"/a.txt": {[]byte("text"), "type"}, "/b.png": {[]byte("no png"), "type"}, "/c.svg": {[]byte("<svg/>"), "type"},
		"/d.jpg": {photo(t, 100, 100)[:300], "damaged"}, "/e.jpg": {nil, "type"},
	} {
		id := u.put(t, path, c.content)["id"].(string)
		u.get(t, "/nodes/"+id+"/thumbnail").problem(t, drive.NoThumbnail, map[string]any{"reason": c.reason})
		other.get(t, "/nodes/"+id+"/thumbnail").problem(t, drive.NotFound, nil)
	}
	u.get(t, "/nodes/root/thumbnail").problem(t, drive.NoThumbnail, map[string]any{"reason": "type"})
}

func TestThumbnailsOfAShare(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, 10, 10))); err != nil {
		t.Fatal(err)
	}
	inside := u.put(t, "/p/icon.png", b.Bytes())
	outside := u.put(t, "/icon.png", b.Bytes())
	made := u.post(t, "/shares", map[string]any{"node": inside["parent_id"], "code": "auto"}).json(t, http.StatusCreated)
	public := "/public/shares/" + made["token"].(string)
	visitor := user{stack: s}
	access := visitor.post(t, public+"/open", map[string]any{"code": made["code"]}).json(t, http.StatusOK)["access"].(string)
	at := func(node map[string]any) string { return public + "/nodes/" + node["id"].(string) + "/thumbnail" }
	if got := visitor.get(t, at(inside)+"?access="+access); got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "image/png" {
		t.Errorf("a shared picture is %s", got)
	}
	visitor.get(t, at(inside)).problem(t, drive.Unauthenticated, nil)
	visitor.get(t, at(outside), "Authorization", "Share "+access).problem(t, drive.NotFound, nil)
}
