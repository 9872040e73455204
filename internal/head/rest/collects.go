package rest

import (
	"context"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/collect"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload"
)

// collectsPath is a route path below prefix: /collects.
const collectsPath = "/collects"

// collects serves the routes for collect links, by which anybody may send files into a folder.
type collects struct {
	links   *collect.Links
	files   *files.Files
	uploads *upload.Sessions
}

// routes returns the declarations of the routes that collects serves. It registers nothing.
func (l collects) routes() []route {
	one := collectsPath + "/{id}"
	return []route{
		{
			id: "createCollectLink", method: "POST", path: collectsPath, access: write, action: withJSON(l.create), idempotent: true, secret: true, createdPath: collectsPath,
			summary:  "Make a link by which anybody may send files into a folder, charged to the account that the folder is in.",
			outcomes: []outcome{jsonOutcome[api.Collect](201, "the link")},
			errors:   []drive.Kind{drive.NotFound, drive.Forbidden, drive.WrongState, drive.TooManyOpen},
		}, {
			id: "listCollectLinks", method: "GET", path: collectsPath, access: read, action: withoutBody(l.list), secret: true,
			query:    []param{{name: "folder", doc: "id of a folder, also of a space: only links into it"}, limitParam, cursor},
			summary:  "List the collect links, the newest first.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Collect]](200, "a page")}, errors: []drive.Kind{drive.NotFound, drive.CursorInvalid},
		}, {
			id: "getCollectLink", method: "GET", path: one, access: read, action: byID(l.get), secret: true,
			summary:  "Show a collect link.",
			outcomes: []outcome{jsonOutcome[api.Collect](200, "the link")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "updateCollectLink", method: "PATCH", path: one, access: write, action: byIDWithJSON(l.patch),
			summary:  "Change a collect link. A limit below what has come lets nothing more in.",
			outcomes: []outcome{jsonOutcome[api.Collect](200, "the link")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "deleteCollectLink", method: "DELETE", path: one, access: write, action: byID(l.remove),
			summary:  "End a collect link and cancel what is on its way. What has come stays.",
			outcomes: []outcome{emptyOutcome(204, "it is ended")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "listCollectedFiles", method: "GET", path: one + "/files", access: read, action: byID(l.collected), query: []param{limitParam, cursor},
			summary:  "List who has sent what, the newest first.",
			outcomes: []outcome{jsonOutcome[api.Page[api.CollectedFile]](200, "a page")}, errors: []drive.Kind{drive.NotFound, drive.CursorInvalid},
		},
	}
}

// collectBody is the JSON request body of POST /collects.
type collectBody struct {
	Folder    string          `json:"folder" doc:"id of a folder, or root"`
	Title     string          `json:"title" doc:"title shown to senders, at most 200 bytes"`
	Message   string          `json:"message,omitempty" nullable:"true" doc:"message shown to senders, at most 2,000 characters"`
	ExpiresIn *int64          `json:"expires_in,omitempty" nullable:"true" minimum:"60" maximum:"315360000" doc:"lifetime in seconds; absent: unlimited"`
	MaxBytes  optional[int64] `json:"max_bytes,omitempty" nullable:"true" doc:"bytes of all files together, including unfinished uploads; absent: limited by the quota"`
	MaxFile   optional[int64] `json:"max_file,omitempty" nullable:"true" doc:"bytes of one file; absent: unlimited"`
}

// showCollect returns the wire form of a link. It hides the token, which allows writing, from
// callers who may only read.
func showCollect(c *call, v collect.View) api.Collect {
	view := api.Collect{
		ID: v.ID.String(), Title: v.Title, Message: v.Message, ExpiresAt: timeOrNil(v.ExpiresAt), Folder: linkTarget(v.Folder, v.Item),
		MaxBytes: (*int64)(v.MaxBytes), MaxFile: (*int64)(v.MaxFile), Files: v.Files, Received: int64(v.Received), Arriving: int64(v.Arriving),
		Left: (*int64)(v.Left), CreatedAt: showTime(v.CreatedAt), State: string(v.State),
	}
	if c.who.Scopes.Has(drive.ScopeWrite) && v.Token != "" {
		view.Token, view.URL = v.Token, c.baseURL()+"/c/"+v.Token
	}
	return view
}

// bytesOf converts an optional size of a request; nil stays nil, which means no limit.
func bytesOf(n *int64) *drive.ByteSize { return (*drive.ByteSize)(n) }

// create serves POST /collects. It replies 201 with api.Collect. Beyond the errors common to all
// routes it fails with drive.NotFound, drive.Forbidden, drive.WrongState or drive.TooManyOpen.
// Senders' files are charged to the account of the folder.
func (l collects) create(ctx context.Context, c *call, in *collectBody) (reply, error) {
	folder, err := l.files.ParseNode(ctx, c.who, in.Folder)
	if err != nil {
		return reply{}, err
	}
	wish := collect.Request{
		Folder: folder, Title: in.Title, Message: in.Message, MaxBytes: bytesOf(in.MaxBytes.value), MaxFile: bytesOf(in.MaxFile.value),
	}
	if wish.Life, err = linkLifetime(in.ExpiresIn); err != nil {
		return reply{}, err
	}
	return makeOnce(ctx, c, showCollect, func(keep storeResponse[collect.View]) (collect.View, error) {
		return l.links.Create(ctx, c.who, wish, keep)
	})
}

// list serves GET /collects. It replies 200 with api.Page[api.Collect]. Beyond the errors common
// to all routes it fails with drive.NotFound or drive.CursorInvalid.
func (l collects) list(ctx context.Context, c *call) (reply, error) {
	folder, err := nodeOf(ctx, c, l.files, "folder")
	if err != nil {
		return reply{}, err
	}
	return listPage(c, func(since drive.CollectID, limit int) ([]collect.View, error) {
		return l.links.List(ctx, c.who, collect.Query{Node: folder, After: since, Limit: limit})
	}, showCollect, func(v api.Collect) string { return v.ID })
}

// get serves GET /collects/{id}. It replies 200 with api.Collect. Beyond the errors common to all
// routes it fails with drive.NotFound.
func (l collects) get(ctx context.Context, c *call, id drive.CollectID) (reply, error) {
	return replyWith(c, showCollect)(l.links.Find(ctx, c.who, id))
}

// collectChangeBody is the JSON request body of PATCH /collects/{id}.
type collectChangeBody struct {
	Title     *string         `json:"title,omitempty" doc:"at most 200 bytes"`
	Message   *string         `json:"message,omitempty" doc:"at most 2,000 characters"`
	ExpiresIn optional[int64] `json:"expires_in,omitempty" nullable:"true" doc:"lifetime in seconds from now; null: unlimited"`
	MaxBytes  optional[int64] `json:"max_bytes,omitempty" nullable:"true" doc:"bytes including received files; null: limited by the quota"`
	MaxFile   optional[int64] `json:"max_file,omitempty" nullable:"true" doc:"bytes of one file; null: unlimited"`
}

// patch serves PATCH /collects/{id}. It replies 200 with api.Collect. Beyond the errors common to
// all routes it fails with drive.NotFound. Absent fields stay; null removes a limit.
func (l collects) patch(ctx context.Context, c *call, id drive.CollectID, in *collectChangeBody) (reply, error) {
	change := collect.Change{Title: in.Title, Message: in.Message}
	if in.ExpiresIn.given {
		life, err := linkLifetime(in.ExpiresIn.value)
		if err != nil {
			return reply{}, err
		}
		change.Life = &life
	}
	if in.MaxBytes.given {
		limit := bytesOf(in.MaxBytes.value)
		change.MaxBytes = &limit
	}
	if in.MaxFile.given {
		limit := bytesOf(in.MaxFile.value)
		change.MaxFile = &limit
	}
	return replyWith(c, showCollect)(l.links.Change(ctx, c.who, id, change))
}

// remove deletes a link and cancels its open uploads. If canceling fails midway, the remaining
// uploads cannot be completed any more and are reclaimed like abandoned ones.
func (l collects) remove(ctx context.Context, c *call, id drive.CollectID) (reply, error) {
	open, err := l.links.Delete(ctx, c.who, id)
	if err != nil {
		return reply{}, err
	}
	for _, id := range open {
		err := l.uploads.Cancel(ctx, c.who, id)
		if err != nil && !drive.IsKind(err, drive.WrongState, drive.NotFound, drive.Gone, drive.InProgress) {
			return reply{}, err
		}
	}
	return empty(nil)
}

// collected serves GET /collects/{id}/files. It replies 200 with api.Page[api.CollectedFile].
// Beyond the errors common to all routes it fails with drive.NotFound or drive.CursorInvalid.
func (l collects) collected(ctx context.Context, c *call, id drive.CollectID) (reply, error) {
	return listPage(c, func(since drive.UploadID, limit int) ([]collect.File, error) {
		return l.links.ListFiles(ctx, c.who, id, since, limit)
	}, showCollected, func(v api.CollectedFile) string { return v.Upload })
}

// showCollected returns the wire form of a file that was sent through a link.
func showCollected(_ *call, f collect.File) api.CollectedFile {
	view := api.CollectedFile{
		Upload: f.Upload.String(), Sender: f.SenderName, Name: string(f.Name), Size: int64(f.Size), State: string(f.State), CreatedAt: showTime(f.At),
	}
	if !f.Node.IsZero() {
		view.NodeID = textOrNil(&f.Node)
	}
	return view
}
