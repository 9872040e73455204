package rest

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/usecase/files"
)

func (n nodes) trashRoutes() []route {
	return []route{
		{
			method: "GET", path: "/trash", need: read, act: plain(n.trash), query: []param{limitParam, cursor, spaceParam},
			does: "List what was put into the trash, the newest first.",
			out:  []outcome{gives[files.Page[files.NodeView]](200, "a page")}, fails: []drive.Kind{drive.CursorInvalid, drive.NotFound, drive.Forbidden},
		}, {
			method: "DELETE", path: "/trash", need: write, act: plain(n.emptyTrash), query: []param{spaceParam},
			does: "Delete for good what is in the trash at this moment.",
			out: []outcome{
				nothing(204, "done"), gives[files.Operation](202, "what touches over 1,000 nodes goes on: see Location"),
			},
			fails: []drive.Kind{drive.NotFound, drive.Forbidden},
		},
	}
}

func (n nodes) trash(ctx context.Context, c *call) (reply, error) {
	return answer(n.files.ListTrash(ctx, c.who, c.query.Get(spaceParam.name), tree.List{Limit: c.limit(), Cursor: c.query.Get(cursor.name)}))
}

func (n nodes) emptyTrash(ctx context.Context, c *call) (reply, error) {
	return operationReply(n.files.EmptyTrash(ctx, c.who, c.query.Get(spaceParam.name)))
}
