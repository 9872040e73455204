package rest

import (
	"context"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/files"
)

// starRoutes serves a user's starred nodes and recently changed files.
type starRoutes struct {
	files *files.Files
	shelf *files.QuickAccess
}

// routes returns the declarations of the routes that starRoutes serves. It registers nothing.
func (s starRoutes) routes() []route {
	one := nodesPath + "/{id}/star"
	return []route{
		{
			id: "starNode", method: "PUT", path: one, access: write, action: byNode(s.files, s.star),
			summary:  "Star a file or folder. A star is the user's own mark and gives no right. Repeating it changes nothing.",
			outcomes: []outcome{emptyOutcome(204, "it is starred")}, errors: []drive.Kind{drive.NotFound, drive.TooManyOpen},
		}, {
			id: "unstarNode", method: "DELETE", path: one, access: write, action: byNode(s.files, s.unstar),
			summary:  "Take a star away. Repeating it is not an error.",
			outcomes: []outcome{emptyOutcome(204, "it is not starred")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "listStarred", method: "GET", path: "/starred", access: read, action: withoutBody(s.starred),
			query:    []param{limitParam, cursor},
			summary:  "List what the user has starred, the newest star first. What is in the trash is left out until it is restored. A page may be short, or empty, and yet have a next one.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Node]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "listStarredIds", method: "GET", path: "/starred/ids", access: read, action: withoutBody(s.ids),
			summary:  "List the ids of all that the user has starred: at most 1,000, the newest star first.",
			outcomes: []outcome{jsonOutcome[starredIDs](200, "the ids")},
		}, {
			id: "listRecent", method: "GET", path: "/recent", access: read, action: withoutBody(s.recent),
			query:    []param{limitParam, cursor},
			summary:  "List the files of the user's own drive by their last change, the newest first. A page may be short, or empty, and yet have a next one.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Node]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		},
	}
}

// starredIDs is the JSON in replies to GET /starred/ids.
type starredIDs struct {
	Items []drive.NodeID `json:"items"`
}

// star serves PUT /nodes/{id}/star. It replies 204 without a body. Beyond the errors common to all
// routes it fails with drive.NotFound or drive.TooManyOpen.
func (s starRoutes) star(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	return empty(s.shelf.Star(ctx, c.who, id))
}

// unstar serves DELETE /nodes/{id}/star. It replies 204 without a body. Beyond the errors common to
// all routes it fails with drive.NotFound.
func (s starRoutes) unstar(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	return empty(s.shelf.Unstar(ctx, c.who, id))
}

// starred serves GET /starred. It replies 200 with api.Page[api.Node]. Beyond the errors
// common to all routes it fails with drive.CursorInvalid.
func (s starRoutes) starred(ctx context.Context, c *call) (reply, error) {
	return showPage(showNode)(s.shelf.Starred(ctx, c.who, c.query.Get(cursor.name), c.limit()))
}

// ids serves GET /starred/ids. It replies 200 with the ids of all nodes that the user has starred,
// newest first.
func (s starRoutes) ids(ctx context.Context, c *call) (reply, error) {
	ids, err := s.shelf.StarredIDs(ctx, c.who)
	return answer(starredIDs{ids}, err)
}

// recent serves GET /recent. It replies 200 with api.Page[api.Node]. Beyond the errors
// common to all routes it fails with drive.CursorInvalid.
func (s starRoutes) recent(ctx context.Context, c *call) (reply, error) {
	return showPage(showNode)(s.shelf.Recent(ctx, c.who, c.query.Get(cursor.name), c.limit()))
}
