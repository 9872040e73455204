package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/files"
)

// redirect sends a download on to the store, where the installation is set up so, and reports
// whether it has.
//
// Whoever follows repeats the request's header there, and the store judges it by validators of its
// own. So what has to be judged by the file's ETag and mtime is answered here: all preconditions,
// ranges that do not fit, and several at once, which stores do not give. An If-Range that holds may
// go: a store that does not know it gives the range, one that does gives the whole.
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
	h.Set("Cache-Control", "no-store") // the address ends before the file does
	c.w.WriteHeader(http.StatusTemporaryRedirect)
	return true, nil
}

// passive reports whether a browser that shows content of this type runs nothing of it. The store's
// answer has none of the headers that keep the rest harmless; see sendContent. Whatever ends in
// +xml is a document with scripts, as SVG is, and case has no meaning.
func passive(mime string) bool {
	mime = strings.ToLower(mime)
	kind, _, _ := strings.Cut(mime, "/")
	return slices.Contains([]string{"audio", "image", "video"}, kind) && !strings.Contains(mime, "svg") && !strings.Contains(mime, "xml")
}

// storeCanAnswer lets http.ServeContent judge the request, without a byte of content.
func storeCanAnswer(ctx context.Context, c *call, d files.Download, tag string) bool {
	for _, name := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"} {
		if c.r.Header.Get(name) != "" {
			return false
		}
	}
	if c.r.Header.Get("Range") == "" {
		return c.r.Header.Get("If-Range") == "" // else the range that was asked for is not to be had, and the store may not know
	}
	ask := server.Rangeless(c.r.WithContext(ctx), d.Size())
	ask.Method = http.MethodHead
	verdict := &verdict{header: http.Header{"Etag": {tag}, "Content-Type": {d.Version.Mime}}}
	http.ServeContent(verdict, ask, "", d.Version.MTime.Std(), io.NewSectionReader(noBytes{}, 0, int64(d.Size())))
	return verdict.status == http.StatusPartialContent && verdict.header.Get("Content-Range") != "" // absent: there are several
}

// verdict is a http.ResponseWriter that keeps the head of an answer and drops the rest.
type verdict struct {
	header http.Header
	status int
}

func (v *verdict) Header() http.Header         { return v.header }
func (v *verdict) WriteHeader(status int)      { v.status = status }
func (v *verdict) Write(p []byte) (int, error) { return len(p), nil }

// noBytes is content that nobody is to read.
type noBytes struct{}

func (noBytes) ReadAt([]byte, int64) (int, error) { return 0, errors.New("read what is only judged") }
