package rest

import (
	"context"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/history"
)

// happened is what was done, to those who may see it.
type happened struct{ history *history.History }

func (h happened) routes() []route {
	return []route{{
		method: "GET", path: "/activity", need: read, act: plain(h.list),
		query: []param{
			{name: "node", says: "only what was done to the file or folder with this id, and to what lies in it directly"},
			spaceParam,
			{name: "type", says: "only entries of these types, separated by commas: `node.moved`, or `node` for all that begin with it; absent: all but `upload` and `notice`"},
			limitParam, cursor,
		},
		does: "List what happened, the newest first: in the caller's own drive, in a space, or at a node. The owner of a drive and the managers " +
			"of a space see all of it; everybody else sees what was done to nodes that they see. A page may be short, or empty, while there is a next one.",
		out:   []outcome{gives[files.Page[history.Happened]](200, "a page")},
		fails: []drive.Kind{drive.NotFound, drive.CursorInvalid},
	}, {
		method: "GET", path: usersPath + "/{id}/activity", need: admins, act: byID(h.ofUser),
		query: []param{
			{name: "type", says: "only entries of these types, separated by commas; absent: all of the types that are listed here"},
			limitParam, cursor,
		},
		does: "List what happened to a user's account, the newest first: `login`, `token`, `password`, and `setting` for settings of the server that the user has changed. " +
			"What the user does with files is not shown. A page may be short, or empty, while there is a next one.",
		out:   []outcome{gives[files.Page[history.Happened]](200, "a page")},
		fails: []drive.Kind{drive.NotFound, drive.CursorInvalid},
	}}
}

func (h happened) list(ctx context.Context, c *call) (reply, error) {
	in := history.Query{Place: c.query.Get(spaceParam.name), Cursor: c.query.Get(cursor.name), Limit: c.limit()}
	if text := c.query.Get("node"); text != "" {
		id, err := drive.ParseID[drive.NodeID](text)
		if err != nil {
			return reply{}, err
		}
		in.Node = id
	}
	in.Types = c.types()
	page, err := h.history.List(ctx, c.who, in)
	return answer(files.Page[history.Happened](page), err)
}

func (h happened) ofUser(ctx context.Context, c *call, id drive.UserID) (reply, error) {
	page, err := h.history.Of(ctx, c.who, id, history.Query{Types: c.types(), Cursor: c.query.Get(cursor.name), Limit: c.limit()})
	return answer(files.Page[history.Happened](page), err)
}

// types are those of entries that are asked for; none: nothing was said.
func (c *call) types() []string {
	if text := c.query.Get("type"); text != "" {
		return strings.Split(text, ",")
	}
	return nil
}
