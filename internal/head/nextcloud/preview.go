package nextcloud

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/thumb"
)

// preview handles small pictures of a file, named by its number or its path. It fails with
// drive.NotFound if the node is no file that thumbnails are made of.
func (c *call) preview(ctx context.Context) error {
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		return c.methodNotAllowed(http.MethodGet, http.MethodHead)
	}
	leave, err := c.authenticate(false)
	if err != nil {
		return err
	}
	defer leave()
	query := c.r.URL.Query()
	n, err := c.previewNode(ctx, query)
	if err != nil {
		return err
	}
	sum := n.Digests[string(digest.Blake3)]
	if n.Type != "file" || sum == "" || !c.Thumbs.Draws(n.Mime) {
		return drive.Fail(drive.NotFound)
	}
	want, _ := strconv.Atoi(query.Get("x")) // an invalid number gets the smallest size
	size := thumb.Sizes()[0]
	for _, s := range thumb.Sizes() {
		if size < want {
			size = s
		}
	}
	h := c.w.Header()
	tag := `"` + thumb.Format + "-" + sum + "-" + strconv.Itoa(size) + `"`
	if matchesTag(server.JoinHeader(c.r.Header, "If-None-Match"), tag) { // avoids reading and drawing the file
		h.Set("ETag", tag)
		h.Set("Cache-Control", previewLife)
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	small, err := c.Thumbs.Make(ctx, c.who.Account, thumb.Source{Sum: sum, Open: func(ctx context.Context) (thumb.File, error) {
		return c.Files.Contents.OpenForPreview(ctx, c.who, n.ID, n.Version)
	}}, size)
	if drive.IsKind(err, drive.NoThumbnail) {
		err = drive.Wrap(err, drive.NotFound)
	}
	if err != nil {
		return err
	}
	h.Set("Content-Type", small.Type)
	h.Set("Content-Length", strconv.Itoa(len(small.Body)))
	h.Set("Cache-Control", previewLife)
	h.Set("ETag", tag)
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(small.Body) // fails only if the client is disconnected
	return nil
}

// previewLife lets clients cache a picture for an hour.
const previewLife = "private, max-age=3600"

// matchesTag reports whether the If-None-Match value lists the tag, weak or strong (RFC 9110
// §13.1.2). It does not handle "*".
func matchesTag(list, tag string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(s string) bool {
		return strings.TrimPrefix(strings.TrimSpace(s), "W/") == tag
	})
}

// previewNode returns the node that the query names by fileId or by path. It fails with
// drive.NotFound.
func (c *call) previewNode(ctx context.Context, query url.Values) (files.NodeView, error) {
	if text := query.Get("fileId"); text != "" {
		return c.nodeByNumber(ctx, text)
	}
	prefix := "/remote.php/webdav/"
	u := &url.URL{Path: prefix + strings.TrimLeft(query.Get("file"), "/")}
	at, err := c.DAV.Address(ctx, c.r, c.view(ctx, prefix), u)
	if err != nil {
		return files.NodeView{}, drive.Wrap(err, drive.NotFound)
	}
	return c.Files.GetByPath(ctx, c.who, at)
}
