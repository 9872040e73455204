package nextcloud

import (
	"context"
	"encoding/xml"
	"net/http"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/dav"
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
	case "trashbin":
		return c.own(func() error { return c.trashbin(ctx, c.path[4:]) })
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
	case "REPORT": // favourites, tags: nobody has any
		return c.multistatus("")
	case "SEARCH":
		return c.methodNotAllowed("OPTIONS", "PROPFIND", "GET", "PUT")
	}
	c.DAV.Serve(c.w, c.r, c.view(ctx, prefix))
	return nil
}

// view is the tree of the caller below a prefix.
func (c *call) view(_ context.Context, prefix string) dav.View {
	d := describer{c}
	return dav.View{Prefix: prefix, Layout: dav.Home, Who: c.who, Properties: d.properties, Describe: d.header}
}

// multistatus sends responses that are XML already.
func (c *call) multistatus(responses ...string) error {
	c.w.Header().Set("Content-Type", "application/xml; charset=utf-8")
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusMultiStatus)
	_, _ = c.w.Write([]byte(xml.Header + `<d:multistatus xmlns:d="DAV:" xmlns:oc="` + owncloud + `" xmlns:nc="` + nextcloud + `">` +
		strings.Join(responses, "") + "</d:multistatus>\n")) // it fails only when the client is gone
	return nil
}

// response is one response of a multistatus, with its properties.
func response(href, props string) string {
	return "<d:response><d:href>" + escape(href) + "</d:href><d:propstat><d:prop>" + props +
		"</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
}
