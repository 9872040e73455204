package dav

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
)

// get handles GET and HEAD. For a folder it sends a line of text to browsers. It fails with
// drive.NotFound; failures of ranges and conditions are sent by SendContent.
func (c *call) get(ctx context.Context) error {
	e, err := c.find(ctx, c.at)
	if err != nil {
		return err
	}
	if e.IsFolder() {
		return c.getFolder(ctx, e)
	}
	d, err := c.opt.Files.Contents.Open(ctx, c.who, e.Node, drive.VersionID{})
	if err != nil {
		return err
	}
	e.NodeView = d.Node
	h := c.w.Header()
	h.Set("ETag", e.Tag())
	h.Set("Content-Type", d.Version.Mime)
	h.Set("Content-Disposition", "attachment") // stored content must not act as a page of this server
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-cache")
	c.describe(ctx, e)
	server.SendContent(c.w, c.r, d.Version.MTime.Std(), d, d.Size(), c.refuse)
	return d.Close()
}

// getFolder sends a line of text for browsers. It answers 406 if the client does not accept text.
func (c *call) getFolder(ctx context.Context, e Entry) error {
	if !takesText(c.r) { // libraries for Nextcloud would store the line as the requested archive
		return condition{drive.BadField("Accept", drive.NotAllowed, "allowed", []string{"text/plain"}), http.StatusNotAcceptable, "", ""}
	}
	const text = "This is a folder. Open this address with a WebDAV client.\n这是一个文件夹。请用 WebDAV 客户端打开此地址。\n"
	h := c.w.Header()
	setClasses(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	c.describe(ctx, e)
	c.w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(c.w, text) // fails only if the client is disconnected
	return nil
}

// takesText reports whether the Accept header admits text; an absent header does. A query parameter
// "accept", which Nextcloud clients send for a zip, makes it false.
func takesText(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	if r.URL.Query().Get("accept") != "" { // as in URLs of Nextcloud: zip
		return false
	}
	return accept == "" || strings.Contains(accept, "text/") || strings.Contains(accept, "*/*")
}

// describe adds the view's headers about an entry to the response.
func (c *call) describe(ctx context.Context, e Entry) {
	if c.view.Describe != nil {
		c.view.Describe(ctx, c.w.Header(), c.who, e)
	}
}
