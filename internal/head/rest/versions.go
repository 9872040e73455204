package rest

import (
	"context"
	"net/http"

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
			outcomes: []outcome{jsonOutcome[files.Page[files.VersionView]](200, "a page")}, errors: []drive.Kind{drive.NotFound, drive.CursorInvalid},
		}, {
			id: "restoreVersion", method: "POST", path: all + "/{v}/restore", access: write, action: byNode(n.files, n.restoreVersion), idempotent: true,
			summary:  "Make an older version the current one, as a new version. It is charged like any other.",
			outcomes: []outcome{jsonOutcome[files.NodeView](200, "the node")}, errors: []drive.Kind{drive.NotFound, drive.WrongState, drive.Quota, drive.Locked, drive.TooLarge},
		},
	}
}

// versions serves GET /nodes/{id}/versions. It replies 200 with files.Page[files.VersionView].
// Beyond the errors common to all routes it fails with drive.NotFound or drive.CursorInvalid.
func (n nodes) versions(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	return answer(n.files.Versions(ctx, c.who, id, c.query.Get(cursor.name), c.limit()))
}

// restoreVersion serves POST /nodes/{id}/versions/{v}/restore. It replies 200 with files.NodeView.
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
