package webui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// asset is a file of the web pages.
type asset struct {
	mime      string
	immutable bool // the name changes with the content, so it is cached forever
	plain     func() (variant, error)
	gzipped   func() (variant, error) // gzip form, or the same as plain if that is not smaller
}

// variant is one encoding of a file.
type variant struct {
	body     []byte
	tag      string // ETag with quotes
	encoding string // Content-Encoding; "" if uncompressed
}

// types maps extensions to media types, independent of the machine. zip marks types worth
// compressing.
var types = map[string]struct {
	mime string
	zip  bool
}{
	".html": {"text/html; charset=utf-8", true}, ".js": {"text/javascript; charset=utf-8", true}, ".mjs": {"text/javascript; charset=utf-8", true},
	".css": {"text/css; charset=utf-8", true}, ".json": {"application/json", true}, ".map": {"application/json", true},
	".webmanifest": {"application/manifest+json", true}, ".svg": {"image/svg+xml", true}, ".txt": {"text/plain; charset=utf-8", true},
	".wasm": {"application/wasm", true}, ".ico": {"image/x-icon", true}, ".ttf": {"font/ttf", true},
	".png": {"image/png", false}, ".jpg": {"image/jpeg", false}, ".webp": {"image/webp", false}, ".gif": {"image/gif", false},
	".woff": {"font/woff", false}, ".woff2": {"font/woff2", false},
}

// newAsset returns the asset of a file, which is read and compressed at first use. A failed read is
// cached as well.
func (u *UI) newAsset(name string) *asset {
	kind, known := types[path.Ext(name)]
	if !known {
		kind.mime = "application/octet-stream"
	}
	a := &asset{mime: kind.mime, immutable: strings.HasPrefix(name, hashedDir)}
	a.plain = sync.OnceValues(func() (variant, error) { return u.read(name) })
	a.gzipped = a.plain
	if kind.zip {
		a.gzipped = sync.OnceValues(func() (variant, error) { return compress(a.plain()) })
	}
	return a
}

// read returns a file uncompressed with its entity tag; the index gets its base element. It fails
// if the file cannot be read.
func (u *UI) read(name string) (variant, error) {
	body, err := fs.ReadFile(u.opt.Files, name)
	if err != nil {
		return variant{}, fmt.Errorf("read the page %s: %w", name, err)
	}
	if name == index {
		body = withBase(body, u.opt.SubPath+"/")
	}
	sum := sha256.Sum256(body)
	return variant{body: body, tag: `"` + base64.RawURLEncoding.EncodeToString(sum[:15]) + `"`}, nil
}

// baseTag matches the base element of the index page.
var baseTag = regexp.MustCompile(`<base [^>]*>`)

// withBase inserts or replaces the base element, so that relative URLs of the page refer to the
// base URL. It precedes all URLs, as HTML requires.
func withBase(page []byte, href string) []byte {
	tag := []byte(`<base href="` + html.EscapeString(href) + `">`)
	if at := baseTag.FindIndex(page); at != nil {
		return bytes.Join([][]byte{page[:at[0]], page[at[1]:]}, tag)
	}
	return bytes.Replace(page, []byte("<head>"), append([]byte("<head>"), tag...), 1)
}

// minCompressed is the size from which compression saves a packet.
const minCompressed = 1024 // bytes

// compress returns v as gzip, or v itself if that is not smaller. An err is returned unchanged, so
// that the result of read can be passed.
func compress(v variant, err error) (variant, error) {
	if err != nil || len(v.body) < minCompressed {
		return v, err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return v, err
	}
	if _, err := z.Write(v.body); err != nil {
		return v, err
	}
	if err := z.Close(); err != nil || b.Len() >= len(v.body) {
		return v, err
	}
	return variant{body: b.Bytes(), tag: strings.TrimSuffix(v.tag, `"`) + `-gz"`, encoding: "gzip"}, nil
}

// serve sends the file. It ignores Range, as RFC 9110 §14.2 allows, because the files are small. It
// fails, before anything is sent, if the file cannot be read.
func (a *asset) serve(w http.ResponseWriter, r *http.Request) error {
	form := a.plain
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		form = a.gzipped
	}
	v, err := form()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("ETag", v.tag)
	h.Add("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if a.immutable {
		h.Set("Cache-Control", "public, max-age=31536000, immutable") // a year, the longest that RFC 9111 suggests
	}
	if matchesTag(r.Header.Get("If-None-Match"), v.tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", a.mime)
	h.Set("Content-Length", strconv.Itoa(len(v.body)))
	if v.encoding != "" {
		h.Set("Content-Encoding", v.encoding)
	}
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(v.body) // fails only if the client is disconnected
	}
	return nil
}

// matchesTag reports whether If-None-Match lists the tag by weak comparison (RFC 9110 §13.1.2).
// Tags of this package have no commas.
func matchesTag(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}

// acceptsGzip reports whether Accept-Encoding accepts gzip (RFC 9110 §12.5.3). A weight of zero
// refuses it.
func acceptsGzip(header string) bool {
	for one := range strings.SplitSeq(header, ",") {
		coding, weight, weighed := strings.Cut(one, ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		q, ok := strings.CutPrefix(strings.TrimSpace(weight), "q=")
		return !weighed || !ok || strings.Trim(q, "0.") != ""
	}
	return false
}
