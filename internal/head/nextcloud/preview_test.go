package nextcloud_test

import (
	"bytes"
	"image"
	"image/jpeg"
	"net/http"
	"testing"
)

// A client with a cached preview gets 304 until the file changes.
func TestPreviewIsRevalidated(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	draw := func(width int) string {
		var b bytes.Buffer
		if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, width, 40)), nil); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	s.Do(t, "PUT "+home+"p.jpg", "Content-Type: image/jpeg", "", draw(40)).Want(t, http.StatusCreated)
	const at = "GET /index.php/core/preview?file=p.jpg&x=64"
	first := s.Do(t, at).Want(t, http.StatusOK)
	tag := first.Header.Get("ETag")
	for _, list := range []string{tag, `"other", W/` + tag} {
		again := s.Do(t, at, "If-None-Match: "+list).Want(t, http.StatusNotModified)
		if again.Header.Get("ETag") != tag || again.Header.Get("Cache-Control") != first.Header.Get("Cache-Control") || len(again.Body) != 0 {
			t.Errorf("with %s: %v", list, again.Header)
		}
	}
	s.Do(t, at, `If-None-Match: "other"`).Want(t, http.StatusOK)
	s.Do(t, "GET /index.php/core/preview?file=p.jpg&x=512", "If-None-Match: "+tag).Want(t, http.StatusOK) // another size
	s.Do(t, "PUT "+home+"p.jpg", "Content-Type: image/jpeg", "", draw(80)).Want(t, http.StatusNoContent)
	s.Do(t, at, "If-None-Match: "+tag).Want(t, http.StatusOK)
	s.Do(t, "DELETE "+home+"p.jpg").Want(t, http.StatusNoContent)
	s.Do(t, at, "If-None-Match: "+tag).Want(t, http.StatusNotFound)
}
