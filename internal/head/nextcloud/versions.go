package nextcloud

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
)

// versions serves the versions of a file, which is named by its number (oc:fileid):
//
//	PROPFIND versions/USER/versions/NUMBER      the older versions, the newest first
//	GET      versions/USER/versions/NUMBER/ID   the content of one
//	MOVE     versions/USER/versions/NUMBER/ID   with a Destination in versions/USER/restore: restores it
//	                                            as a new version; COPY does the same
func (c *call) versions(ctx context.Context, below []string) error {
	if len(below) < 2 || len(below) > 3 || below[0] != "versions" {
		if len(below) == 1 && (below[0] == "versions" || below[0] == "restore") && c.r.Method == "PROPFIND" {
			return c.multistatus(response(c.r.URL.EscapedPath(), "<d:resourcetype><d:collection/></d:resourcetype>"))
		}
		return drive.Fail(drive.NotFound)
	}
	n, err := c.nodeByNumber(ctx, below[1])
	if err == nil && n.Type != tree.TypeFile {
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return err
	}
	if len(below) == 2 {
		if c.r.Method != "PROPFIND" {
			return c.methodNotAllowed("PROPFIND")
		}
		return c.listVersions(ctx, n)
	}
	id, err := drive.ParseID[drive.VersionID](below[2])
	if err != nil {
		return drive.Wrap(err, drive.NotFound)
	}
	switch c.r.Method {
	case http.MethodGet, http.MethodHead:
		return c.getVersion(ctx, n, id)
	case "MOVE", "COPY":
		return c.restoreVersion(ctx, n, id)
	}
	return c.methodNotAllowed(http.MethodGet, http.MethodHead, "MOVE", "COPY")
}

// nodeByNumber returns the node with the number that clients see, in decimal. It fails with
// drive.NotFound if the text is no number or the caller does not see the node.
func (c *call) nodeByNumber(ctx context.Context, text string) (files.NodeView, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return files.NodeView{}, drive.Wrap(err, drive.NotFound)
	}
	return c.tags.ByNumber(ctx, c.who, number-firstNumber)
}

// listVersions sends the older versions of a file as a 207 response; with Depth 0 only the
// collection itself. If a page cannot be read after the first bytes are sent, it aborts the
// connection.
func (c *call) listVersions(ctx context.Context, n files.NodeView) error {
	href := strings.TrimSuffix(c.r.URL.EscapedPath(), "/") + "/"
	out := c.newStream()
	out.add(response(href, "<d:resourcetype><d:collection/></d:resourcetype>"))
	for cursor := ""; c.r.Header.Get("Depth") != "0"; {
		page, err := c.Files.Versions(ctx, c.who, n.ID, cursor, tree.MaxLimit)
		if err != nil {
			return out.abort(err)
		}
		for _, v := range page.Items {
			if !v.Current {
				out.add(response(href+v.ID.String(), fmt.Sprintf("<d:resourcetype/><d:getcontentlength>%d</d:getcontentlength><d:getcontenttype>%s</d:getcontenttype>"+
					"<d:getlastmodified>%s</d:getlastmodified><d:getetag>%s</d:getetag><oc:size>%d</oc:size>", v.Size, escape(v.Mime),
					v.CreatedAt.Std().UTC().Format(http.TimeFormat), escape(versionTag(v.Digests[string(digest.Blake3)])), v.Size)))
			}
		}
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	out.end()
	return nil
}

// versionTag returns the ETag of content whose BLAKE3 digest in hexadecimal is blake3.
func versionTag(blake3 string) string {
	return dav.Entry{NodeView: files.NodeView{Digests: map[string]string{string(digest.Blake3): blake3}}}.Tag()
}

// getVersion sends the content of an old version, with ranges and conditions. It fails with
// drive.NotFound before anything is sent.
func (c *call) getVersion(ctx context.Context, n files.NodeView, id drive.VersionID) error {
	d, err := c.Files.Contents.Open(ctx, c.who, n.ID, id)
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("ETag", versionTag(d.Sum.String()))
	h.Set("Content-Type", d.Version.Mime)
	h.Set("Content-Disposition", "attachment") // stored content must not act as a page of this server
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-cache")
	server.SendContent(c.w, c.r, d.Version.MTime.Std(), d, d.Size(), c.refuse)
	return d.Close()
}

// restoreVersion adds the content of an older version as the new current version. Destination must
// be in the caller's collection "restore"; its last segment is ignored. It replies 201, and fails
// with drive.NotFound, drive.Quota or drive.Locked.
func (c *call) restoreVersion(ctx context.Context, n files.NodeView, id drive.VersionID) error {
	if err := checkRestoreDestination(c.DAV, c.r, "versions", c.at(3)); err != nil {
		return err
	}
	if _, err := c.Files.RestoreVersion(ctx, c.who, n.ID, id, nil); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusCreated)
	return nil
}
