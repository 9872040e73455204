package rest

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/collect"
	"smartdrive/internal/usecase/files"
)

const collectsPath = "/collects"

func (a *API) collectRoutes() []route {
	one := collectsPath + "/{id}"
	return []route{
		{
			method: "POST", path: collectsPath, need: write, act: takes((*call).createCollect), once: true, secret: true, created: collectsPath,
			does:  "Make a link by which anybody may send files into a folder, charged to this account.",
			out:   []outcome{gives[collectView](201, "the link")},
			fails: []drive.Kind{drive.NotFound, drive.WrongState, drive.TooManyOpen},
		}, {
			method: "GET", path: collectsPath, need: read, act: plain((*call).listCollects), query: []param{limitParam, cursor},
			does: "List the collect links, the newest first.",
			out:  []outcome{gives[files.Page[collectView]](200, "a page")}, fails: []drive.Kind{drive.CursorInvalid},
		}, {
			method: "GET", path: one, need: read, act: plain((*call).getCollect),
			does: "Show a collect link.",
			out:  []outcome{gives[collectView](200, "the link")}, fails: []drive.Kind{drive.NotFound},
		}, {
			method: "PATCH", path: one, need: write, act: takes((*call).patchCollect),
			does: "Change a collect link. A limit below what has come lets nothing more in.",
			out:  []outcome{gives[collectView](200, "the link")}, fails: []drive.Kind{drive.NotFound},
		}, {
			method: "DELETE", path: one, need: write, act: plain((*call).deleteCollect),
			does: "End a collect link and cancel what is on its way. What has come stays.",
			out:  []outcome{nothing(204, "it is ended")}, fails: []drive.Kind{drive.NotFound},
		}, {
			method: "GET", path: one + "/files", need: read, act: plain((*call).listCollected), query: []param{limitParam, cursor},
			does: "List who has sent what, the newest first.",
			out:  []outcome{gives[files.Page[collectedView]](200, "a page")}, fails: []drive.Kind{drive.NotFound, drive.CursorInvalid},
		},
	}
}

type collectBody struct {
	Folder    string          `json:"folder" doc:"id of a folder, or root"`
	Title     string          `json:"title" doc:"what senders read first; at most 200 bytes"`
	Message   string          `json:"message,omitempty" nullable:"true" doc:"what else they read; at most 2,000 bytes"`
	ExpiresIn *int64          `json:"expires_in,omitempty" nullable:"true" minimum:"60" maximum:"315360000" doc:"seconds; for ever if absent"`
	MaxBytes  optional[int64] `json:"max_bytes,omitempty" nullable:"true" doc:"of all files together, those that are on their way included; what the account has room for if absent"`
	MaxFile   optional[int64] `json:"max_file,omitempty" nullable:"true" doc:"bytes of one file; any if absent"`
}

type collectView struct {
	ID        drive.CollectID `json:"id"`
	Token     string          `json:"token,omitempty"` // the last part of the URL; a secret, shown to who may write, unless the key of the server that sealed it is lost
	URL       string          `json:"url,omitempty"`   // shown to who may write
	Folder    sharedNode      `json:"folder"`
	Title     string          `json:"title"`
	Message   string          `json:"message"`
	ExpiresAt *drive.Time     `json:"expires_at"` // null: never
	MaxBytes  *drive.ByteSize `json:"max_bytes"`  // null: what the account has room for
	MaxFile   *drive.ByteSize `json:"max_file"`   // null: any
	Files     int64           `json:"files"`      // that have come
	Received  drive.ByteSize  `json:"received"`   // their bytes
	Arriving  drive.ByteSize  `json:"arriving"`   // declared bytes of what is on its way
	Left      *drive.ByteSize `json:"left"`       // null: no limit of its own
	CreatedAt drive.Time      `json:"created_at"`
	State     collect.State   `json:"state" enum:"open,expired,full,gone"`
}

// showCollect shows a link. By its token one writes: it is not for a caller who may only read.
func (c *call) showCollect(v collect.View) collectView {
	view := collectView{
		ID: v.ID, Title: v.Title, Message: v.Message, ExpiresAt: timeOrNull(v.ExpiresAt),
		Folder:   sharedNode{v.Folder, string(v.Item.Name), v.Item.Type, 0},
		MaxBytes: v.MaxBytes, MaxFile: v.MaxFile, Files: v.Files, Received: v.Received, Arriving: v.Arriving, Left: v.Left,
		CreatedAt: v.CreatedAt, State: v.State,
	}
	if c.who.Scopes.Has(drive.ScopeWrite) && v.Token != "" {
		view.Token, view.URL = v.Token, c.baseURL()+"/c/"+v.Token
	}
	return view
}

func bytesOf(n *int64) *drive.ByteSize { return (*drive.ByteSize)(n) }

func (c *call) createCollect(in *collectBody) (reply, error) {
	folder, err := c.Files.ParseNode(c.ctx(), c.who, in.Folder)
	if err != nil {
		return reply{}, err
	}
	wish := collect.Request{
		Folder: folder, Title: in.Title, Message: in.Message, MaxBytes: bytesOf(in.MaxBytes.value), MaxFile: bytesOf(in.MaxFile.value),
	}
	if wish.Life, err = life(in.ExpiresIn); err != nil {
		return reply{}, err
	}
	return c.once(func() (reply, error) {
		v, err := c.Collects.Create(c.ctx(), c.who, wish, func(ctx context.Context, tx *sqldb.Tx, v collect.View) error {
			return c.keepMade(ctx, tx, c.showCollect(v))
		})
		if err != nil {
			return reply{}, err
		}
		return created(c.showCollect(v))
	})
}

func (c *call) listCollects() (reply, error) {
	since, err := after[drive.CollectID](c)
	if err != nil {
		return reply{}, err
	}
	all, err := c.Collects.List(c.ctx(), c.who, since, c.limit()+1)
	if err != nil {
		return reply{}, err
	}
	views := make([]collectView, len(all))
	for i, v := range all {
		views[i] = c.showCollect(v)
	}
	return ok(shown(views, c.limit(), func(v collectView) string { return v.ID.String() }))
}

// collect reads the id in the path.
func (c *call) collect() (drive.CollectID, error) {
	return drive.ParseID[drive.CollectID](c.r.PathValue("id"))
}

func (c *call) answerCollect(v collect.View, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	return ok(c.showCollect(v))
}

func (c *call) getCollect() (reply, error) {
	id, err := c.collect()
	if err != nil {
		return reply{}, err
	}
	return c.answerCollect(c.Collects.Find(c.ctx(), c.who, id))
}

type collectChangeBody struct {
	Title     *string         `json:"title,omitempty" doc:"at most 200 bytes"`
	Message   *string         `json:"message,omitempty" doc:"at most 2,000 bytes"`
	ExpiresIn optional[int64] `json:"expires_in,omitempty" nullable:"true" doc:"seconds from now on; null: for ever"`
	MaxBytes  optional[int64] `json:"max_bytes,omitempty" nullable:"true" doc:"with what has come; null: what the account has room for"`
	MaxFile   optional[int64] `json:"max_file,omitempty" nullable:"true" doc:"bytes of one file; null: any"`
}

func (c *call) patchCollect(in *collectChangeBody) (reply, error) {
	id, err := c.collect()
	if err != nil {
		return reply{}, err
	}
	change := collect.Change{Title: in.Title, Message: in.Message}
	if in.ExpiresIn.given {
		life, err := life(in.ExpiresIn.value)
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
	return c.answerCollect(c.Collects.Change(c.ctx(), c.who, id, change))
}

// deleteCollect also cancels what is on its way, as far as it gets: what is left nobody can complete, and it is reclaimed in its time.
func (c *call) deleteCollect() (reply, error) {
	id, err := c.collect()
	if err != nil {
		return reply{}, err
	}
	open, err := c.Collects.Delete(c.ctx(), c.who, id)
	if err != nil {
		return reply{}, err
	}
	for _, id := range open {
		err := c.Uploads.Cancel(c.ctx(), c.who, id)
		if err != nil && !drive.IsKind(err, drive.WrongState, drive.NotFound, drive.Gone, drive.InProgress) {
			return reply{}, err
		}
	}
	return empty(nil)
}

// collectedView is a file that came by a collect link, or comes.
type collectedView struct {
	Upload    drive.UploadID `json:"upload"`
	Sender    string         `json:"sender"` // what they call themselves; empty: nothing
	Name      string         `json:"name"`   // as it was sent
	Size      drive.ByteSize `json:"size"`
	State     collect.State  `json:"state" enum:"open,done"`
	NodeID    *drive.NodeID  `json:"node_id"` // of a done one, as long as that is known
	CreatedAt drive.Time     `json:"created_at"`
}

func (c *call) listCollected() (reply, error) {
	id, err := c.collect()
	if err != nil {
		return reply{}, err
	}
	since, err := after[drive.UploadID](c)
	if err != nil {
		return reply{}, err
	}
	all, err := c.Collects.ListFiles(c.ctx(), c.who, id, since, c.limit()+1)
	if err != nil {
		return reply{}, err
	}
	views := make([]collectedView, len(all))
	for i, f := range all {
		views[i] = collectedView{f.Upload, f.By, string(f.Name), f.Size, f.State, nil, f.At}
		if !f.Node.IsZero() {
			views[i].NodeID = &f.Node
		}
	}
	return ok(shown(views, c.limit(), func(v collectedView) string { return v.Upload.String() }))
}
