package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/share"
)

const (
	// publicShare is the route path of a share below prefix.
	publicShare = "/public/shares/{token}"
	// sharedPath is a route path below prefix: /public/shares/{token}/nodes/{id}.
	sharedPath = publicShare + "/nodes/{id}"
)

// ticketParam declares the query parameter "access".
var ticketParam = param{name: "access", doc: "instead of the header Authorization: Share ACCESS"}

// shareErrors lists the errors of a visitor without valid access to a share.
func shareErrors() []drive.Kind {
	return []drive.Kind{drive.NotFound, drive.Gone, drive.Unauthenticated}
}

// publicShares serves the routes for visitors of a share. The path holds the share's token. The
// access that open returned comes in the header "Authorization: Share ACCESS" or, for plain links
// in a browser, in the query, which is not logged.
type publicShares struct {
	shares   *share.Shares
	files    *files.Files
	contents contents
}

// routes returns the declarations of the routes that publicShares serves. It registers nothing.
func (p publicShares) routes() []route {
	return []route{
		{
			id: "getPublicShare", method: "GET", path: publicShare, access: open, action: withoutBody(p.showShare), query: []param{ticketParam},
			summary:  "Show what a share is, and what is shared where no code is needed or an access is given.",
			outcomes: []outcome{jsonOutcome[publicShareView](200, "the share")}, errors: []drive.Kind{drive.NotFound, drive.Gone},
		}, {
			id: "openPublicShare", method: "POST", path: publicShare + "/open", access: open, action: withJSON(p.open), bodyOptional: true,
			summary:  "Get an access for an hour. At most 10 wrong codes of an address in 15 minutes.",
			outcomes: []outcome{jsonOutcome[accessView](200, "the access")},
			errors:   []drive.Kind{drive.NotFound, drive.Gone, drive.WrongCode, drive.Rate},
		}, {
			id: "getPublicNode", method: "GET", path: sharedPath, access: open, action: withoutBody(p.get), query: []param{ticketParam},
			summary:  "Show a node of a share; `root` is the one that is shared.",
			outcomes: []outcome{jsonOutcome[publicNode](200, "the node")}, errors: shareErrors(),
		}, {
			id: "listPublicChildren", method: "GET", path: sharedPath + "/children", access: open, action: withoutBody(p.children),
			query: []param{
				ticketParam, limitParam, cursor,
				{name: "sort", syntax: choice, choices: []string{"name", "size", "mtime", "type"}, doc: "what to sort by; names are compared byte by byte"},
				{name: "order", syntax: choice, choices: []string{"asc", "desc"}, doc: "in which direction"},
				{name: "folders_first", syntax: boolean, doc: "all folders before the first file, in either direction"},
			},
			summary:  "List what is in a folder of a share.",
			outcomes: []outcome{jsonOutcome[api.Page[publicNode]](200, "a page")}, errors: append([]drive.Kind{drive.CursorInvalid}, shareErrors()...),
		}, {
			id: "downloadPublicFile", method: "GET", path: sharedPath + "/content", access: open, action: withoutBody(p.content),
			query:    []param{ticketParam, {name: "inline", syntax: boolean, doc: "let a browser show it instead of saving it"}},
			header:   []string{"Range", "If-Range", "If-None-Match", "If-Match"},
			summary:  "Read a file of a share. A request that begins at the first byte is a download and is counted; other ranges belong to one.",
			outcomes: contentOutcomes(), errors: append([]drive.Kind{drive.Precondition, drive.Range}, shareErrors()...),
		},
	}
}

// ticketOf returns the access that the visitor sends, or "".
func ticketOf(c *call) string {
	scheme, ticket, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Share") {
		return strings.Trim(ticket, " ")
	}
	return c.query.Get("access")
}

// publicShareView is the JSON in replies to GET /public/shares/{token}.
type publicShareView struct {
	NeedsCode bool        `json:"needs_code"`
	Name      string      `json:"name,omitempty"` // this and the following members only if no code is needed
	Type      tree.Type   `json:"type,omitempty" enum:"file,folder"`
	Size      *int64      `json:"size,omitempty"`
	Owner     string      `json:"owner,omitempty"`
	ExpiresAt *drive.Time `json:"expires_at"` // null: never
}

// showShare serves GET /public/shares/{token}. It replies 200 with publicShareView. Beyond the
// errors common to all routes it fails with drive.NotFound or drive.Gone.
func (p publicShares) showShare(ctx context.Context, c *call) (reply, error) {
	seen, err := p.shares.Describe(ctx, c.r.PathValue("token"), ticketOf(c))
	if err != nil {
		return reply{}, err
	}
	view := publicShareView{NeedsCode: seen.NeedsCode, ExpiresAt: timeOrNull(seen.ExpiresAt)}
	if !seen.NeedsCode {
		size := int64(seen.Item.Size)
		view.Name, view.Type, view.Size, view.Owner = string(seen.Item.Name), seen.Item.Type, &size, seen.Owner
	}
	return ok(view)
}

// openShareBody is the JSON request body of POST /public/shares/{token}/open.
type openShareBody struct {
	Code string `json:"code,omitempty" nullable:"true" doc:"extraction code, case-insensitive"`
}

// accessView is the JSON in replies to POST /public/shares/{token}/open.
type accessView struct {
	Access    string     `json:"access"`
	ExpiresAt drive.Time `json:"expires_at"`
}

// open serves POST /public/shares/{token}/open. It replies 200 with accessView and counts a view.
// Beyond the errors common to all routes it fails with drive.NotFound, drive.Gone, drive.WrongCode
// or, after too many wrong codes from an address, drive.Rate.
func (p publicShares) open(ctx context.Context, c *call, in *openShareBody) (reply, error) {
	a, err := p.shares.Open(ctx, c.r.PathValue("token"), in.Code, c.client())
	if err != nil {
		return reply{}, err
	}
	return ok(accessView{a.Token, a.ExpiresAt})
}

// publicNode is a node as shown to visitors. It reveals nothing above the shared node.
type publicNode struct {
	ID       drive.NodeID  `json:"id"`
	ParentID *drive.NodeID `json:"parent_id"` // null: the shared node itself
	Name     string        `json:"name"`
	Path     string        `json:"path"` // relative to the shared node, which is /
	Type     tree.Type     `json:"type"`
	Size     int64         `json:"size"`
	Mime     string        `json:"mime"`
	MTime    drive.Time    `json:"mtime"`
}

// showShared converts its argument to the publicNode that replies contain. It does no I/O.
func showShared(v share.Visit, n tree.Node, path drive.Path) publicNode {
	view := publicNode{
		ID: n.ID, Name: string(n.Name), Path: path.String(), Type: n.Type, Size: int64(n.Size), Mime: n.Mime, MTime: n.MTime,
	}
	if n.ID != v.Item().ID {
		view.ParentID = &n.Parent
	}
	return view
}

// findNode checks the access and returns the node in the path, with its path below the shared node.
// It fails with one of shareErrors.
func (p publicShares) findNode(ctx context.Context, c *call) (v share.Visit, n tree.Node, path drive.Path, err error) {
	if v, err = p.shares.VerifyAccess(ctx, c.r.PathValue("token"), ticketOf(c)); err != nil {
		return v, n, nil, err
	}
	id := v.Item().ID
	if text := c.r.PathValue("id"); text != files.RootID {
		if id, err = drive.ParseID[drive.NodeID](text); err != nil {
			return v, n, nil, err
		}
	}
	n, path, err = p.shares.FindWithin(ctx, v, id)
	return v, n, path, err
}

// get serves GET /public/shares/{token}/nodes/{id}. It replies 200 with publicNode. Beyond the
// errors common to all routes it fails with the errors of shareErrors.
func (p publicShares) get(ctx context.Context, c *call) (reply, error) {
	v, n, path, err := p.findNode(ctx, c)
	if err != nil {
		return reply{}, err
	}
	return ok(showShared(v, n, path))
}

// children serves GET /public/shares/{token}/nodes/{id}/children. It replies 200 with
// api.Page[publicNode]. Beyond the errors common to all routes it fails with drive.CursorInvalid
// or the errors of shareErrors.
func (p publicShares) children(ctx context.Context, c *call) (reply, error) {
	v, n, path, err := p.findNode(ctx, c)
	if err != nil {
		return reply{}, err
	}
	page, err := p.files.Children(ctx, v.Who(), n.ID, tree.List{
		Sort: tree.Sort(c.query.Get("sort")), Desc: c.query.Get("order") == "desc", FoldersFirst: c.flag("folders_first"),
		Limit: c.limit(), Cursor: c.query.Get(cursor.name),
	})
	if err != nil {
		return reply{}, err
	}
	views := api.Page[publicNode]{Items: make([]publicNode, len(page.Items)), NextCursor: page.NextCursor}
	for i, child := range page.Items {
		views.Items[i] = publicNode{
			ID: child.ID, ParentID: &n.ID, Name: child.Name, Path: append(slices.Clip(path), drive.Name(child.Name)).String(),
			Type: child.Type, Size: child.Size, Mime: child.Mime, MTime: child.MTime,
		}
	}
	return ok(views)
}

// content serves GET /public/shares/{token}/nodes/{id}/content. Beyond the errors common to all
// routes it fails with drive.Precondition, drive.Range or the errors of shareErrors.
func (p publicShares) content(ctx context.Context, c *call) (reply, error) {
	d, content, release, err := p.openContent(ctx, c)
	if err != nil {
		return reply{}, err
	}
	defer release()
	return content.send(ctx, c, d, c.flag("inline"))
}

// openContent opens a file of a share, counts the download and takes a slot of the share's readers.
// The caller calls content.send and then release. It is a separate function to keep the stack
// small: see contents.send. On an error release is nil and nothing stays open.
//
//go:noinline
func (p publicShares) openContent(ctx context.Context, c *call) (_ *files.Download, content contents, release func(), err error) {
	v, n, _, err := p.findNode(ctx, c)
	if err != nil {
		return nil, content, nil, err
	}
	leave, err := p.contents.readers.acquire(c.r.PathValue("token"))
	if err != nil {
		return nil, content, nil, err
	}
	defer func() {
		if err != nil {
			leave()
		}
	}()
	who := v.Who()
	who.Address = c.client().String()
	d, err := p.files.Contents.Open(ctx, who, n.ID, drive.VersionID{})
	if err != nil {
		return nil, content, nil, err
	}
	d = d.ExpireWith(v.ExpiresAt())
	sends, fromStart := wouldSend(ctx, c, quoted(opaqueTag(d.Sum.String())), d.Version.Mime, int64(d.Size()), d.Version.MTime.Std())
	if err := p.countDownload(ctx, v, n.ID, sends, fromStart); err != nil {
		return nil, content, nil, errors.Join(err, d.Close())
	}
	content = p.contents
	if v.Limited() || !sends { // a store address works repeatedly and for the whole file, so the download limit would not hold
		content.redirectFor = 0
	}
	return &d, content, leave, nil
}

// countDownload counts a request that sends content. For any other request it only checks that the
// download limit is not reached.
func (p publicShares) countDownload(ctx context.Context, v share.Visit, file drive.NodeID, sends, fromStart bool) error {
	if sends {
		return p.shares.CountDownload(ctx, v, file, fromStart)
	}
	return p.shares.CheckDownload(ctx, v, file)
}

// wouldSend runs http.ServeContent without content to see how the request would be answered. sends
// reports that the response has content that counts as a download; fromStart that it includes the
// first byte.
func wouldSend(ctx context.Context, c *call, tag, mime string, size int64, modified time.Time) (sends, fromStart bool) {
	if c.r.Method != http.MethodGet {
		return false, false
	}
	ask := server.WithoutRange(c.r.WithContext(ctx), drive.ByteSize(size))
	ask.Method = http.MethodHead
	w := &headRecorder{header: http.Header{"Etag": {tag}, "Content-Type": {mime}}}
	http.ServeContent(w, ask, "", modified, io.NewSectionReader(emptyReaderAt{}, 0, size))
	switch w.status {
	case http.StatusOK:
		return true, true
	case http.StatusPartialContent:
		part := w.header.Get("Content-Range") // absent for several ranges
		return !isProbe(part), part == "" || strings.HasPrefix(part, "bytes 0-")
	}
	return false, false
}

// isProbe reports whether a Content-Range is the first byte or two of a larger file. Safari
// requests it before it plays a file, to test whether ranges work, and then requests the whole
// file.
func isProbe(part string) bool {
	var from, to, size int64
	n, _ := fmt.Sscanf(part, "bytes %d-%d/%d", &from, &to, &size)
	return n == 3 && from == 0 && to <= 1 && to+1 < size
}
