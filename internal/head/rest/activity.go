package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/history"
)

// activityRoutes serves the activity log: lists and exports of what was done to nodes and accounts.
type activityRoutes struct {
	history   *history.History
	exporting *server.Limiter[drive.UserID] // limits concurrent exports per user; an export reads the whole log
}

// maxActivityExports bounds the concurrent activity exports of one user. Each keeps a processor and
// the database busy for as long as it lasts.
const maxActivityExports = 2

// routes returns the declarations of the routes that activityRoutes serves. It registers nothing.
func (a activityRoutes) routes() []route {
	return []route{{
		id: "listActivity", method: "GET", path: "/activity", access: read, action: withoutBody(a.list),
		query: []param{
			{name: "node", doc: "only what was done to the file or folder with this id, and to what lies in it directly"},
			spaceParam,
			{name: "type", doc: "only entries of these types, separated by commas: `node.moved`, or `node` for all that begin with it; absent: all but `upload`, `download` and `notice`"},
			limitParam, cursor,
		},
		summary: "List what happened, the newest first: in the caller's own drive, in a space, or at a node. The owner of a drive and the managers " +
			"of a space see all of it; everybody else sees what was done to nodes that they see. A page may be short, or empty, while there is a next one.",
		outcomes: []outcome{jsonOutcome[api.Page[history.Entry]](200, "a page")},
		errors:   []drive.Kind{drive.NotFound, drive.CursorInvalid},
	}, {
		id: "listUserActivity", method: "GET", path: usersPath + "/{id}/activity", access: admins, action: byID(a.ofUser),
		query: []param{
			{name: "type", doc: "only entries of these types, separated by commas; absent: all of the types that are listed here"},
			limitParam, cursor,
		},
		summary: "List what happened to a user's account, the newest first: `login`, `token`, `identity`, `password`, and `setting` for settings of the server that the user has changed. " +
			"What the user does with files is not shown. A page may be short, or empty, while there is a next one.",
		outcomes: []outcome{jsonOutcome[api.Page[history.Entry]](200, "a page")},
		errors:   []drive.Kind{drive.NotFound, drive.CursorInvalid},
	}, {
		id: "exportActivity", method: "GET", path: "/activity/export", access: read, action: withoutBody(a.export),
		query: []param{
			{name: "node", doc: "only what was done to the file or folder with this id, and to what lies in it directly"},
			spaceParam, typesParam, afterParam,
		},
		summary:  "Get all that `GET /activity` lists, the oldest first, as JSON lines. " + exportNote,
		outcomes: []outcome{{status: 200, body: reflect.TypeFor[history.Entry](), jsonLines: true, description: "the entries, a line each"}},
		errors:   []drive.Kind{drive.NotFound, drive.CursorInvalid, drive.Gone},
	}, {
		id: "exportUserActivity", method: "GET", path: usersPath + "/{id}/activity/export", access: admins, action: byID(a.exportUser),
		query:    []param{typesParam, afterParam},
		summary:  "Get all that `GET /admin/users/{id}/activity` lists, the oldest first, as JSON lines. " + exportNote,
		outcomes: []outcome{{status: 200, body: reflect.TypeFor[history.Entry](), jsonLines: true, description: "the entries, a line each"}},
		errors:   []drive.Kind{drive.NotFound, drive.CursorInvalid, drive.Gone},
	}, {
		id: "exportAllUserActivity", method: "GET", path: "/admin/activity/export", access: admins, action: withoutBody(a.exportAll),
		query: []param{typesParam, afterParam},
		summary: "Get what happened to the accounts of all users, `login`, `token`, `identity`, `password` and `setting`, the oldest first, as JSON lines: `account_id` says to whose. " +
			"With MySQL the last minute is not among it. " + exportNote,
		outcomes: []outcome{{status: 200, body: reflect.TypeFor[history.Entry](), jsonLines: true, description: "the entries, a line each"}},
		errors:   []drive.Kind{drive.CursorInvalid, drive.Gone},
	}}
}

var (
	// typesParam declares the query parameter "type".
	typesParam = param{name: "type", doc: "only entries of these types, separated by commas; absent: all that the list without it has"}
	// afterParam declares the query parameter "after".
	afterParam = param{name: "after", doc: "`id` of an entry of an earlier export: only those that came after it"}
)

// exportNote ends the description of every export route.
const exportNote = "What cannot be read to its end is cut off, and never ends like a whole one; go on with `after` and the `id` of the last whole line. " +
	"`gone` says that entries after that one may have been deleted because of their age."

// list serves GET /activity. It replies 200 with api.Page[history.Entry]. Beyond the errors
// common to all routes it fails with drive.NotFound or drive.CursorInvalid. Without "node" and
// "space" the entries are those of the caller's own drive.
func (a activityRoutes) list(ctx context.Context, c *call) (reply, error) {
	in := history.Query{Place: c.query.Get(spaceParam.name), Cursor: c.query.Get(cursor.name), Limit: c.limit()}
	if text := c.query.Get("node"); text != "" {
		id, err := drive.ParseID[drive.NodeID](text)
		if err != nil {
			return reply{}, err
		}
		in.Node = id
	}
	in.Types = c.types()
	page, err := a.history.List(ctx, c.who, in)
	return answer(api.Page[history.Entry](page), err)
}

// ofUser serves GET /admin/users/{id}/activity. It replies 200 with api.Page[history.Entry].
// Beyond the errors common to all routes it fails with drive.NotFound or drive.CursorInvalid.
func (a activityRoutes) ofUser(ctx context.Context, c *call, id drive.UserID) (reply, error) {
	page, err := a.history.ListSecurity(ctx, c.who, id, history.Query{Types: c.types(), Cursor: c.query.Get(cursor.name), Limit: c.limit()})
	return answer(api.Page[history.Entry](page), err)
}

// export serves GET /activity/export. Beyond the errors common to all routes it fails with
// drive.NotFound, drive.CursorInvalid or drive.Gone. Entries are streamed as JSON lines, so a
// failure after the first one breaks the connection.
func (a activityRoutes) export(ctx context.Context, c *call) (reply, error) {
	in := history.Query{Place: c.query.Get(spaceParam.name), Types: c.types()}
	if text := c.query.Get("node"); text != "" {
		id, err := drive.ParseID[drive.NodeID](text)
		if err != nil {
			return reply{}, err
		}
		in.Node = id
	}
	return a.send(ctx, c, func() (*history.Export, error) {
		return a.history.Export(ctx, c.who, in, c.query.Get(afterParam.name))
	})
}

// exportUser serves GET /admin/users/{id}/activity/export. Beyond the errors common to all routes
// it fails with drive.NotFound, drive.CursorInvalid or drive.Gone.
func (a activityRoutes) exportUser(ctx context.Context, c *call, id drive.UserID) (reply, error) {
	return a.send(ctx, c, func() (*history.Export, error) {
		return a.history.ExportSecurity(ctx, c.who, id, history.Query{Types: c.types()}, c.query.Get(afterParam.name))
	})
}

// exportAll serves GET /admin/activity/export. Beyond the errors common to all routes it fails with
// drive.CursorInvalid or drive.Gone.
func (a activityRoutes) exportAll(ctx context.Context, c *call) (reply, error) {
	return a.send(ctx, c, func() (*history.Export, error) {
		return a.history.ExportAllSecurity(ctx, c.who, history.Query{Types: c.types()}, c.query.Get(afterParam.name))
	})
}

// send streams an export as JSON lines. It reads the first page before it writes the response
// header, so that a faulty request is answered with an error. A failure after the header aborts the
// connection with a panic of http.ErrAbortHandler.
func (a activityRoutes) send(ctx context.Context, c *call, begin func() (*history.Export, error)) (reply, error) {
	release, err := a.exporting.Acquire(c.limitKey())
	if err != nil {
		return reply{}, err
	}
	defer release()
	e, err := begin()
	if err != nil {
		return reply{}, err
	}
	items, more, err := e.Next(ctx)
	if err != nil {
		return reply{}, err
	}
	head := c.w.Header()
	head.Set("Content-Type", ndjson)
	head.Set("Content-Disposition", disposition("activity.ndjson", false))
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "private, no-store")
	c.w.WriteHeader(http.StatusOK)
	to := bufio.NewWriter(c.w)
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	for {
		for _, it := range items {
			if err == nil {
				err = enc.Encode(it)
			}
		}
		if !more || err != nil {
			break
		}
		items, more, err = e.Next(ctx)
	}
	if err = errors.Join(err, to.Flush()); err != nil {
		panic(http.ErrAbortHandler)
	}
	return reply{}, nil
}

// types returns the entry types of the query parameter "type"; nil if the parameter is absent.
func (c *call) types() []string {
	if text := c.query.Get("type"); text != "" {
		return strings.Split(text, ",")
	}
	return nil
}
