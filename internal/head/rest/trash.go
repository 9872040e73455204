package rest

import (
	"context"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
)

// trashRoutes returns the declarations of the trash routes. It registers nothing.
func (n nodes) trashRoutes() []route {
	return []route{
		{
			id: "listTrash", method: "GET", path: "/trash", access: read, action: withoutBody(n.trash), query: []param{limitParam, cursor, spaceParam},
			summary:  "List what was put into the trash, the newest first.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Node]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid, drive.NotFound, drive.Forbidden},
		}, {
			id: "emptyTrash", method: "DELETE", path: "/trash", access: write, action: withoutBody(n.emptyTrash), query: []param{spaceParam},
			summary: "Delete for good what is in the trash at this moment.",
			outcomes: []outcome{
				emptyOutcome(204, "done"), jsonOutcome[api.SubtreeOperation](202, "what touches over 1,000 nodes goes on: see Location"),
			},
			errors: []drive.Kind{drive.NotFound, drive.Forbidden},
		},
	}
}

// trash serves GET /trash. It replies 200 with api.Page[api.Node]. Beyond the errors common
// to all routes it fails with drive.CursorInvalid, drive.NotFound or drive.Forbidden.
func (n nodes) trash(ctx context.Context, c *call) (reply, error) {
	return showPage(showNode)(n.files.ListTrash(ctx, c.who, c.query.Get(spaceParam.name), tree.List{Limit: c.limit(), Cursor: c.query.Get(cursor.name)}))
}

// emptyTrash serves DELETE /trash. It replies 204 without a body or 202 with api.SubtreeOperation.
// Beyond the errors common to all routes it fails with drive.NotFound or drive.Forbidden. It
// deletes for good; more than 1,000 nodes continue in the background with a 202.
func (n nodes) emptyTrash(ctx context.Context, c *call) (reply, error) {
	return operationReply(n.files.EmptyTrash(ctx, c.who, c.query.Get(spaceParam.name)))
}
