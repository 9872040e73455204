package rest

import (
	"context"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/files"
)

// changeRoutes returns the declarations of the change routes. It registers nothing.
func (n nodes) changeRoutes() []route {
	return []route{{
		id: "listChanges", method: "GET", path: "/changes", access: read, action: withoutBody(n.changes),
		query:    []param{{name: "after", doc: "`next` of the page before; absent: from the beginning"}, limitParam, spaceParam},
		summary:  "List the changes of the caller's tree, or that of a space, in the order of seq, for clients that keep a copy.",
		outcomes: []outcome{jsonOutcome[api.ChangePage](200, "a page; `more` says whether to ask again at once")},
		errors:   []drive.Kind{drive.NotFound, drive.Gone},
	}}
}

// changes serves GET /changes. It replies 200 with api.ChangePage. Beyond the errors common to
// all routes it fails with drive.NotFound or drive.Gone.
func (n nodes) changes(ctx context.Context, c *call) (reply, error) {
	page, err := n.files.Changes(ctx, c.who, c.query.Get(spaceParam.name), c.query.Get("after"), c.limit())
	return answer(api.ChangePage{Items: convert(page.Items, showChange), Next: page.Next, More: page.More}, err)
}

// showChange returns the wire form of an entry of the change feed.
func showChange(v files.ChangeView) api.Change {
	return api.Change{Seq: v.Seq, Node: nodeOrNil(v.Node), Deleted: textOrNil(v.Deleted), OutOfView: v.OutOfView, DeletedDigest: v.DeletedDigest}
}
