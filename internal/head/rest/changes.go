package rest

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/usecase/files"
)

func (n nodes) changeRoutes() []route {
	return []route{{
		method: "GET", path: "/changes", need: read, act: plain(n.changes),
		query: []param{{name: "after", says: "`next` of the page before; absent: from the beginning"}, limitParam, spaceParam},
		does:  "List the changes of the caller's tree, or that of a space, in the order of seq, for clients that keep a copy.",
		out:   []outcome{gives[files.ChangePage](200, "a page; `more` says whether to ask again at once")},
		fails: []drive.Kind{drive.NotFound, drive.Gone},
	}}
}

func (n nodes) changes(ctx context.Context, c *call) (reply, error) {
	return answer(n.files.Changes(ctx, c.who, c.query.Get(spaceParam.name), c.query.Get("after"), c.limit()))
}
