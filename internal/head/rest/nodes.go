package rest

import (
	"context"
	"net/http"
	"strconv"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/usecase/files"
)

// nodesPath is a route path below prefix: /nodes.
const nodesPath = "/nodes"

// nodes serves the routes for files and folders.
type nodes struct {
	files *files.Files
}

// routes returns the declarations of the routes that nodes serves. It registers nothing.
func (n nodes) routes() []route {
	one := nodesPath + "/{id}"
	ifMatch := []string{"If-Match"}
	return []route{
		{
			id: "getNodeByPath", method: "GET", path: nodesPath, access: read, action: withoutBody(n.getByPath),
			query:    []param{{name: "path", required: true, doc: "an absolute path, or one in a space or a shared folder: `//NAME/path` or `//ID/path`"}},
			summary:  "Show what is at a path.",
			outcomes: []outcome{jsonOutcome[api.Node](200, "the node")}, errors: []drive.Kind{drive.BadName, drive.NotFound},
		}, {
			id: "createFolder", method: "POST", path: nodesPath, access: write, action: withJSON(n.makeFolder), idempotent: true, createdPath: nodesPath,
			summary:  "Make a folder.",
			outcomes: []outcome{jsonOutcome[api.Node](201, "the folder")}, errors: []drive.Kind{drive.BadName, drive.NotFound, drive.NameTaken, drive.ParentGone, drive.TooLarge},
		}, {
			id: "getNode", method: "GET", path: one, access: read, action: byNode(n.files, n.get),
			summary:  "Show a node, live or in the trash. `root` works as an id.",
			outcomes: []outcome{jsonOutcome[api.Node](200, "the node; the ETag is its `rev`, for If-Match")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "updateNode", method: "PATCH", path: one, access: write, action: byNodeWithJSON(n.files, n.patch), header: ifMatch,
			summary:  "Rename or move a node, or set its modification time.",
			outcomes: []outcome{jsonOutcome[api.Node](200, "the node")},
			errors:   []drive.Kind{drive.BadName, drive.NotFound, drive.NameTaken, drive.ParentGone, drive.WrongState, drive.VersionChanged, drive.Locked, drive.Precondition, drive.Cycle, drive.TooLarge},
		}, {
			id: "deleteNode", method: "DELETE", path: one, access: write, action: byNode(n.files, n.remove), header: ifMatch,
			query: []param{
				{name: "permanent", syntax: boolean, doc: "delete it for good, with all that is below it"},
				{name: trashedAt, doc: "RFC 3339, with permanent: only if it, or the nearest folder above it that is in the trash, was put there at this time; otherwise 412 precondition"},
			},
			summary: "Move a node to the trash, or delete it permanently. Repeating it is not an error.",
			outcomes: []outcome{
				emptyOutcome(204, "done"), jsonOutcome[api.SubtreeOperation](202, "what touches over 1,000 nodes goes on: see Location"),
			},
			errors: []drive.Kind{drive.NotFound, drive.VersionChanged, drive.Locked, drive.Precondition, drive.WrongState},
		}, {
			id: "listChildren", method: "GET", path: one + "/children", access: read, action: byNode(n.files, n.children),
			query: []param{
				limitParam, cursor,
				{name: "sort", syntax: choice, choices: []string{"name", "size", "mtime", "type"}, doc: "what to sort by; names are compared byte by byte"},
				{name: "order", syntax: choice, choices: []string{"asc", "desc"}, doc: "in which direction"},
				{name: "folders_first", syntax: boolean, doc: "all folders before the first file, in either direction"},
			},
			summary:  "List what is in a folder.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Node]](200, "a page")}, errors: []drive.Kind{drive.NotFound, drive.CursorInvalid},
		}, {
			id: "getFolderTotals", method: "GET", path: one + "/totals", access: read, action: byNode(n.files, n.total),
			summary:  "Add up what lies below a folder, the trash apart.",
			outcomes: []outcome{jsonOutcome[api.FolderTotals](200, "the sums")}, errors: []drive.Kind{drive.NotFound, drive.Forbidden},
		}, {
			id: "copyNode", method: "POST", path: one + "/copy", access: write, action: byNodeWithJSON(n.files, n.copy), idempotent: true, createdPath: nodesPath,
			summary: "Copy a file, or a folder with all that is in it. No byte is copied, all are charged.",
			outcomes: []outcome{
				jsonOutcome[api.Node](201, "the copy"), jsonOutcome[api.SubtreeOperation](202, "what touches over 1,000 nodes goes on: see Location"),
			},
			errors: []drive.Kind{drive.BadName, drive.NotFound, drive.NameTaken, drive.ParentGone, drive.WrongState, drive.Locked, drive.Cycle, drive.TooLarge, drive.Quota},
		}, {
			id: "restoreNode", method: "POST", path: one + "/restore", access: write, action: byNodeWithJSON(n.files, n.restore), bodyOptional: true,
			summary:  "Bring a node back from the trash: to `parent`, else to where it was, else to the root.",
			outcomes: []outcome{jsonOutcome[api.Node](200, "the node")},
			errors:   []drive.Kind{drive.NotFound, drive.NameTaken, drive.ParentGone, drive.WrongState, drive.Locked, drive.Cycle, drive.TooLarge},
		},
	}
}

// getByPath serves GET /nodes. It replies 200 with api.Node. Beyond the errors common to all
// routes it fails with drive.BadName or drive.NotFound.
func (n nodes) getByPath(ctx context.Context, c *call) (reply, error) {
	at, err := drive.ParseAddress(c.query.Get("path"))
	if err != nil {
		return reply{}, err
	}
	return nodeReply(n.files.GetByPath(ctx, c.who, at))
}

// get serves GET /nodes/{id}. It replies 200 with api.Node. Beyond the errors common to all
// routes it fails with drive.NotFound.
func (n nodes) get(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	view, err := n.files.Get(ctx, c.who, id)
	if err == nil {
		c.w.Header().Set("ETag", quoted(strconv.FormatInt(view.Rev, 10)))
	}
	return nodeReply(view, err)
}

// folderBody is the JSON request body of POST /nodes.
type folderBody struct {
	Path     pathField     `json:"path,omitempty" doc:"path of the new folder; or parent and name"`
	Parent   string        `json:"parent,omitempty" doc:"id of a folder, or root"`
	Name     nameField     `json:"name,omitempty"`
	Type     string        `json:"type" enum:"folder"`
	Parents  bool          `json:"parents,omitempty" doc:"create missing folders of path"`
	Conflict conflictField `json:"conflict,omitempty" enum:"fail,rename" default:"fail"`
}

// makeFolder serves POST /nodes. It replies 201 with api.Node. Beyond the errors common to
// all routes it fails with drive.BadName, drive.NotFound, drive.NameTaken, drive.ParentGone or
// drive.TooLarge.
func (n nodes) makeFolder(ctx context.Context, c *call, in *folderBody) (reply, error) {
	if in.Type != string(tree.TypeFolder) {
		return reply{}, drive.BadField("type", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFolder}, "sent", clip(in.Type))
	}
	if conflict := drive.Conflict(in.Conflict); conflict == drive.ConflictReplace {
		return reply{}, drive.BadField("conflict", drive.NotAllowed, "allowed", []drive.Conflict{drive.ConflictFail, drive.ConflictRename}, "sent", conflict)
	}
	at, err := destination{in.Path, in.Parent, in.Name}.parse(ctx, c, n.files)
	if err != nil {
		return reply{}, err
	}
	m := files.Mkdir{Parent: at.parent, Name: at.name, Parents: in.Parents, Conflict: drive.Conflict(in.Conflict), Hook: c.hook(http.StatusCreated)}
	if at.path != nil {
		m.Path, m.Name, _ = at.path.Split()
		m.Place = at.space
	}
	return c.once(ctx, func() (reply, error) {
		r, err := n.files.Mkdir(ctx, c.who, m)
		return resultReply(http.StatusCreated, r), err
	})
}

// resultReply replies with the node, or with 202 and the operation that continues in the
// background.
func resultReply(status int, r files.Result) reply {
	if r.Operation != nil {
		return reply{status: http.StatusAccepted, body: showOperation(*r.Operation)}
	}
	return reply{status: status, body: nodeOrNil(r.Node)}
}

// operationReply replies 204, or 202 with an operation that continues in the background.
func operationReply(o *files.Operation, err error) (reply, error) {
	if o != nil {
		return reply{status: http.StatusAccepted, body: showOperation(*o)}, err
	}
	return empty(err)
}

// patchBody is the JSON request body of PATCH /nodes/{id}.
type patchBody struct {
	Name     nameField     `json:"name,omitempty"`
	Parent   *string       `json:"parent,omitempty" doc:"id of another folder, or root"`
	MTime    *drive.Time   `json:"mtime,omitempty"`
	Conflict conflictField `json:"conflict,omitempty" enum:"fail,rename,replace" default:"fail" doc:"replace: the node with this name is moved to the trash"`
}

// patch serves PATCH /nodes/{id}. It replies 200 with api.Node. Beyond the errors common to
// all routes it fails with drive.BadName, drive.NotFound, drive.NameTaken, drive.ParentGone,
// drive.WrongState, drive.VersionChanged, drive.Locked, drive.Precondition, drive.Cycle or
// drive.TooLarge. If-Match makes it fail with drive.Precondition if the node has changed.
func (n nodes) patch(ctx context.Context, c *call, id drive.NodeID, in *patchBody) (reply, error) {
	rev, err := revision(c)
	if err != nil {
		return reply{}, err
	}
	parent, err := folderID(ctx, c, n.files, in.Parent)
	if err != nil {
		return reply{}, err
	}
	return nodeReply(n.files.Patch(ctx, c.who, id, files.Patch{
		Name: drive.Name(in.Name), Parent: parent, MTime: timeOf(in.MTime), Conflict: drive.Conflict(in.Conflict), Expect: tree.Expect{Rev: rev},
	}))
}

// revision returns the revision that If-Match names, or 0 for "*" or no header. Other tags than one
// strong revision number fail with drive.BadRequest.
func revision(c *call) (int64, error) {
	match, err := c.tags("If-Match")
	if err != nil || match.any || match.absent() {
		return 0, err
	}
	rev, err := strconv.ParseInt(match.list[0].opaque, 10, 64)
	if err != nil || rev < 1 || len(match.list) > 1 || match.list[0].weak {
		return 0, drive.Wrap(err, drive.BadRequest, "field", "If-Match", "reason", string(drive.Malformed), "expected", `"<rev>" or *`)
	}
	return rev, nil
}

// trashedAt is the name of a query parameter of DELETE /nodes/{id}.
const trashedAt = "trashed_at"

// remove serves DELETE /nodes/{id}. It replies 204 without a body or 202 with api.SubtreeOperation.
// Beyond the errors common to all routes it fails with drive.NotFound, drive.VersionChanged,
// drive.Locked, drive.Precondition or drive.WrongState. It moves the node to the trash, or with
// "permanent" deletes it for good, which may continue in the background.
func (n nodes) remove(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	rev, err := revision(c)
	if err != nil {
		return reply{}, err
	}
	trashed, err := c.time(trashedAt)
	switch {
	case err != nil:
		return reply{}, err
	case c.flag("permanent"):
		return operationReply(n.files.DeletePermanently(ctx, c.who, id, tree.Expect{Rev: rev, Trashed: trashed}))
	case trashed != 0:
		return reply{}, drive.BadField("permanent", drive.Required)
	}
	_, err = n.files.Trash(ctx, c.who, id, tree.Expect{Rev: rev})
	return empty(err)
}

// children serves GET /nodes/{id}/children. It replies 200 with api.Page[api.Node]. Beyond
// the errors common to all routes it fails with drive.NotFound or drive.CursorInvalid.
func (n nodes) children(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	return showPage(showNode)(n.files.Children(ctx, c.who, id, tree.List{
		Sort: tree.Sort(c.query.Get("sort")), Desc: c.query.Get("order") == "desc", FoldersFirst: c.flag("folders_first"),
		Limit: c.limit(), Cursor: c.query.Get(cursor.name),
	}))
}

// total serves GET /nodes/{id}/totals. It replies 200 with api.FolderTotals. Beyond the errors
// common to all routes it fails with drive.NotFound or drive.Forbidden.
func (n nodes) total(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	sum, err := n.files.FolderSum(ctx, c.who, id)
	return answer(api.FolderTotals{Files: sum.Files, Folders: sum.Folders, Size: int64(sum.Size)}, err)
}

// copyBody is the JSON request body of POST /nodes/{id}/copy.
type copyBody struct {
	Parent   string        `json:"parent" doc:"id of the target folder, or root"`
	Name     nameField     `json:"name,omitempty" doc:"absent: unchanged"`
	Conflict conflictField `json:"conflict,omitempty" enum:"fail,rename,replace" default:"fail"`
}

// copy serves POST /nodes/{id}/copy. It replies 201 with api.Node or 202 with
// api.SubtreeOperation. Beyond the errors common to all routes it fails with drive.BadName,
// drive.NotFound, drive.NameTaken, drive.ParentGone, drive.WrongState, drive.Locked, drive.Cycle,
// drive.TooLarge or drive.Quota. A large copy continues in the background.
func (n nodes) copy(ctx context.Context, c *call, id drive.NodeID, in *copyBody) (reply, error) {
	parent, err := folderID(ctx, c, n.files, &in.Parent)
	if err != nil {
		return reply{}, err
	}
	return c.once(ctx, func() (reply, error) {
		r, err := n.files.Copies.Copy(ctx, c.who, id, files.Copy{
			Parent: parent, Name: drive.Name(in.Name), Conflict: drive.Conflict(in.Conflict), Hook: c.hook(http.StatusCreated),
		})
		return resultReply(http.StatusCreated, r), err
	})
}

// restoreBody is the JSON request body of POST /nodes/{id}/restore.
type restoreBody struct {
	Parent   *string       `json:"parent,omitempty" doc:"id of another folder, or root"`
	Conflict conflictField `json:"conflict,omitempty" enum:"fail,rename,replace" default:"rename"`
}

// restore serves POST /nodes/{id}/restore. It replies 200 with api.Node. Beyond the errors
// common to all routes it fails with drive.NotFound, drive.NameTaken, drive.ParentGone,
// drive.WrongState, drive.Locked, drive.Cycle or drive.TooLarge.
func (n nodes) restore(ctx context.Context, c *call, id drive.NodeID, in *restoreBody) (reply, error) {
	parent, err := folderID(ctx, c, n.files, in.Parent)
	if err != nil {
		return reply{}, err
	}
	return nodeReply(n.files.Restore(ctx, c.who, id, parent, drive.Conflict(in.Conflict)))
}
