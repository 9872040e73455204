package rest

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/handover"
)

// handovers serves the routes by which administrators transfer the files of a leaving user to
// another user or a space.
type handovers struct{ handovers *handover.Handovers }

// routes returns the declarations of the routes that handovers serves. It registers nothing.
func (h handovers) routes() []route {
	path := usersPath + "/{id}/handover"
	return []route{
		{
			id: "startHandover", method: "POST", path: path, access: admins, action: byIDWithJSON(h.begin), idempotent: true,
			summary:  "Give all files of a user who leaves to another user or to a space, into a new folder there, charged to the receiver: in the background, and through restarts. The user is disabled, sign-ins and tokens are ended, links that the user gave out are ended, uploads are cancelled. What was shared by name stays shared. Files keep their ids, versions and dates, those in the trash too; folders get new ids. It is refused with `quota` before anything changes when the receiver has no room for it. Repeating it while it runs answers with what runs.",
			outcomes: []outcome{jsonOutcome[handoverView](201, "it has begun")},
			errors:   []drive.Kind{drive.NotFound, drive.Quota, drive.TooLarge, drive.WrongState},
		}, {
			id: "getHandover", method: "GET", path: path, access: admins, action: byID(h.get),
			summary:  "Show how far the files of a user have been given to somebody else; for 7 days after the end.",
			outcomes: []outcome{jsonOutcome[handoverView](200, "the one that was begun last")}, errors: []drive.Kind{drive.NotFound},
		},
	}
}

// handoverBody is the JSON request body of POST /admin/users/{id}/handover.
type handoverBody struct {
	ToUser  drive.UserID    `json:"to_user,omitzero" doc:"id of the receiving user; or to_space"`
	ToSpace drive.AccountID `json:"to_space,omitzero" doc:"id of the receiving space"`
	Folder  string          `json:"folder,omitempty" doc:"name of the new folder that receives the files; absent: Files of NAME; a number is added if it is taken"`
}

// handoverView is the JSON in replies to POST /admin/users/{id}/handover, GET
// /admin/users/{id}/handover.
type handoverView struct {
	ID       drive.OperationID    `json:"id" doc:"id of the operation"`
	State    files.OperationState `json:"state" enum:"running,done,failed"`
	Done     int64                `json:"done" doc:"number of files and folders moved"`
	Total    int64                `json:"total" doc:"number of all files and folders, as far as known"`
	WaitsFor string               `json:"waits_for" doc:"quota: the receiver has no room for the next files, and it goes on when there is; too-large: the receiver has as many files, or old versions, as there may be; in-progress: something in the drive is being deleted or copied; empty: it does not wait"`
	UserID   drive.UserID         `json:"user_id" doc:"id of the former owner"`
	To       string               `json:"to" doc:"name of the receiving user or space"`
	ToSpace  bool                 `json:"to_space" doc:"true: the receiver is a space"`
	FolderID drive.NodeID         `json:"folder_id" doc:"id of the folder that receives the files"`
}

// showHandover converts its argument to the handoverView that replies contain. It does no I/O.
func showHandover(_ *call, v handover.View) handoverView {
	o := v.Operation
	return handoverView{o.ID, o.State, o.Done, o.Total, v.Waits, v.User, v.To, v.ToSpace, v.Folder}
}

// begin serves POST /admin/users/{id}/handover. It replies 201 with handoverView. Beyond the errors
// common to all routes it fails with drive.NotFound, drive.Quota, drive.TooLarge or
// drive.WrongState. The handover runs in the background; a repeated request answers with the
// running one.
func (h handovers) begin(ctx context.Context, c *call, id drive.UserID, in *handoverBody) (reply, error) {
	req := handover.Request{User: id, Receiver: in.ToUser, Space: in.ToSpace}
	if in.Folder != "" {
		name, err := drive.ParseName(in.Folder)
		if err != nil {
			return reply{}, err
		}
		req.Folder = name
	}
	return makeOnce(ctx, c, showHandover, func(keep storeResponse[handover.View]) (handover.View, error) {
		return h.handovers.Begin(ctx, c.who, req, keep)
	})
}

// get serves GET /admin/users/{id}/handover. It replies 200 with handoverView. Beyond the errors
// common to all routes it fails with drive.NotFound.
func (h handovers) get(ctx context.Context, c *call, id drive.UserID) (reply, error) {
	return replyWith(c, showHandover)(h.handovers.Find(ctx, c.who, id))
}
