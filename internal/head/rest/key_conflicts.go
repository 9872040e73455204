package rest

import (
	"context"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
)

// keyConflicts serves the routes for refused creations whose idempotency key had been used for
// another request.
type keyConflicts struct{ conflicts *idem.Conflicts }

// routes returns the declarations of the routes that keyConflicts serves. It registers nothing.
func (k keyConflicts) routes() []route {
	const path = "/key-conflicts"
	return []route{
		{
			id: "listKeyConflicts", method: "GET", path: path, access: read, action: withoutBody(k.list), query: []param{limitParam, cursor},
			summary:  "List the caller's creations that were refused because their Idempotency-Key had been used for another request, the oldest first: up to 1,000, for 90 days after the last refusal.",
			outcomes: []outcome{jsonOutcome[api.Page[api.KeyConflict]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "deleteKeyConflict", method: "DELETE", path: path + "/{id}", access: write, action: byID(k.settle),
			summary:  "Settle such a conflict: it leaves the list. Nothing is created; what was meant is requested under a key of its own.",
			outcomes: []outcome{emptyOutcome(204, "it is settled")}, errors: []drive.Kind{drive.NotFound},
		},
	}
}

// list serves GET /key-conflicts. It replies 200 with api.Page[api.KeyConflict]. Beyond the errors
// common to all routes it fails with drive.CursorInvalid.
func (k keyConflicts) list(ctx context.Context, c *call) (reply, error) {
	all, next, err := k.conflicts.List(ctx, c.keyUser(), c.query.Get(cursor.name), c.limit())
	page := api.Page[api.KeyConflict]{Items: convert(all, showKeyConflict)}
	if next != "" {
		page.NextCursor = &next
	}
	return answer(page, err)
}

// showKeyConflict returns the wire form of a refused creation.
func showKeyConflict(v idem.Conflict) api.KeyConflict {
	return api.KeyConflict{
		ID: v.ID.String(), Method: v.Method, Route: v.Route, Key: v.Key, Request: v.Request, Times: v.Times,
		FirstAt: showTime(v.FirstAt), LastAt: showTime(v.LastAt),
	}
}

// settle serves DELETE /key-conflicts/{id}. It replies 204 without a body. Beyond the errors common
// to all routes it fails with drive.NotFound.
func (k keyConflicts) settle(ctx context.Context, c *call, id drive.ConflictID) (reply, error) {
	return empty(k.conflicts.Resolve(ctx, c.keyUser(), id))
}

// recordConflict records a creation that was refused with KeyReused in the caller's list. If
// recording fails, it returns that error instead of the refusal, so that the client repeats the
// request.
func (c *call) recordConflict(ctx context.Context, err error) error {
	if c.Conflicts == nil || c.key.IsZero() || !drive.IsKind(err, drive.KeyReused) {
		return err
	}
	if failed := c.Conflicts.Record(ctx, c.request(), c.body); failed != nil {
		return failed
	}
	return err
}
