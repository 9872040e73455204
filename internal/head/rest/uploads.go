package rest

import (
	"context"
	"encoding/hex"
	"net/http"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/collect"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload"
)

// uploadsPath is a route path below prefix: /uploads.
const uploadsPath = "/uploads"

// uploads serves uploads, by parts or in one request.
type uploads struct {
	sessions *upload.Sessions
	files    *files.Files
	db       *sqldb.DB // for rendering the resulting nodes
	links    *collect.Links
}

// routes returns the declarations of the routes that uploads serves. It registers nothing.
func (u uploads) routes() []route {
	one := uploadsPath + "/{id}"
	return []route{
		{
			id: "createUpload", method: "POST", path: uploadsPath, access: write, probesContent: true, senders: true, action: withJSON(u.begin), idempotent: true, createdPath: uploadsPath,
			summary: "Begin an upload, find the open one that matches, or link content that is there already.",
			outcomes: []outcome{
				jsonOutcome[api.Upload](201, "it is begun; with a `challenge` where a proof would spare the sending: for content of 1 MiB to `--instant-max`, once a day"),
				jsonOutcome[api.Upload](200, "an open one matches, or content that the account owns was linked (`state: done`)"),
			},
			errors: []drive.Kind{drive.BadName, drive.NotFound, drive.NameTaken, drive.ParentGone, drive.TooLarge, drive.TooManyOpen, drive.Quota, drive.DiskFull},
		}, {
			id: "listUploads", method: "GET", path: uploadsPath, access: read, senders: true, action: withoutBody(u.list), query: []param{limitParam, cursor, spaceParam},
			summary:  "List the open uploads, the oldest first; of a space those that the caller has begun. `received` is empty in the list.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Upload]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid, drive.NotFound},
		}, {
			id: "getUpload", method: "GET", path: one, access: read, senders: true, action: u.byID(u.get),
			summary:  "Show an upload; a done one, with its node, for 7 days.",
			outcomes: []outcome{jsonOutcome[api.Upload](200, "the upload")}, errors: []drive.Kind{drive.NotFound, drive.Gone},
		}, {
			id: "updateUpload", method: "PATCH", path: one, access: write, probesContent: true, senders: true, action: byUploadWithJSON(u, u.patch),
			summary:  "Claim digests in the middle, or choose another place.",
			outcomes: []outcome{jsonOutcome[api.Upload](200, "the upload, with a `challenge`, or done with its node")},
			errors: []drive.Kind{
				drive.BadName, drive.NotFound, drive.Gone, drive.WrongState, drive.NameTaken, drive.ParentGone, drive.Quota, drive.InProgress,
			},
		}, {
			id: "deleteUpload", method: "DELETE", path: one, access: write, senders: true, action: u.byID(u.cancel),
			summary:  "Cancel an upload and delete what has arrived.",
			outcomes: []outcome{emptyOutcome(204, "it is gone")}, errors: []drive.Kind{drive.NotFound, drive.WrongState, drive.InProgress},
		}, {
			id: "proveUploadContent", method: "POST", path: one + "/proof", access: write, probesContent: true, action: byUploadWithJSON(u, u.prove), createdPath: nodesPath,
			summary: "Answer the challenge: the keyed hash, with the nonce as key, over `uint64le(offset) | uint32le(length) | bytes` of each range in order.",
			outcomes: []outcome{
				jsonOutcome[api.Upload](201, "the content is linked: `state: done`"),
				jsonOutcome[api.Upload](200, "wrong or late: the upload goes on as any other; or, above 64 MiB, `state: verifying`: it takes parts, and becomes `done` by itself if the answer is right"),
			},
			errors: []drive.Kind{drive.NotFound, drive.Gone, drive.WrongState, drive.NameTaken, drive.ParentGone, drive.Quota, drive.InProgress},
		}, {
			id: "completeUpload", method: "POST", path: one + "/complete", access: write, senders: true, action: byUploadWithJSON(u, u.complete), bodyOptional: true, createdPath: nodesPath,
			summary: "Make a file of what has arrived.",
			outcomes: []outcome{
				jsonOutcome[api.Upload](201, "done, with the node"),
				jsonOutcome[api.Upload](200, "it was done before"),
				jsonOutcome[api.Upload](202, "`state: sealing`: it takes longer than 10 s; a repeat attaches to the running seal"),
			},
			errors: []drive.Kind{
				drive.BadName, drive.NotFound, drive.Gone, drive.PartsMissing, drive.PartSize, drive.NameTaken, drive.ParentGone, drive.VersionChanged, drive.Locked,
				drive.DigestMismatch, drive.DigestRequired, drive.TooLarge, drive.Quota, drive.InProgress,
			},
		},
	}
}

// showUpload returns the wire form of an upload without its node.
func showUpload(_ *call, v upload.View) api.Upload {
	shown := api.Upload{
		ID: v.ID.String(), State: api.UploadState(v.State), Path: v.Path, Conflict: api.Conflict(v.Conflict), Size: (*int64)(v.Size),
		PartSize: int64(v.PartSize), Parts: v.Parts, Received: make([]api.Span, len(v.Received)), Reserved: int64(v.Reserved),
		ExpiresAt: showTime(v.ExpiresAt), MaxSize: int64(v.MaxSize),
	}
	for i, r := range v.Received {
		shown.Received[i] = api.Span{int64(r[0]), int64(r[1])}
	}
	if ch := v.Challenge; ch != nil {
		shown.Challenge = &api.Challenge{Nonce: hex.EncodeToString(ch.Nonce[:]), Ranges: make([][2]int64, len(ch.Ranges)), ExpiresAt: showTime(ch.ExpiresAt)}
		for i, r := range ch.Ranges {
			shown.Challenge.Ranges[i] = [2]int64{r.Offset, int64(r.Length)}
		}
	}
	if v.Progress != nil {
		shown.Progress = &api.SealProgress{Done: int64(v.Progress.Done), Total: int64(v.Progress.Total)}
	}
	return shown
}

// show returns the wire form of an upload with its node, unless the node has been deleted. A sender
// gets what the sender may see. It fails with the error of a query.
func (u uploads) show(ctx context.Context, c *call, q sqldb.Querier, v upload.View) (api.Upload, error) {
	if c.sender != nil {
		return u.sentView(ctx, c, q, v)
	}
	view := showUpload(c, v)
	if v.Node == nil {
		return view, nil
	}
	node, err := u.files.ViewFor(ctx, q, c.who, *v.Node)
	switch {
	case drive.IsKind(err, drive.NotFound): // deleted since
		return view, nil
	case err != nil:
		return api.Upload{}, err
	}
	view.Node = nodeOrNil(&node)
	return view, nil
}

// answer returns a reply with the upload and, if it is done, its node. It fails if the node cannot
// be read.
func (u uploads) answer(ctx context.Context, c *call, status int, v upload.View) (reply, error) {
	view, err := u.show(ctx, c, u.db.For(c.who.Account), v)
	return reply{status: status, body: view}, err
}

// byID returns the action of a handler for the upload whose id is in the path.
func (u uploads) byID(run func(context.Context, *call, drive.UploadID) (reply, error)) action {
	return withoutBody(u.withID(run))
}

// byUploadWithJSON returns an action like uploads.byID whose handler also gets the decoded JSON
// body.
func byUploadWithJSON[In any](u uploads, run func(context.Context, *call, drive.UploadID, *In) (reply, error)) action {
	return withJSON(func(ctx context.Context, c *call, in *In) (reply, error) {
		return u.withID(func(ctx context.Context, c *call, id drive.UploadID) (reply, error) { return run(ctx, c, id, in) })(ctx, c)
	})
}

// withID returns an action that parses the upload id of the path, checks that the caller may use it
// and calls run. It fails with the error of idOf.
func (u uploads) withID(run func(context.Context, *call, drive.UploadID) (reply, error)) func(context.Context, *call) (reply, error) {
	return func(ctx context.Context, c *call) (reply, error) {
		id, err := u.idOf(ctx, c)
		if err != nil {
			return reply{}, err
		}
		return run(ctx, c, id)
	}
}

// idOf parses the id in the path. It fails with drive.NotFound if a sender has not begun the
// upload.
func (u uploads) idOf(ctx context.Context, c *call) (drive.UploadID, error) {
	id, err := drive.ParseID[drive.UploadID](c.r.PathValue("id"))
	if err == nil && c.sender != nil {
		err = u.links.CheckOwner(ctx, *c.sender, id)
	}
	return id, err
}

// beginBody is the JSON request body of POST /uploads.
type beginBody struct {
	Path        pathField     `json:"path,omitempty" doc:"absolute path of the file; or parent and name"`
	Parent      string        `json:"parent,omitempty" doc:"id of a folder, or root"`
	Name        nameField     `json:"name,omitempty"`
	Size        *int64        `json:"size" nullable:"true" minimum:"0" doc:"bytes; null: unknown"`
	Digests     digest.Set    `json:"digests,omitempty" doc:"digests of the content: algorithm (blake3, sha256, sm3, sha1, md5) to lower-case hex; verified before the file is visible"`
	Fingerprint string        `json:"fingerprint,omitempty" doc:"client-defined fingerprint of the file, at most 128 bytes; an open upload with the same fingerprint is resumed"`
	Conflict    conflictField `json:"conflict,omitempty" enum:"fail,rename,replace" default:"fail"`
	Parents     bool          `json:"parents,omitempty" doc:"create missing folders of path"`
	PartSize    *int64        `json:"part_size,omitempty" doc:"bytes per part: a power of two from 1 MiB; absent: chosen by the server"`
	MTime       *drive.Time   `json:"mtime,omitempty" doc:"modification time of the client's file; absent: now"`
	Mime        mimeField     `json:"mime,omitempty" doc:"media type; absent: derived from the name's extension"`
}

// begin serves POST /uploads. It replies 201 with api.Upload or 200 with api.Upload. Beyond the
// errors common to all routes it fails with drive.BadName, drive.NotFound, drive.NameTaken,
// drive.ParentGone, drive.TooLarge, drive.TooManyOpen, drive.Quota or drive.DiskFull. An open
// upload that matches is returned instead of a new one. Bytes are reserved from the quota.
func (u uploads) begin(ctx context.Context, c *call, in *beginBody) (reply, error) {
	if c.sender != nil {
		return u.beginSenderUpload(ctx, c, in)
	}
	b, err := u.readBegin(ctx, c, in)
	if err != nil {
		return reply{}, err
	}
	return c.once(ctx, func() (reply, error) {
		v, err := u.sessions.Begin(ctx, c.who, b, u.beginning(c))
		if err != nil {
			return reply{}, err
		}
		return u.begun(ctx, c, u.db, v)
	})
}

// begun returns 200 for an upload that was found or is done already, else 201. q must see the row,
// so within a transaction it is the transaction.
func (u uploads) begun(ctx context.Context, c *call, q sqldb.Querier, v upload.View) (reply, error) {
	view, err := u.show(ctx, c, q, v)
	if v.Found || v.State == upload.Done.Public() {
		return reply{status: http.StatusOK, body: view}, err
	}
	return reply{status: http.StatusCreated, body: view}, err
}

// readBegin converts the body of a begin. It fails with drive.BadRequest or drive.BadName.
func (u uploads) readBegin(ctx context.Context, c *call, in *beginBody) (upload.Begin, error) {
	at, err := destination{in.Path, in.Parent, in.Name}.parse(ctx, c, u.files)
	if err != nil {
		return upload.Begin{}, err
	}
	b := upload.Begin{
		Place: at.space, Path: at.path, Parent: at.parent, Name: at.name, Size: blob.UnknownSize, Digests: in.Digests, Fingerprint: in.Fingerprint,
		Conflict: drive.Conflict(in.Conflict), Parents: in.Parents, MTime: timeOf(in.MTime), Mime: string(in.Mime),
	}
	if in.Size != nil {
		if b.Size = drive.ByteSize(*in.Size); b.Size < 0 {
			return upload.Begin{}, drive.BadField("size", drive.OutOfRange, "min", 0, "max", drive.MaxFileSize, "sent", b.Size)
		}
	}
	if in.PartSize != nil {
		if b.PartSize = drive.ByteSize(*in.PartSize); b.PartSize == 0 {
			return upload.Begin{}, drive.BadField("part_size", drive.OutOfRange, "min", upload.MinPartSize, "max", int64(upload.MaxPartSize), "sent", 0)
		}
	}
	return b, nil
}

// list serves GET /uploads. It replies 200 with api.Page[api.Upload]. Beyond the errors common to
// all routes it fails with drive.CursorInvalid or drive.NotFound.
func (u uploads) list(ctx context.Context, c *call) (reply, error) {
	if c.sender != nil {
		return u.listSenderUploads(ctx, c)
	}
	return listPage(c, func(since drive.UploadID, limit int) ([]upload.View, error) {
		of, err := u.files.Account(ctx, c.who, c.query.Get(spaceParam.name))
		if err != nil {
			return nil, err
		}
		by := drive.UserID{}
		if of != c.who.Account {
			by = c.who.User // members of a space do not see each other's uploads
		}
		return u.sessions.List(ctx, upload.ListQuery{Account: of, User: by, After: since, Limit: limit, Open: true})
	}, showUpload, func(v api.Upload) string { return v.ID }) // open uploads have no node
}

// get serves GET /uploads/{id}. It replies 200 with api.Upload. Beyond the errors common to all
// routes it fails with drive.NotFound or drive.Gone.
func (u uploads) get(ctx context.Context, c *call, id drive.UploadID) (reply, error) {
	v, err := u.sessions.Get(ctx, c.who, id)
	if err != nil {
		return reply{}, err
	}
	return u.answer(ctx, c, http.StatusOK, v)
}

// amendBody is the JSON request body of PATCH /uploads/{id}.
type amendBody struct {
	Digests  digest.Set    `json:"digests,omitempty" doc:"as at begin; added to the digests declared before"`
	Parent   *string       `json:"parent,omitempty" doc:"id of another folder, or root"`
	Name     nameField     `json:"name,omitempty"`
	Conflict conflictField `json:"conflict,omitempty" enum:"fail,rename,replace" doc:"replace: replaces the current version"`
}

// patch serves PATCH /uploads/{id}. It replies 200 with api.Upload. Beyond the errors common to all
// routes it fails with drive.BadName, drive.NotFound, drive.Gone, drive.WrongState,
// drive.NameTaken, drive.ParentGone, drive.Quota or drive.InProgress.
func (u uploads) patch(ctx context.Context, c *call, id drive.UploadID, in *amendBody) (reply, error) {
	if c.sender != nil {
		return u.patchSenderUpload(ctx, c, id, in)
	}
	parent, err := folderID(ctx, c, u.files, in.Parent)
	if err != nil {
		return reply{}, err
	}
	v, err := u.sessions.Patch(ctx, c.who, id, upload.Patch{
		Digests: in.Digests, Parent: parent, Name: drive.Name(in.Name), Conflict: drive.Conflict(in.Conflict),
	})
	if err != nil {
		return reply{}, err
	}
	return u.answer(ctx, c, http.StatusOK, v)
}

// cancel serves DELETE /uploads/{id}. It replies 204 without a body. Beyond the errors common to
// all routes it fails with drive.NotFound, drive.WrongState or drive.InProgress. Its parts and its
// reservation are released.
func (u uploads) cancel(ctx context.Context, c *call, id drive.UploadID) (reply, error) {
	return empty(u.sessions.Cancel(ctx, c.who, id))
}
