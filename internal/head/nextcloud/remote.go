package nextcloud

import (
	"bufio"
	"context"
	"encoding/xml"
	"fmt"
	"net/http"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/head/problem"
)

// remote routes /remote.php/...: files, uploads, bulk, trash bin and versions. OPTIONS needs no
// authentication. Other paths fail with drive.NotFound.
func (c *call) remote(ctx context.Context) error {
	if c.r.Method == http.MethodOptions {
		c.DAV.Serve(c.w, c.r, dav.View{Prefix: "/remote.php/", Layout: dav.Merged}) // without authentication
		return nil
	}
	if c.at(1) == "webdav" {
		return c.files(ctx, "/remote.php/webdav/")
	}
	if c.at(1) != "dav" {
		return drive.Fail(drive.NotFound)
	}
	switch c.at(2) {
	case "files":
		return c.asUser(func() error { return c.files(ctx, "/remote.php/dav/files/"+c.at(3)+"/") })
	case "uploads":
		return c.asUser(func() error { return c.uploads(ctx, c.path[4:]) })
	case "bulk":
		if len(c.path) == 3 {
			return c.bulk(ctx)
		}
	case "trashbin":
		return c.asUser(func() error { return c.trashbin(ctx, c.path[4:]) })
	case "versions":
		return c.asUser(func() error { return c.versions(ctx, c.path[4:]) })
	}
	return drive.Fail(drive.NotFound)
}

// asUser authenticates the request and runs act if the path names the caller: by the name in Basic
// authentication, or the name of the token's user. For another name it fails with drive.NotFound.
func (c *call) asUser(act func() error) error {
	if len(c.path) < 4 {
		return drive.Fail(drive.NotFound)
	}
	leave, err := c.authenticate(!reads(c.r.Method))
	if err != nil {
		return err
	}
	defer leave()
	name, _, basic := c.r.BasicAuth()
	if !basic {
		if name, err = c.Name(c.r.Context(), c.who.User); err != nil {
			return err
		}
	}
	if drive.Name(name).Fold() != drive.Name(c.at(3)).Fold() {
		return drive.Fail(drive.NotFound)
	}
	return act()
}

// files serves the view of the caller's files below prefix. It authenticates the request unless
// c.who is set. REPORT is handled by favourites; SEARCH fails with drive.Method.
func (c *call) files(ctx context.Context, prefix string) error {
	if c.who.User.IsZero() {
		leave, err := c.authenticate(!reads(c.r.Method))
		if err != nil {
			return err
		}
		defer leave()
	}
	switch c.r.Method {
	case "REPORT":
		return c.favourites(ctx, prefix)
	case "SEARCH":
		return c.methodNotAllowed("OPTIONS", "PROPFIND", "GET", "PUT")
	}
	c.DAV.Serve(c.w, c.r, c.view(ctx, prefix))
	return nil
}

// view returns the view of the caller's tree below a prefix.
func (c *call) view(_ context.Context, prefix string) dav.View {
	d := c.propertyReader()
	return dav.View{
		Prefix: prefix, Layout: dav.Merged, Who: c.who, Properties: d.properties, Describe: d.header,
		Sets: func(n dav.Name) bool { return n == favourite }, Set: c.setFavourite, Sabre: true,
	}
}

// multistatus sends a complete 207 response with the given response elements, which must be
// well-formed. It always returns nil.
func (c *call) multistatus(responses ...string) error {
	out := c.newStream()
	out.add(responses...)
	out.end()
	return nil
}

// stream writes a multistatus. It sends its first bytes once writeAhead bytes are buffered, or at
// the end.
type stream struct {
	c    *call
	out  *bufio.Writer
	sent bool
}

// writeAhead is how many bytes are buffered before they are sent: some 40 entries.
const writeAhead = 32 << 10

// newStream returns a writer of a 207 response. The caller calls add for its elements, then end, or
// abort on an error. Until writeAhead bytes are buffered nothing is sent, so that an error can
// still have its own status.
func (c *call) newStream() *stream {
	s := &stream{c: c}
	s.out = bufio.NewWriterSize(s, writeAhead)
	s.add(xml.Header + `<d:multistatus xmlns:d="DAV:" xmlns:oc="` + owncloud + `" xmlns:nc="` + nextcloud + `">`)
	return s
}

// Write sends buffered bytes to the client, the first time after status 207 and the headers. From
// then on abort cannot change the status.
func (s *stream) Write(p []byte) (int, error) {
	if !s.sent {
		s.sent = true
		s.c.w.Header().Set("Content-Type", "application/xml; charset=utf-8")
		s.c.w.Header().Set("Cache-Control", "no-store")
		s.c.w.WriteHeader(http.StatusMultiStatus)
	}
	return s.c.w.Write(p)
}

// add writes strings that are XML already. It ignores a disconnected client.
func (s *stream) add(parts ...string) {
	for _, p := range parts {
		_, _ = s.out.WriteString(p)
	}
}

// end writes the closing tag of the multistatus and sends what is buffered. It ignores a
// disconnected client. The caller must not add anything afterwards.
func (s *stream) end() {
	s.add("</d:multistatus>\n")
	_ = s.out.Flush() // fails only if the client is disconnected
}

// abort ends a stream that failed midway with err. If nothing has been sent, it returns err for a
// normal answer. Otherwise it records err for the access log and panics with http.ErrAbortHandler,
// so that the connection breaks.
func (s *stream) abort(err error) error {
	if !s.sent {
		return err
	}
	problem.Note(s.c.w, fmt.Errorf("a listing broke off: %w", err))
	panic(http.ErrAbortHandler)
}

// response returns one response element with the status 200. props must be well-formed XML; href is
// escaped.
func response(href, props string) string {
	return "<d:response><d:href>" + escape(href) + "</d:href><d:propstat><d:prop>" + props +
		"</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
}
