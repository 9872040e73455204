package rest

import (
	"context"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
)

// adminRoutes returns the declarations of the admin routes. It registers nothing.
func (u uploads) adminRoutes() []route {
	return []route{
		{
			id: "listAllUploads", method: "GET", path: "/admin/uploads", access: admins, action: withoutBody(u.listAll),
			query:    []param{{name: "account", doc: "only those of the account with this id"}, limitParam, cursor},
			summary:  "List the open uploads of all accounts, the oldest first.",
			outcomes: []outcome{jsonOutcome[api.Page[api.AdminUpload]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "resetUploads", method: "POST", path: "/admin/uploads/reset", access: admins, action: withJSON(u.reset),
			summary:  "Cancel all open uploads of an account, or with null of all accounts, and give back what was charged for them: the maintenance reset.",
			outcomes: []outcome{jsonOutcome[resetView](200, "how many there were")}, errors: []drive.Kind{drive.NotFound},
		},
	}
}

// listAll serves GET /admin/uploads. It replies 200 with api.Page[api.AdminUpload]. Beyond the
// errors common to all routes it fails with drive.CursorInvalid.
func (u uploads) listAll(ctx context.Context, c *call) (reply, error) {
	since, err := after[drive.UploadID](c)
	if err != nil {
		return reply{}, err
	}
	q := upload.ListQuery{After: since, Limit: c.limit() + 1, Open: true}
	if text := c.query.Get("account"); text != "" {
		if q.Account, err = drive.ParseID[drive.AccountID](text); err != nil {
			return reply{}, drive.Wrap(err, drive.BadRequest, "field", "account", "reason", string(drive.Malformed), "expected", "an id")
		}
	}
	views, err := u.sessions.List(ctx, q)
	if err != nil {
		return reply{}, err
	}
	return ok(newPageOf(c, views, showOwnedUpload, func(v api.AdminUpload) string { return v.ID }))
}

// resetBody is the JSON request body of POST /admin/uploads/reset.
type resetBody struct {
	AccountID *drive.AccountID `json:"account_id" nullable:"true" doc:"null: all accounts"`
}

// resetView is the JSON in replies to POST /admin/uploads/reset.
type resetView struct {
	Reset int `json:"reset"`
}

// showOwnedUpload returns the wire form of an upload for administrators.
func showOwnedUpload(c *call, v upload.View) api.AdminUpload {
	row := v.Row()
	return api.AdminUpload{
		Upload: showUpload(c, v), AccountID: row.Account.String(), UserID: row.User.String(), Held: int64(row.Held),
		CreatedAt: showTime(row.Created), LastActive: showTime(row.Active),
	}
}

// reset serves POST /admin/uploads/reset. It replies 200 with resetView. Beyond the errors common
// to all routes it fails with drive.NotFound. It cancels the open uploads of one account, or with
// null of all, and releases their bytes.
func (u uploads) reset(ctx context.Context, _ *call, in *resetBody) (reply, error) {
	var account drive.AccountID
	if in.AccountID != nil {
		account = *in.AccountID
	}
	n, err := u.sessions.ReclaimAll(ctx, account)
	return answer(resetView{n}, err)
}
