package nextcloud

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/usecase/files"
)

// trashbin serves the trash of the caller's own drive:
//
//	PROPFIND trashbin/USER/trash           deleted nodes, the newest first
//	MOVE     trashbin/USER/trash/NAME      with a Destination in trashbin/USER/restore: restores it
//	DELETE   trashbin/USER/trash/NAME      permanently; without a name: everything
//
// NAME is the node's name, ".d" and its id, so that equal names stay distinct.
func (c *call) trashbin(ctx context.Context, below []string) error {
	if len(below) == 0 || len(below) > 2 || below[0] != "trash" {
		if len(below) == 1 && below[0] == "restore" && c.r.Method == "PROPFIND" {
			return c.multistatus(response(c.r.URL.EscapedPath(), "<d:resourcetype><d:collection/></d:resourcetype>"))
		}
		return drive.Fail(drive.NotFound)
	}
	if len(below) == 1 {
		switch c.r.Method {
		case "PROPFIND":
			return c.listTrash(ctx)
		case http.MethodDelete:
			if _, err := c.Files.EmptyTrash(ctx, c.who, ""); err != nil {
				return err
			}
			c.w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return c.methodNotAllowed("PROPFIND", "DELETE")
	}
	id, err := trashedID(below[1])
	if err != nil {
		return err
	}
	switch c.r.Method {
	case "MOVE":
		return c.restore(ctx, id)
	case http.MethodDelete:
		n, err := c.Files.Get(ctx, c.who, id)
		if err == nil && n.TrashedAt == nil { // only nodes in the trash are deleted permanently here
			err = drive.Fail(drive.NotFound)
		}
		if err == nil {
			_, err = c.Files.DeletePermanently(ctx, c.who, id, tree.Expect{Trashed: *n.TrashedAt}) // fails if another request has restored it
		}
		if err != nil {
			return err
		}
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return c.methodNotAllowed("MOVE", "DELETE")
}

// trashedID parses the id in a name of the trash. It fails with drive.NotFound.
func trashedID(name string) (drive.NodeID, error) {
	i := strings.LastIndex(name, ".d")
	if i < 0 {
		return drive.NodeID{}, drive.Fail(drive.NotFound)
	}
	id, err := drive.ParseID[drive.NodeID](name[i+2:])
	if err != nil {
		err = drive.Wrap(err, drive.NotFound)
	}
	return id, err
}

// restore moves a node from the trash to its original folder, or to the root if that folder does
// not exist. Destination must be in the caller's collection "restore"; its last segment is ignored.
// It replies 201, and fails with drive.NotFound for a node that is not in the trash.
func (c *call) restore(ctx context.Context, id drive.NodeID) error {
	if err := checkRestoreDestination(c.DAV, c.r, "trashbin", c.at(3)); err != nil {
		return err
	}
	if _, err := c.Files.Restore(ctx, c.who, id, drive.NodeID{}, ""); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusCreated)
	return nil
}

// checkRestoreDestination checks the Destination header of a request that restores a file. It fails
// with drive.Forbidden unless the path contains /remote.php/dav/AREA/USER/restore/, where AREA is
// "trashbin" or "versions", and with status 502 for the host of another server (RFC 4918 §9.8.5).
func checkRestoreDestination(h *dav.Head, r *http.Request, area, user string) error {
	u, err := url.Parse(r.Header.Get("Destination"))
	if err != nil || !strings.Contains(u.Path, "/remote.php/dav/"+area+"/"+user+"/restore/") {
		return drive.Fail(drive.Forbidden)
	}
	return h.CheckHost(r, u)
}

// listTrash streams the trash page by page. If a page cannot be read, it aborts the connection (D1
// of package dav), since clients would take missing entries for deleted.
func (c *call) listTrash(ctx context.Context) error {
	href := strings.TrimSuffix(c.r.URL.EscapedPath(), "/") + "/"
	out := c.newStream()
	out.add(response(href, "<d:resourcetype><d:collection/></d:resourcetype>"))
	for l := (tree.List{Limit: tree.MaxLimit}); c.r.Header.Get("Depth") != "0"; {
		next, err := c.trashPage(ctx, out, href, l)
		if err != nil {
			return out.abort(err)
		}
		if next == nil {
			break
		}
		l.Cursor = *next
	}
	out.end()
	return nil
}

// trashPage writes one page of the trash to out and returns the cursor of the next page; nil after
// the last. It fails with the error of a query before it writes anything of the page.
func (c *call) trashPage(ctx context.Context, out *stream, href string, l tree.List) (*string, error) {
	page, err := c.Files.ListTrash(ctx, c.who, "", l)
	if err != nil {
		return nil, err
	}
	ids := make([]drive.NodeID, len(page.Items))
	for i, n := range page.Items {
		ids[i] = n.ID
	}
	numbers, err := c.tags.Numbers(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, n := range page.Items {
		out.add(response(href+url.PathEscape(n.Name+".d"+n.ID.String()), c.trashed(n, firstNumber+numbers[n.ID])))
	}
	return page.NextCursor, nil
}

// trashed returns the properties of a node in the trash as XML.
func (c *call) trashed(n files.NodeView, number int64) string {
	kind := ""
	if n.Type == tree.TypeFolder {
		kind = "<d:collection/>"
	}
	deleted := int64(0)
	if n.TrashedAt != nil {
		deleted = n.TrashedAt.Std().Unix()
	}
	return fmt.Sprintf("<d:resourcetype>%s</d:resourcetype><d:getcontentlength>%d</d:getcontentlength><d:getcontenttype>%s</d:getcontenttype>"+
		"<d:getlastmodified>%s</d:getlastmodified><d:getetag>&quot;%s-%d&quot;</d:getetag><oc:size>%d</oc:size><oc:id>%s</oc:id><oc:fileid>%d</oc:fileid>"+
		"<oc:permissions>GD</oc:permissions><nc:has-preview>false</nc:has-preview><nc:trashbin-filename>%s</nc:trashbin-filename>"+
		"<nc:trashbin-original-location>%s</nc:trashbin-original-location><nc:trashbin-deletion-time>%d</nc:trashbin-deletion-time>",
		kind, n.Size, escape(n.Mime), n.MTime.Std().UTC().Format(http.TimeFormat), n.ID, n.Rev, n.Size, escape(idText(number, c.Instance)), number,
		escape(n.Name), escape(strings.TrimPrefix(n.Path, "/")), deleted)
}
