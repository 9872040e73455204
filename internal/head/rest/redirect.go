package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
)

// redirect sends the client of a download to the store if redirects are configured and the store
// can answer the request. If it returns true, the response is complete. It fails if the store
// cannot sign the URL; then nothing was sent.
//
// The client repeats its request headers at the store, which evaluates them with its own
// validators. So the API answers what depends on the file's ETag and mtime itself: all
// preconditions, unsatisfiable ranges, and several ranges, which stores do not support. A matching
// If-Range may be redirected: a store that does not know the ETag sends the whole content or the
// range.
func (s contents) redirect(ctx context.Context, c *call, d files.Download, tag string, inline bool) (bool, error) {
	if s.redirectFor <= 0 || c.r.Method != http.MethodGet || inline && !passive(d.Version.Mime) || !storeCanAnswer(ctx, c, d, tag) {
		return false, nil
	}
	url, err := s.files.Contents.StoreURL(ctx, d, s.redirectFor, disposition(d.Node.Name, inline))
	if err != nil || url == "" {
		return false, err
	}
	h := c.w.Header()
	h.Set("Location", url)
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-store") // the store address expires before the file does
	c.w.WriteHeader(http.StatusTemporaryRedirect)
	return true, nil
}

// passive reports whether a browser that displays content of this media type executes none of it.
// The store's response lacks the security headers of contents.begin. Types that contain xml may
// carry scripts, as SVG does. Media types are case-insensitive.
func passive(mime string) bool {
	mime = strings.ToLower(mime)
	kind, _, _ := strings.Cut(mime, "/")
	return slices.Contains([]string{"audio", "image", "video"}, kind) && !strings.Contains(mime, "svg") && !strings.Contains(mime, "xml")
}

// storeCanAnswer reports whether the store would answer the request as the API does. To find out,
// it runs http.ServeContent without content; nothing is sent.
func storeCanAnswer(ctx context.Context, c *call, d files.Download, tag string) bool {
	for _, name := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"} {
		if c.r.Header.Get(name) != "" {
			return false
		}
	}
	if c.r.Header.Get("Range") == "" {
		return c.r.Header.Get("If-Range") == "" // otherwise If-Range does not match, which the store may not notice
	}
	ask := server.WithoutRange(c.r.WithContext(ctx), d.Size())
	ask.Method = http.MethodHead
	verdict := &headRecorder{header: http.Header{"Etag": {tag}, "Content-Type": {d.Version.Mime}}}
	http.ServeContent(verdict, ask, "", d.Version.MTime.Std(), io.NewSectionReader(emptyReaderAt{}, 0, int64(d.Size())))
	return verdict.status == http.StatusPartialContent && verdict.header.Get("Content-Range") != "" // absent for several ranges
}

// headRecorder is a http.ResponseWriter that keeps the status and header and drops the body.
type headRecorder struct {
	header http.Header
	status int
}

// Header returns the recorded headers.
func (v *headRecorder) Header() http.Header { return v.header }

// WriteHeader records the status.
func (v *headRecorder) WriteHeader(status int) { v.status = status }

// Write discards p.
func (v *headRecorder) Write(p []byte) (int, error) { return len(p), nil }

// emptyReaderAt is a ReaderAt for content that must not be read.
type emptyReaderAt struct{}

// ReadAt always fails; only the headers of the response are wanted.
func (emptyReaderAt) ReadAt([]byte, int64) (int, error) {
	return 0, errors.New("read what is only judged")
}
