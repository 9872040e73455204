package rest

import (
	"context"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/share"
)

// sharesPath is a route path below prefix: /shares.
const sharesPath = "/shares"

// shares serves the routes for links by which visitors see a file or folder.
type shares struct {
	shares *share.Shares
	files  *files.Files
}

// routes returns the declarations of the routes that shares serves. It registers nothing.
func (s shares) routes() []route {
	one := sharesPath + "/{id}"
	return []route{
		{
			method: "POST", path: sharesPath, access: write, action: withJSON(s.create), idempotent: true, secret: true, createdPath: sharesPath,
			summary:  "Share a file or a folder: whoever has the link, and the code if there is one, may list and download it.",
			outcomes: []outcome{jsonOutcome[shareView](201, "the share")},
			errors:   []drive.Kind{drive.NotFound, drive.Forbidden, drive.WrongState, drive.TooManyOpen},
		}, {
			method: "GET", path: sharesPath, access: read, action: withoutBody(s.list), secret: true,
			query:    []param{{name: "node", doc: "id of a node, also of a space: only shares of it"}, limitParam, cursor},
			summary:  "List the shares, the newest first.",
			outcomes: []outcome{jsonOutcome[files.Page[shareView]](200, "a page")}, errors: []drive.Kind{drive.NotFound, drive.CursorInvalid},
		}, {
			method: "GET", path: one, access: read, action: byID(s.get), secret: true,
			summary:  "Show a share.",
			outcomes: []outcome{jsonOutcome[shareView](200, "the share")}, errors: []drive.Kind{drive.NotFound},
		}, {
			method: "PATCH", path: one, access: write, action: byIDWithJSON(s.patch),
			summary:  "Change a share. A new code, or none, ends every access that was given with the old one.",
			outcomes: []outcome{jsonOutcome[shareView](200, "the share")}, errors: []drive.Kind{drive.NotFound},
		}, {
			method: "DELETE", path: one, access: write, action: byID(s.remove),
			summary:  "End a share: its link leads nowhere any more.",
			outcomes: []outcome{emptyOutcome(204, "it is ended")}, errors: []drive.Kind{drive.NotFound},
		},
	}
}

// shareBody is the JSON request body of POST /shares.
type shareBody struct {
	Node         string  `json:"node" doc:"id of a file or folder"`
	Code         *string `json:"code,omitempty" nullable:"true" doc:"extraction code: 4 to 16 letters and digits, or auto for one of the server's; none if absent"`
	ExpiresIn    *int64  `json:"expires_in,omitempty" nullable:"true" minimum:"60" maximum:"315360000" doc:"seconds; for ever if absent"`
	MaxDownloads *int64  `json:"max_downloads,omitempty" nullable:"true" minimum:"1" maximum:"1000000" doc:"any number if absent"`
}

// shareView is the JSON in replies to POST /shares, GET /shares, GET /shares/{id}, others.
type shareView struct {
	ID           drive.ShareID `json:"id"`
	Token        string        `json:"token"` // last part of the URL; a secret. Empty if the server key that sealed it is lost
	URL          string        `json:"url"`   // empty like token
	Node         sharedNode    `json:"node"`
	Code         *string       `json:"code"`          // null: no code; empty like token
	ExpiresAt    *drive.Time   `json:"expires_at"`    // null: never
	MaxDownloads *int64        `json:"max_downloads"` // null: unlimited
	Downloads    int64         `json:"downloads"`
	Views        int64         `json:"views"`
	CreatedAt    drive.Time    `json:"created_at"`
	State        share.State   `json:"state" enum:"open,expired,used-up,gone"`
}

// sharedNode is the node that a link or role refers to. Only ID is set if the node has been deleted
// permanently.
type sharedNode struct {
	ID   drive.NodeID `json:"id"`
	Name string       `json:"name"`
	Type tree.Type    `json:"type"`
	Size int64        `json:"size"`
}

// showShare converts its argument to the shareView that replies contain. It does no I/O.
func showShare(c *call, v share.View) shareView {
	view := shareView{
		ID: v.ID, ExpiresAt: timeOrNull(v.ExpiresAt), MaxDownloads: v.MaxDownloads,
		Node:      sharedNode{v.Node, string(v.Item.Name), v.Item.Type, int64(v.Item.Size)},
		Downloads: v.Downloads, Views: v.Views, CreatedAt: v.CreatedAt, State: v.State,
	}
	if v.Token != "" {
		view.Token, view.URL = v.Token, c.baseURL()+"/s/"+v.Token
	}
	if v.NeedsCode() {
		view.Code = &v.Code
	}
	return view
}

// create serves POST /shares. It replies 201 with shareView. Beyond the errors common to all routes
// it fails with drive.NotFound, drive.Forbidden, drive.WrongState or drive.TooManyOpen. The reply
// has the link's secret token.
func (s shares) create(ctx context.Context, c *call, in *shareBody) (reply, error) {
	node, err := s.files.ParseNode(ctx, c.who, in.Node)
	if err != nil {
		return reply{}, err
	}
	life, err := linkLifetime(in.ExpiresIn)
	if err != nil {
		return reply{}, err
	}
	wish := share.Request{Node: node, Life: life, MaxDownloads: in.MaxDownloads}
	if in.Code != nil {
		wish.Code = *in.Code
	}
	return makeOnce(ctx, c, showShare, func(keep storeResponse[share.View]) (share.View, error) {
		return s.shares.Create(ctx, c.who, wish, keep)
	})
}

// Range of expires_in of links, in seconds.
const (
	minLinkLife = 60
	maxLinkLife = 10 * 365 * 24 * 60 * 60
)

// linkLifetime converts an expires_in of a link; nil gives 0, which means no end. It fails with
// drive.BadRequest.
func linkLifetime(n *int64) (time.Duration, error) {
	if n == nil {
		return 0, nil
	}
	return seconds("expires_in", *n, minLinkLife, maxLinkLife)
}

// list serves GET /shares. It replies 200 with files.Page[shareView]. Beyond the errors common to
// all routes it fails with drive.NotFound or drive.CursorInvalid.
func (s shares) list(ctx context.Context, c *call) (reply, error) {
	node, err := nodeOf(ctx, c, s.files, "node")
	if err != nil {
		return reply{}, err
	}
	return listPage(c, func(since drive.ShareID, limit int) ([]share.View, error) {
		return s.shares.List(ctx, c.who, share.Query{Node: node, After: since, Limit: limit})
	}, showShare, func(v shareView) string { return v.ID.String() })
}

// get serves GET /shares/{id}. It replies 200 with shareView. Beyond the errors common to all
// routes it fails with drive.NotFound.
func (s shares) get(ctx context.Context, c *call, id drive.ShareID) (reply, error) {
	return replyWith(c, showShare)(s.shares.Find(ctx, c.who, id))
}

// shareChangeBody is the JSON request body of PATCH /shares/{id}.
type shareChangeBody struct {
	Code         optional[string] `json:"code,omitempty" nullable:"true" doc:"as at its making; null: none from now on"`
	ExpiresIn    optional[int64]  `json:"expires_in,omitempty" nullable:"true" doc:"seconds from now on; null: for ever"`
	MaxDownloads optional[int64]  `json:"max_downloads,omitempty" nullable:"true" doc:"with those that were counted; null: any number"`
}

// patch serves PATCH /shares/{id}. It replies 200 with shareView. Beyond the errors common to all
// routes it fails with drive.NotFound. A new code, or none, ends the accesses given with the old
// one.
func (s shares) patch(ctx context.Context, c *call, id drive.ShareID, in *shareChangeBody) (reply, error) {
	var change share.Change
	if in.Code.given {
		change.Code = new(string)
		if in.Code.value != nil {
			change.Code = in.Code.value
		}
	}
	if in.ExpiresIn.given {
		life, err := linkLifetime(in.ExpiresIn.value)
		if err != nil {
			return reply{}, err
		}
		change.Life = &life
	}
	if in.MaxDownloads.given {
		change.MaxDownloads = &in.MaxDownloads.value
	}
	return replyWith(c, showShare)(s.shares.Change(ctx, c.who, id, change))
}

// remove serves DELETE /shares/{id}. It replies 204 without a body. Beyond the errors common to all
// routes it fails with drive.NotFound.
func (s shares) remove(ctx context.Context, c *call, id drive.ShareID) (reply, error) {
	return empty(s.shares.Delete(ctx, c.who, id))
}
