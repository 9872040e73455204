package rest

import (
	"context"
	"net/http"
	"strconv"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/thumb"
)

// thumbnailParams are the query parameters of both thumbnail routes.
var thumbnailParams = []param{
	{name: "size", syntax: choice, choices: thumbnailSizes(), doc: "pixels of the longer side, at most"},
	{name: "rev", doc: "the node's `rev`, or anything else that changes with it: an answer to an address with it may be kept for a year"},
}

// thumbnailSizes returns the accepted sizes in pixels, in decimal; the first is the default.
func thumbnailSizes() (names []string) {
	for _, size := range thumb.Sizes() {
		names = append(names, strconv.Itoa(size))
	}
	return names
}

// thumbnailOutcomes returns the declared responses of both thumbnail routes.
func thumbnailOutcomes() []outcome {
	return []outcome{
		{status: 200, bytes: true, description: "the picture: JPEG, or PNG where something can be seen through"},
		emptyOutcome(304, "it is still what If-None-Match names"),
	}
}

// thumbnails serves small pictures of images.
type thumbnails struct {
	files  *files.Files
	thumbs *thumb.Maker
}

// routes returns the declarations of the routes that thumbnails serves. It registers nothing.
func (t thumbnails) routes() []route {
	return []route{{
		id: "getThumbnail", method: "GET", path: nodesPath + "/{id}/thumbnail", access: read, action: byNode(t.files, t.get), query: thumbnailParams,
		header:   []string{"If-None-Match"},
		summary:  "Show a small picture of an image: JPEG, PNG, GIF, WebP or BMP of at most 128 MiB, upright as its EXIF says; and of the kinds of files that /me lists as `pictures`.",
		outcomes: thumbnailOutcomes(), errors: []drive.Kind{drive.NotFound, drive.NoThumbnail},
	}}
}

// sharedThumbnails serves thumbnails to visitors of a share.
type sharedThumbnails struct {
	visits   publicShares
	pictures thumbnails
	db       *sqldb.DB
}

// routes returns the declarations of the routes that sharedThumbnails serves. It registers nothing.
func (s sharedThumbnails) routes() []route {
	return []route{{
		id: "getPublicThumbnail", method: "GET", path: sharedPath + "/thumbnail", access: open, action: withoutBody(s.get),
		query:    append([]param{ticketParam}, thumbnailParams...),
		header:   []string{"Authorization", "If-None-Match"},
		summary:  "Show a thumbnail of an image in a share. It does not count as a download.",
		outcomes: thumbnailOutcomes(), errors: []drive.Kind{drive.NotFound, drive.Gone, drive.Unauthenticated, drive.NoThumbnail},
	}}
}

// get serves GET /nodes/{id}/thumbnail. Beyond the errors common to all routes it fails with
// drive.NotFound or drive.NoThumbnail.
func (t thumbnails) get(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	n, err := t.files.Get(ctx, c.who, id)
	if err != nil {
		return reply{}, err
	}
	return t.send(ctx, c, c.who, n)
}

// get serves GET /public/shares/{token}/nodes/{id}/thumbnail. Beyond the errors common to all
// routes it fails with drive.NotFound, drive.Gone, drive.Unauthenticated or drive.NoThumbnail.
func (s sharedThumbnails) get(ctx context.Context, c *call) (reply, error) {
	v, n, _, err := s.visits.findNode(ctx, c)
	if err != nil {
		return reply{}, err
	}
	view, err := s.visits.files.View(ctx, s.db, n)
	if err != nil {
		return reply{}, err
	}
	return s.pictures.send(ctx, c, v.Who(), view)
}

// send sends the thumbnail of n, which who must be allowed to read. It fails with drive.NoThumbnail
// for a file that cannot be drawn, without opening the file.
func (t thumbnails) send(ctx context.Context, c *call, who drive.Who, n files.NodeView) (reply, error) {
	sum := n.Digests[string(digest.Blake3)]
	if n.Type != tree.TypeFile || sum == "" || !t.thumbs.Draws(n.Mime) {
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
	pixels, err := strconv.Atoi(size) // validated by parseQuery
	if err != nil {
		return reply{}, err
	}
	h := c.w.Header()
	if match.matchWeakly(tag) {
		cacheThumbnail(c, h, tag)
		c.w.WriteHeader(http.StatusNotModified)
		return reply{}, nil
	}
	small, err := t.thumbs.Make(ctx, who.Account, thumb.Source{Sum: sum, Open: func(ctx context.Context) (thumb.File, error) {
		return t.files.Contents.OpenForPreview(ctx, who, n.ID, n.Version)
	}}, pixels)
	if err != nil {
		return reply{}, err
	}
	cacheThumbnail(c, h, tag)
	h.Set("Content-Type", small.Type)
	h.Set("Content-Length", strconv.Itoa(len(small.Body)))
	h.Set("Content-Disposition", "inline")
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(small.Body) // fails only if the client is disconnected
	return reply{}, nil
}

// cacheThumbnail sets ETag and Cache-Control. A URL with the rev changes when the file is replaced,
// so its response may be cached for a year.
func cacheThumbnail(c *call, h http.Header, tag string) {
	h.Set("ETag", quoted(tag))
	h.Set("Cache-Control", "private, no-cache")
	if c.query.Has("rev") {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	}
}
