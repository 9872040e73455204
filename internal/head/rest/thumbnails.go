package rest

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/thumb"
)

var thumbnailParams = []param{
	{name: "size", form: choice, choices: thumbnailSizes(), says: "pixels of the longer side, at most"},
	{name: "rev", says: "the node's `rev`, or anything else that changes with it: an answer to an address with it may be kept for a year"},
}

func thumbnailSizes() (names []string) {
	for _, size := range thumb.Sizes() {
		names = append(names, strconv.Itoa(size))
	}
	return names
}

func thumbnailOutcomes() []outcome {
	return []outcome{
		{status: 200, bytes: true, when: "the picture: JPEG, or PNG where something can be seen through"},
		nothing(304, "it is still what If-None-Match names"),
	}
}

func (a *API) thumbnailRoutes() []route {
	return []route{{
		method: "GET", path: nodesPath + "/{id}/thumbnail", need: read, act: plain((*call).getThumbnail), query: thumbnailParams,
		header: []string{"If-None-Match"},
		does:   "Show a small picture of an image: JPEG, PNG, GIF, WebP or BMP of at most 128 MiB, upright as its EXIF says.",
		out:    thumbnailOutcomes(), fails: []drive.Kind{drive.NotFound, drive.NoThumbnail},
	}}
}

func (a *API) publicThumbnailRoutes() []route {
	return []route{{
		method: "GET", path: publicShare + "/nodes/{id}/thumbnail", need: open, act: plain((*call).getSharedThumbnail),
		query:  append([]param{{name: "access", says: "instead of the header Authorization: Share ACCESS"}}, thumbnailParams...),
		header: []string{"Authorization", "If-None-Match"},
		does:   "Show a small picture of an image in a share. It is no download.",
		out:    thumbnailOutcomes(), fails: []drive.Kind{drive.NotFound, drive.Gone, drive.Unauthenticated, drive.NoThumbnail},
	}}
}

func (c *call) getThumbnail() (reply, error) {
	id, err := c.node()
	if err != nil {
		return reply{}, err
	}
	n, err := c.Files.Get(c.ctx(), c.who, id)
	if err != nil {
		return reply{}, err
	}
	return c.sendThumbnail(c.who, n)
}

func (c *call) getSharedThumbnail() (reply, error) {
	v, n, _, err := c.reach()
	if err != nil {
		return reply{}, err
	}
	view, err := c.Files.View(c.ctx(), c.DB, n)
	if err != nil {
		return reply{}, err
	}
	return c.sendThumbnail(v.Who(), view)
}

// sendThumbnail answers with the thumbnail of a file that who may read. Other files than images are not opened at all.
func (c *call) sendThumbnail(who drive.Who, n files.NodeView) (reply, error) {
	sum := n.Digests[string(digest.Blake3)]
	if n.Type != tree.TypeFile || sum == "" || !strings.HasPrefix(n.Mime, "image/") {
		return reply{}, drive.Fail(drive.NoThumbnail, "reason", "type")
	}
	size := c.query.Get("size")
	if size == "" {
		size = thumbnailSizes()[0]
	}
	tag := thumb.Format + "-" + sum + "-" + size
	match, err := c.tags("If-None-Match")
	if err != nil {
		return reply{}, err
	}
	pixels, err := strconv.Atoi(size) // one of the choices
	if err != nil {
		return reply{}, err
	}
	h := c.w.Header()
	if match.matchWeakly(tag) {
		c.cacheThumbnail(h, tag)
		c.w.WriteHeader(http.StatusNotModified)
		return reply{}, nil
	}
	t, err := c.Thumbs.Make(c.ctx(), who.Account, thumb.Source{Sum: sum, Open: func(ctx context.Context) (thumb.File, error) {
		return c.Files.Open(ctx, who, n.ID, n.Version)
	}}, pixels)
	if err != nil {
		return reply{}, err
	}
	c.cacheThumbnail(h, tag)
	h.Set("Content-Type", t.Type)
	h.Set("Content-Length", strconv.Itoa(len(t.Body)))
	h.Set("Content-Disposition", "inline")
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(t.Body) // fails only when the client is gone
	return reply{}, nil
}

// cacheThumbnail says how long a thumbnail is good: the address stays the same when the file is replaced, unless the rev is in it.
func (c *call) cacheThumbnail(h http.Header, tag string) {
	h.Set("ETag", quoted(tag))
	h.Set("Cache-Control", "private, no-cache")
	if c.query.Has("rev") {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	}
}
