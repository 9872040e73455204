package rest

import (
	"context"
	"net/http"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/files"
)

// versionRoutes returns the declarations of the version routes. It registers nothing.
func (n nodes) versionRoutes() []route {
	all := nodesPath + "/{id}/versions"
	return []route{
		{
			id: "listVersions", method: "GET", path: all, access: read, action: byNode(n.files, n.versions), query: []param{limitParam, cursor},
			summary:  "List the versions of a file, the newest first.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Version]](200, "a page")}, errors: []drive.Kind{drive.NotFound, drive.CursorInvalid},
		}, {
			id: "restoreVersion", method: "POST", path: all + "/{v}/restore", access: write, action: byNode(n.files, n.restoreVersion), idempotent: true,
			summary:  "Make an older version the current one, as a new version. It is charged like any other.",
			outcomes: []outcome{jsonOutcome[api.Node](200, "the node")}, errors: []drive.Kind{drive.NotFound, drive.WrongState, drive.Quota, drive.Locked, drive.TooLarge},
		},
	}
}

// versions serves GET /nodes/{id}/versions. It replies 200 with api.Page[api.Version].
// Beyond the errors common to all routes it fails with drive.NotFound or drive.CursorInvalid.
func (n nodes) versions(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	return showPage(showVersion)(n.files.Versions(ctx, c.who, id, c.query.Get(cursor.name), c.limit()))
}

// showVersion returns the wire form of a version.
func showVersion(v files.VersionView) api.Version {
	return api.Version{
		ID: v.ID.String(), Size: v.Size, MIME: v.Mime, Mtime: showTime(v.MTime), CreatedAt: showTime(v.CreatedAt), CreatedBy: v.CreatedBy.String(),
		Digests: v.Digests, Current: v.Current,
	}
}

// restoreVersion serves POST /nodes/{id}/versions/{v}/restore. It replies 200 with api.Node.
// Beyond the errors common to all routes it fails with drive.NotFound, drive.WrongState,
// drive.Quota, drive.Locked or drive.TooLarge.
func (n nodes) restoreVersion(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	version, err := drive.ParseID[drive.VersionID](c.r.PathValue("v"))
	if err != nil {
		return reply{}, err
	}
	return c.once(ctx, func() (reply, error) {
		r, err := n.files.RestoreVersion(ctx, c.who, id, version, c.hook(http.StatusOK))
		return resultReply(http.StatusOK, r), err
	})
}
