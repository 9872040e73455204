package rest

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/share"
)

const publicShare = "/public/shares/{token}"

// publicRoutes are what visitors of a share see: the token of the share is in the path, the access that Open gave in the header
// Authorization: Share ACCESS, or, for links that a browser follows by itself, in the query, which no log shows.
func (a *API) publicRoutes() []route {
	node := publicShare + "/nodes/{id}"
	ticket := param{name: "access", says: "instead of the header Authorization: Share ACCESS"}
	closed := []drive.Kind{drive.NotFound, drive.Gone, drive.Unauthenticated}
	return []route{
		{
			method: "GET", path: publicShare, need: open, act: plain((*call).lookAtShare), query: []param{ticket},
			does: "Show what a share is, and what is shared where no code is needed or an access is given.",
			out:  []outcome{gives[publicShareView](200, "the share")}, fails: []drive.Kind{drive.NotFound, drive.Gone},
		}, {
			method: "POST", path: publicShare + "/open", need: open, act: takes((*call).openShare), optional: true,
			does:  "Get an access for an hour. At most 10 wrong codes of an address in 15 minutes.",
			out:   []outcome{gives[accessView](200, "the access")},
			fails: []drive.Kind{drive.NotFound, drive.Gone, drive.WrongCode, drive.Rate},
		}, {
			method: "GET", path: node, need: open, act: plain((*call).getShared), query: []param{ticket},
			does: "Show a node of a share; `root` is the one that is shared.",
			out:  []outcome{gives[publicNode](200, "the node")}, fails: closed,
		}, {
			method: "GET", path: node + "/children", need: open, act: plain((*call).listShared),
			query: []param{
				ticket, limitParam, cursor,
				{name: "sort", form: choice, choices: []string{"name", "size", "mtime", "type"}, says: "what to sort by; names are compared byte by byte"},
				{name: "order", form: choice, choices: []string{"asc", "desc"}, says: "in which direction"},
				{name: "folders_first", form: boolean, says: "all folders before the first file, in either direction"},
			},
			does: "List what is in a folder of a share.",
			out:  []outcome{gives[files.Page[publicNode]](200, "a page")}, fails: append([]drive.Kind{drive.CursorInvalid}, closed...),
		}, {
			method: "GET", path: node + "/content", need: open, act: plain((*call).getSharedContent),
			query:  []param{ticket, {name: "inline", form: boolean, says: "let a browser show it instead of saving it"}},
			header: []string{"Range", "If-Range", "If-None-Match", "If-Match"},
			does:   "Read a file of a share. A request that begins at the first byte is a download and is counted; other ranges belong to one.",
			out:    contentOutcomes(), fails: append([]drive.Kind{drive.Precondition, drive.Range}, closed...),
		}, publicZipRoute(node, ticket, closed),
	}
}

// ticket is the access that a visitor shows.
func (c *call) ticket() string {
	scheme, ticket, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Share") {
		return strings.Trim(ticket, " ")
	}
	return c.query.Get("access")
}

type publicShareView struct {
	NeedsCode bool        `json:"needs_code"`
	Name      string      `json:"name,omitempty"` // this and what follows only where no code is needed
	Type      tree.Type   `json:"type,omitempty" enum:"file,folder"`
	Size      *int64      `json:"size,omitempty"`
	Owner     string      `json:"owner,omitempty"`
	ExpiresAt *drive.Time `json:"expires_at"` // null: never
}

func (c *call) lookAtShare() (reply, error) {
	p, err := c.Shares.Look(c.ctx(), c.r.PathValue("token"), c.ticket())
	if err != nil {
		return reply{}, err
	}
	view := publicShareView{NeedsCode: p.NeedsCode, ExpiresAt: timeOrNull(p.ExpiresAt)}
	if !p.NeedsCode {
		size := int64(p.Item.Size)
		view.Name, view.Type, view.Size, view.Owner = string(p.Item.Name), p.Item.Type, &size, p.Owner
	}
	return ok(view)
}

type openShareBody struct {
	Code string `json:"code,omitempty" nullable:"true" doc:"the extraction code; capital and small letters are the same"`
}

type accessView struct {
	Access    string     `json:"access"`
	ExpiresAt drive.Time `json:"expires_at"`
}

func (c *call) openShare(in *openShareBody) (reply, error) {
	a, err := c.Shares.Open(c.ctx(), c.r.PathValue("token"), in.Code, c.client())
	if err != nil {
		return reply{}, err
	}
	return ok(accessView{a.Access, a.ExpiresAt})
}

// publicNode is what a visitor sees of a node: nothing of where it is in the owner's drive.
type publicNode struct {
	ID       drive.NodeID  `json:"id"`
	ParentID *drive.NodeID `json:"parent_id"` // null: it is the one that is shared
	Name     string        `json:"name"`
	Path     string        `json:"path"` // below the one that is shared, which is /
	Type     tree.Type     `json:"type"`
	Size     int64         `json:"size"`
	Mime     string        `json:"mime"`
	MTime    drive.Time    `json:"mtime"`
}

func showShared(v share.Visit, n tree.Node, path drive.Path) publicNode {
	view := publicNode{
		ID: n.ID, Name: string(n.Name), Path: path.String(), Type: n.Type, Size: int64(n.Size), Mime: n.Mime, MTime: n.MTime,
	}
	if n.ID != v.Item().ID {
		view.ParentID = &n.Parent
	}
	return view
}

// reach checks the access and finds the node in the path.
func (c *call) reach() (v share.Visit, n tree.Node, path drive.Path, err error) {
	if v, err = c.Shares.Enter(c.ctx(), c.r.PathValue("token"), c.ticket()); err != nil {
		return v, n, nil, err
	}
	id := v.Item().ID
	if text := c.r.PathValue("id"); text != files.RootID {
		if id, err = drive.ParseID[drive.NodeID](text); err != nil {
			return v, n, nil, err
		}
	}
	n, path, err = c.Shares.Reach(c.ctx(), v, id)
	return v, n, path, err
}

func (c *call) getShared() (reply, error) {
	v, n, path, err := c.reach()
	if err != nil {
		return reply{}, err
	}
	return ok(showShared(v, n, path))
}

func (c *call) listShared() (reply, error) {
	v, n, path, err := c.reach()
	if err != nil {
		return reply{}, err
	}
	page, err := c.Files.Children(c.ctx(), v.Who(), n.ID, tree.List{
		Sort: tree.Sort(c.query.Get("sort")), Desc: c.query.Get("order") == "desc", FoldersFirst: c.flag("folders_first"),
		Limit: c.limit(), Cursor: c.query.Get(cursor.name),
	})
	if err != nil {
		return reply{}, err
	}
	views := files.Page[publicNode]{Items: make([]publicNode, len(page.Items)), NextCursor: page.NextCursor}
	for i, child := range page.Items {
		views.Items[i] = publicNode{
			ID: child.ID, ParentID: &n.ID, Name: child.Name, Path: append(slices.Clip(path), drive.Name(child.Name)).String(),
			Type: child.Type, Size: child.Size, Mime: child.Mime, MTime: child.MTime,
		}
	}
	return ok(views)
}

func (c *call) getSharedContent() (reply, error) {
	v, n, _, err := c.reach()
	if err != nil {
		return reply{}, err
	}
	d, err := c.Files.Open(c.ctx(), v.Who(), n.ID, drive.VersionID{})
	if err != nil {
		return reply{}, err
	}
	d = d.Until(v.ExpiresAt())
	if sends, fromStart := c.wouldSend(quoted(opaqueTag(d.Sum.String())), d.Version.Mime, int64(d.Size()), d.Version.MTime.Std()); sends {
		if err := c.Shares.Count(c.ctx(), v, n.ID, fromStart); err != nil {
			return reply{}, errors.Join(err, d.Close())
		}
	}
	if v.Limited() { // an address of the store works any number of times
		own := *c.API
		own.DownloadRedirect = 0
		c.API = &own
	}
	return c.sendContent(d, c.flag("inline"))
}

// wouldSend lets http.ServeContent judge the request, without a byte of content: whether the answer has content, and its first byte.
func (c *call) wouldSend(tag, mime string, size int64, modified time.Time) (sends, fromStart bool) {
	if c.r.Method != http.MethodGet {
		return false, false
	}
	ask := c.r.WithContext(c.ctx())
	ask.Method = http.MethodHead
	w := &verdict{header: http.Header{"Etag": {tag}, "Content-Type": {mime}}}
	http.ServeContent(w, ask, "", modified, io.NewSectionReader(noBytes{}, 0, size))
	switch w.status {
	case http.StatusOK:
		return true, true
	case http.StatusPartialContent:
		part := w.header.Get("Content-Range") // absent: there are several
		return true, part == "" || strings.HasPrefix(part, "bytes 0-")
	}
	return false, false
}
