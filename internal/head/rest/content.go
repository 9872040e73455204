package rest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
)

// contents serves the contents of files.
type contents struct {
	files       *files.Files
	links       *files.Links
	redirectFor time.Duration // lifetime of a redirect to the store; 0: the API sends the bytes itself
	readers     readers
}

// routes returns the declarations of the routes that contents serves. It registers nothing.
func (s contents) routes() []route {
	return []route{{
		id: "downloadFile", method: "GET", path: nodesPath + "/{id}/content", access: read, action: byNode(s.files, s.get),
		query: []param{
			{name: "version", doc: "id of an older version"},
			{name: "inline", syntax: boolean, doc: "let a browser show it instead of saving it"},
		},
		header:   []string{"Range", "If-Range", "If-None-Match", "If-Match"},
		summary:  "Read a file. The answer carries ETag, Last-Modified (the file's mtime) and, where the SHA-256 is known, Repr-Digest.",
		outcomes: contentOutcomes(),
		errors:   []drive.Kind{drive.NotFound, drive.Precondition, drive.Range},
	}}
}

// contentOutcomes returns the declared responses of routes that send the content of a file.
func contentOutcomes() []outcome {
	return []outcome{
		{status: 200, bytes: true, description: "the content"},
		{status: 206, bytes: true, description: "the ranges that were asked for"},
		emptyOutcome(307, "where --download-redirect is set: Location is the content at the store, ETag the content's; fetch it there with the same Range, but without the token"),
		emptyOutcome(304, "it is still what If-None-Match names"),
	}
}

// ContentURLPath returns the URL path of a file's content, for other heads.
func ContentURLPath(file drive.NodeID) string {
	return prefix + nodesPath + "/" + file.String() + "/content"
}

// get serves GET /nodes/{id}/content. Beyond the errors common to all routes it fails with
// drive.NotFound, drive.Precondition or drive.Range.
func (s contents) get(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	var version drive.VersionID
	if text := c.query.Get("version"); text != "" {
		var err error
		if version, err = drive.ParseID[drive.VersionID](text); err != nil {
			return reply{}, err
		}
	}
	d, err := s.files.Contents.Open(ctx, c.who, id, version)
	if err != nil {
		return reply{}, err
	}
	return s.send(ctx, c, &d, c.flag("inline"))
}

// send sends a file, or the requested ranges of it, and closes d.
//
// Most memory of a download that waits for a slow client is its stack. The runtime halves a stack
// of 32 KiB of which less than a quarter is used. So begin, which has many variables, returns
// before the content is sent.
func (s contents) send(ctx context.Context, c *call, d *files.Download, inline bool) (reply, error) {
	if done, err := s.begin(ctx, c, d, inline); done || err != nil {
		return reply{}, errors.Join(err, d.Close())
	}
	server.SendContent(c.w, c.r, d.Version.MTime.Std(), d, d.Size(), func(err error) { problem.Write(c.w, c.r, err) })
	return reply{}, d.Close()
}

// begin sets the headers of a download and returns false. True means that it has redirected the
// client to the store and nothing may be sent. It fails with the error of redirect.
//
//go:noinline
func (s contents) begin(ctx context.Context, c *call, d *files.Download, inline bool) (done bool, err error) {
	tag := quoted(opaqueTag(d.Sum.String()))
	if done, err := s.redirect(ctx, c, *d, tag, inline); done || err != nil {
		return true, err
	}
	h := c.w.Header()
	h.Set("ETag", tag)
	h.Set("Content-Type", d.Version.Mime)
	h.Set("Content-Disposition", disposition(d.Node.Name, inline))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'") // stored contents must not act as a page of this server
	h.Set("Cache-Control", "private, no-cache")
	if repr := digest.FormatReprDigest(d.Digests); repr != "" {
		h.Set("Repr-Digest", repr)
	}
	return false, nil
}

// disposition returns the Content-Disposition of a file. It holds the name in ASCII for old clients
// and in full (RFC 6266 §4.3, RFC 8187).
func disposition(name string, inline bool) string {
	name = strings.Map(plainDirection, name)
	how := "attachment"
	if inline {
		how = "inline"
	}
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' {
			return '_'
		}
		return r
	}, name)
	return fmt.Sprintf(`%s; filename="%s"; filename*=UTF-8''%s`, how, plain, escapeExtended(name))
}

// plainDirection replaces characters that change the direction of text by "_" (Unicode TR9 §2).
// With them "gpj.exe" could be displayed like "exe.jpg".
func plainDirection(r rune) rune {
	if unicode.Is(unicode.Bidi_Control, r) {
		return '_'
	}
	return r
}

// escapeExtended percent-encodes every byte that is no attr-char (RFC 8187 §3.2.1).
func escapeExtended(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("!#$&+-.^_`|~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
