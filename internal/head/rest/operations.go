package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/usecase/bulk"
	"example.org/smartdrive/internal/usecase/files"
)

// operationsPath is a route path below prefix: /operations.
const operationsPath = "/operations"

// maxIDs is the longest JSON body with ids of items, in bytes: bulk.MaxItems ids of 39 bytes and
// the rest.
const maxIDs = int64(4 * drive.MiB)

// operations serves the routes for background operations on many nodes or shares.
type operations struct {
	bulk  *bulk.Bulk
	files *files.Files
}

// routes returns the declarations of the routes that operations serves. It registers nothing.
func (o operations) routes() []route {
	one := operationsPath + "/{id}"
	return []route{
		{
			id: "createOperation", method: "POST", path: operationsPath, access: write, action: withJSON(o.create), idempotent: true, createdPath: operationsPath, maxBody: maxIDs,
			summary:  "Trash, restore, delete for good, move or copy up to 100,000 files and folders, or end as many shares. It goes on in the background, a few items at a time; what is wrong with one item is no error of this request, but a failure of that item. A few items are dealt with before the answer.",
			outcomes: []outcome{jsonOutcome[api.Operation](201, "the operation; Location is where its progress is")},
			errors: []drive.Kind{
				drive.NotFound, drive.ParentGone, drive.TooLarge, drive.TooManyOpen,
			},
		}, {
			id: "listOperations", method: "GET", path: operationsPath, access: read, action: withoutBody(o.list), query: []param{limitParam, cursor},
			summary:  "List operations, the newest first: those that were asked for here.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Operation]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "getOperation", method: "GET", path: one, access: read, action: byID(o.get),
			summary:  "Show how far an operation is; for 7 days after its end.",
			outcomes: []outcome{jsonOutcome[api.Operation](200, "the operation")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "listOperationFailures", method: "GET", path: one + "/failures", access: read, action: byID(o.failures), query: []param{limitParam, cursor},
			summary:  "List the items that were refused, and why.",
			outcomes: []outcome{jsonOutcome[api.Page[api.OperationFailure]](200, "a page")}, errors: []drive.Kind{drive.NotFound, drive.CursorInvalid},
		}, {
			id: "cancelOperation", method: "POST", path: one + "/cancel", access: write, action: byID(o.cancel),
			summary:  "Stop an operation. What is done stays done. One that has ended stays as it is.",
			outcomes: []outcome{jsonOutcome[api.Operation](200, "the operation; it may run until the item in the middle is through")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "retryOperation", method: "POST", path: one + "/retry", access: write, action: byID(o.retry),
			summary:  "Try again what failed, and what a cancelled operation has not come to.",
			outcomes: []outcome{jsonOutcome[api.Operation](200, "the operation")}, errors: []drive.Kind{drive.NotFound, drive.WrongState, drive.TooManyOpen},
		}, {
			id: "undoOperation", method: "POST", path: one + "/undo", access: write, action: byID(o.undo), idempotent: true, createdPath: operationsPath,
			summary:  "Undo what an operation has done: what was trashed is restored, what was moved goes back, what was restored is trashed, copies are trashed. One that runs stops first. What somebody has changed since stays as it is, as a failure. Repeating it answers with the same operation.",
			outcomes: []outcome{jsonOutcome[api.Operation](201, "the operation that undoes it")},
			errors:   []drive.Kind{drive.NotFound, drive.WrongState, drive.TooManyOpen},
		},
	}
}

// bulkBody is the JSON request body of POST /operations.
type bulkBody struct {
	Kind     string        `json:"kind" enum:"trash,restore,delete,move,copy,unshare"`
	Nodes    idList        `json:"nodes,omitempty" doc:"ids of up to 100,000 files and folders; or all"`
	Shares   idList        `json:"shares,omitempty" doc:"for unshare: ids of shares; or all"`
	All      everything    `json:"all,omitzero" doc:"instead of ids: everything that matches now"`
	Except   idList        `json:"except,omitempty" doc:"with all: ids to exclude"`
	Parent   string        `json:"parent,omitempty" doc:"for move and copy: id of the target folder, or root; for restore: absent: the original folder"`
	Conflict conflictField `json:"conflict,omitempty" enum:"fail,rename,replace" doc:"for move, copy and restore: what happens if a name is taken; absent: fail, for restore rename"`

	TrashedUntil *drive.Time `json:"trashed_until,omitempty" doc:"for delete: only nodes trashed at this time or before, such as the newest trashed_at of a list; other nodes fail as version-changed, and all.trash skips them"`
}

// everything selects all nodes or shares; at most one member is set.
type everything struct {
	Folder string `json:"folder,omitempty" doc:"id of a folder, or root: all nodes in this folder"`
	Trash  bool   `json:"trash,omitempty" doc:"for restore and delete: all nodes in the trash"`
	Shares bool   `json:"shares,omitempty" doc:"for unshare: all shares"`
}

// idList is a list of ids that decodes id by id. Decoding 100,000 strings first would take about 10
// MiB more.
type idList []drive.NodeID

// UnmarshalJSON decodes an array of ids and appends them to l. It fails with drive.BadRequest for
// anything else.
func (l *idList) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	malformed := drive.Fail(drive.BadRequest, "reason", string(drive.Malformed), "expected", "an array of ids")
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return malformed
	}
	for d.More() {
		next, err := d.Token()
		text, ok := next.(string)
		if err != nil || !ok {
			return malformed
		}
		id, err := drive.ParseID[drive.NodeID](text)
		if err != nil {
			return malformed
		}
		*l = append(*l, id)
	}
	return nil
}

// create serves POST /operations. It replies 201 with api.Operation. Beyond the errors common to
// all routes it fails with drive.NotFound, drive.ParentGone, drive.TooLarge or drive.TooManyOpen.
func (o operations) create(ctx context.Context, c *call, in *bulkBody) (reply, error) {
	if in.TrashedUntil != nil && *in.TrashedUntil == 0 { // would count as absent
		return reply{}, drive.BadField("trashed_until", drive.Malformed, "expected", "an RFC 3339 time")
	}
	wish := bulk.Request{Kind: bulk.Kind(in.Kind), Items: in.Nodes, Except: in.Except, Conflict: drive.Conflict(in.Conflict), TrashedUntil: timeOf(in.TrashedUntil)}
	kinds := []bulk.Kind{bulk.Trash, bulk.Restore, bulk.Delete, bulk.Move, bulk.Copy, bulk.Unshare}
	if err := oneOf("kind", wish.Kind, kinds); err != nil {
		return reply{}, err
	}
	if wish.Kind == bulk.Unshare {
		wish.Items = in.Shares
	}
	if wish.Kind == bulk.Unshare && len(in.Nodes) > 0 {
		return reply{}, drive.BadField("nodes", drive.NotTogether, "with", "kind")
	}
	if wish.Kind != bulk.Unshare && len(in.Shares) > 0 {
		return reply{}, drive.BadField("shares", drive.NotTogether, "with", "kind")
	}
	var err error
	if in.Parent != "" {
		if wish.Parent, err = folderID(ctx, c, o.files, &in.Parent); err != nil {
			return reply{}, err
		}
	}
	if wish.All, err = o.all(ctx, c, in.All); err != nil {
		return reply{}, err
	}
	return makeOnce(ctx, c, showBulk, func(keep storeResponse[bulk.Operation]) (bulk.Operation, error) {
		return o.bulk.Create(ctx, c.who, wish, keep)
	})
}

// all converts the member "all" of a bulk request; the zero All if it is absent. It fails with
// drive.BadRequest if more than one of its members is set.
func (o operations) all(ctx context.Context, c *call, in everything) (all bulk.All, err error) {
	said := 0
	for _, some := range []bool{in.Folder != "", in.Trash, in.Shares} {
		if some {
			said++
		}
	}
	if said > 1 {
		return all, drive.BadField("all", drive.Malformed, "expected", "one member")
	}
	all = bulk.All{Trash: in.Trash, Shares: in.Shares}
	if in.Folder != "" {
		all.ChildrenOf, err = o.files.ParseNode(ctx, c.who, in.Folder)
	}
	return all, err
}

// oneOf fails with drive.BadRequest unless sent is one of the allowed values.
func oneOf[T ~string](field string, sent T, allowed []T) error {
	if slices.Contains(allowed, sent) {
		return nil
	}
	return drive.BadField(field, drive.NotAllowed, "allowed", allowed, "sent", clip(string(sent)))
}

// list serves GET /operations. It replies 200 with api.Page[api.Operation]. Beyond the errors
// common to all routes it fails with drive.CursorInvalid.
func (o operations) list(ctx context.Context, c *call) (reply, error) {
	return listPage(c, func(after drive.OperationID, limit int) ([]bulk.Operation, error) {
		return o.bulk.List(ctx, c.who, after, limit)
	}, showBulk, func(v api.Operation) string { return v.ID })
}

// get serves GET /operations/{id}. It replies 200 with api.Operation. Beyond the errors common to
// all routes it fails with drive.NotFound.
func (o operations) get(ctx context.Context, c *call, id drive.OperationID) (reply, error) {
	return replyWith(c, showBulk)(o.bulk.Get(ctx, c.who, id))
}

// cancel serves POST /operations/{id}/cancel. It replies 200 with api.Operation. Beyond the errors
// common to all routes it fails with drive.NotFound. Items already processed stay changed.
func (o operations) cancel(ctx context.Context, c *call, id drive.OperationID) (reply, error) {
	return replyWith(c, showBulk)(o.bulk.Cancel(ctx, c.who, id))
}

// retry serves POST /operations/{id}/retry. It replies 200 with api.Operation. Beyond the errors
// common to all routes it fails with drive.NotFound, drive.WrongState or drive.TooManyOpen.
func (o operations) retry(ctx context.Context, c *call, id drive.OperationID) (reply, error) {
	return replyWith(c, showBulk)(o.bulk.Retry(ctx, c.who, id))
}

// undo serves POST /operations/{id}/undo. It replies 201 with api.Operation. Beyond the errors
// common to all routes it fails with drive.NotFound, drive.WrongState or drive.TooManyOpen.
func (o operations) undo(ctx context.Context, c *call, id drive.OperationID) (reply, error) {
	return makeOnce(ctx, c, showBulk, func(keep storeResponse[bulk.Operation]) (bulk.Operation, error) {
		return o.bulk.Undo(ctx, c.who, id, keep)
	})
}

// showBulk returns the wire form of an operation.
func showBulk(_ *call, o bulk.Operation) api.Operation {
	return api.Operation{
		ID: o.ID.String(), Kind: api.OperationKind(o.Kind), State: string(o.State), Done: o.Done, Failed: o.Failed, Total: o.Total,
		Error: api.Code(o.Error), Parent: textOrNil(o.Parent), Undoable: o.Undoable, Undoes: textOrNil(o.Undoes), UndoneBy: textOrNil(o.UndoneBy),
		CreatedAt: showTime(o.CreatedAt), UpdatedAt: showTime(o.UpdatedAt),
	}
}

// failures serves GET /operations/{id}/failures. It replies 200 with
// api.Page[api.OperationFailure]. Beyond the errors common to all routes it fails with
// drive.NotFound or drive.CursorInvalid.
func (o operations) failures(ctx context.Context, c *call, id drive.OperationID) (reply, error) {
	found, next, err := o.bulk.Failures(ctx, c.who, id, c.query.Get(cursor.name), c.limit())
	if err != nil {
		return reply{}, err
	}
	lang := problem.Negotiate(c.r.Header.Get("Accept-Language"))
	page := api.Page[api.OperationFailure]{Items: make([]api.OperationFailure, len(found))}
	for i, f := range found {
		page.Items[i] = api.OperationFailure{
			ID: f.ID.String(), Name: string(f.Name), Path: f.Path, Type: api.NodeType(f.Type), Code: api.Code(f.Code), Title: titleOf(f.Code, lang),
		}
	}
	if next != "" {
		page.NextCursor = &next
	}
	return reply{status: http.StatusOK, body: page}, nil
}

// titleOf returns the title of a problem code in lang, or the code itself if it is unknown.
func titleOf(code string, lang problem.Lang) string {
	for _, k := range drive.Kinds() {
		if k.String() == code {
			return problem.From(drive.Fail(k), lang, "").Title
		}
	}
	return code
}
