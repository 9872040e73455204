package rest

import (
	"net/http"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/usecase/files"
)

func (a *API) versionRoutes() []route {
	all := nodesPath + "/{id}/versions"
	return []route{
		{
			method: "GET", path: all, need: read, act: plain((*call).listVersions), query: []param{limitParam, cursor},
			does: "List the versions of a file, the newest first.",
			out:  []outcome{gives[files.Page[files.VersionView]](200, "a page")}, fails: []drive.Kind{drive.NotFound, drive.CursorInvalid},
		}, {
			method: "POST", path: all + "/{v}/restore", need: write, act: plain((*call).restoreVersion), once: true,
			does: "Make an older version the current one, as a new version. It is charged like any other.",
			out:  []outcome{gives[files.NodeView](200, "the node")}, fails: []drive.Kind{drive.NotFound, drive.WrongState, drive.Quota},
		},
	}
}

func (c *call) listVersions() (reply, error) {
	id, err := c.node()
	if err != nil {
		return reply{}, err
	}
	return answer(c.Files.Versions(c.ctx(), c.who, id, c.query.Get(cursor.name), c.limit()))
}

func (c *call) restoreVersion() (reply, error) {
	id, err := c.node()
	if err != nil {
		return reply{}, err
	}
	version, err := drive.ParseID[drive.VersionID](c.r.PathValue("v"))
	if err != nil {
		return reply{}, err
	}
	return c.once(func() (reply, error) {
		r, err := c.Files.RestoreVersion(c.ctx(), c.who, id, version, c.hook(http.StatusOK))
		return settled(http.StatusOK, r), err
	})
}
