package nextcloud

import (
	"bufio"
	"context"
	"encoding/xml"
	"fmt"
	"net/http"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/dav"
	"smartdrive/internal/head/problem"
)

// remote answers /remote.php/....
func (c *call) remote(ctx context.Context) error {
	if c.r.Method == http.MethodOptions {
		c.DAV.Serve(c.w, c.r, dav.View{Prefix: "/remote.php/", Layout: dav.Home}) // without a login
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
		return c.own(func() error { return c.files(ctx, "/remote.php/dav/files/"+c.at(3)+"/") })
	case "uploads":
		return c.own(func() error { return c.uploads(ctx, c.path[4:]) })
	case "bulk":
		if len(c.path) == 3 {
			return c.bulk(ctx)
		}
	case "trashbin":
		return c.own(func() error { return c.trashbin(ctx, c.path[4:]) })
	case "versions":
		return c.own(func() error { return c.versions(ctx, c.path[4:]) })
	}
	return drive.Fail(drive.NotFound)
}

// own runs act for an address that has the caller's name in it, which is that of Basic, else that
// of the user whose token it is. Somebody else's is not there.
func (c *call) own(act func() error) error {
	if len(c.path) < 4 {
		return drive.Fail(drive.NotFound)
	}
	leave, err := c.enter(!reads(c.r.Method))
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

// files is the view of the caller's files.
func (c *call) files(ctx context.Context, prefix string) error {
	if c.who.User.IsZero() {
		leave, err := c.enter(!reads(c.r.Method))
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

// view is the tree of the caller below a prefix.
func (c *call) view(_ context.Context, prefix string) dav.View {
	d := c.describer()
	return dav.View{
		Prefix: prefix, Layout: dav.Home, Who: c.who, Properties: d.properties, Describe: d.header,
		Sets: func(n dav.Name) bool { return n == favourite }, Set: c.setFavourite, Sabre: true,
	}
}

// multistatus sends responses that are XML already.
func (c *call) multistatus(responses ...string) error {
	out := c.newStream()
	out.add(responses...)
	out.end()
	return nil
}

// stream is a multistatus on its way. It is sent with its first writeAhead bytes, or at its end.
type stream struct {
	c    *call
	out  *bufio.Writer
	sent bool
}

// writeAhead is how many bytes are gathered before they are sent: some 40 entries.
const writeAhead = 32 << 10

func (c *call) newStream() *stream {
	s := &stream{c: c}
	s.out = bufio.NewWriterSize(s, writeAhead)
	s.add(xml.Header + `<d:multistatus xmlns:d="DAV:" xmlns:oc="` + owncloud + `" xmlns:nc="` + nextcloud + `">`)
	return s
}

// Write is the other end of the buffer.
func (s *stream) Write(p []byte) (int, error) {
	if !s.sent {
		s.sent = true
		s.c.w.Header().Set("Content-Type", "application/xml; charset=utf-8")
		s.c.w.Header().Set("Cache-Control", "no-store")
		s.c.w.WriteHeader(http.StatusMultiStatus)
	}
	return s.c.w.Write(p)
}

// add writes what is XML already. That the client has gone is seen by nobody.
func (s *stream) add(parts ...string) {
	for _, p := range parts {
		_, _ = s.out.WriteString(p)
	}
}

func (s *stream) end() {
	s.add("</d:multistatus>\n")
	_ = s.out.Flush() // it fails only when the client is gone
}

// broken is how it ends when it cannot be read to its end: as an error while nothing was sent, else
// the connection is broken off.
func (s *stream) broken(err error) error {
	if !s.sent {
		return err
	}
	problem.Note(s.c.w, fmt.Errorf("a listing broke off: %w", err))
	panic(http.ErrAbortHandler)
}

// response is one response of a multistatus, with its properties.
func response(href, props string) string {
	return "<d:response><d:href>" + escape(href) + "</d:href><d:propstat><d:prop>" + props +
		"</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
}
