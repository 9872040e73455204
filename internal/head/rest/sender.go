package rest

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/collect"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload"
)

// A sender of a collect link has a token of its own. It is accepted by routes with the mark
// senders, for the uploads that the sender has begun. Responses reveal only what the sender sent:
// see package collect.

// enterSender authenticates the token of a sender, who sends files by a collect link, and sets
// c.sender and c.who. It fails with drive.Forbidden on routes that are not open to senders, and
// with the error of Authenticate.
func (c *call) enterSender(ctx context.Context, token string) error {
	if !c.route.senders {
		return drive.Fail(drive.Forbidden, "scope", c.route.access.String())
	}
	sender, err := c.senders.Authenticate(ctx, token)
	if err != nil {
		return err
	}
	c.sender, c.who = &sender, sender.Who()
	return nil
}

// limitKey returns the id that limits and idempotency keys are bound to: that of the user, or of
// the sender. It is zero for the local administrator.
func (c *call) limitKey() drive.UserID {
	if c.sender != nil {
		return drive.UserID(c.sender.ID)
	}
	return c.who.User
}

// forSender converts an error for a sender. If the link is closed, it returns drive.Gone instead.
// It removes details of the owner's account, such as the free space.
func forSender(ctx context.Context, links *collect.Links, by collect.Sender, err error) error {
	if closed := links.CheckOpen(context.WithoutCancel(ctx), by); drive.IsKind(closed, drive.Gone) {
		return closed
	}
	_, own := errors.AsType[*collect.ExceededError](err)
	switch {
	case own:
		return err
	case drive.IsKind(err, drive.Quota):
		return drive.Wrap(err, drive.Quota)
	case drive.IsKind(err, drive.TooManyOpen):
		return drive.Wrap(err, drive.TooManyOpen)
	}
	if e, ok := errors.AsType[*drive.Error](err); ok && e.Kind == drive.TooLarge && e.Args["field"] == "nodes" {
		return drive.Wrap(err, drive.Quota)
	}
	return err
}

// sentView renders an upload for its sender: with the name that the sender gave it, and without its
// path. It fails with drive.NotFound for an upload of another sender.
func (u uploads) sentView(ctx context.Context, c *call, q sqldb.Querier, v upload.View) (api.Upload, error) {
	f, err := u.links.FindSent(ctx, q, *c.sender, v.ID)
	if err != nil {
		return api.Upload{}, err
	}
	v.Path, v.Challenge = "/"+string(f.Name), nil
	view := showUpload(c, v)
	if v.Node != nil {
		view.Node = nodeOrNil(&files.NodeView{
			ID: v.Node.ID, Name: string(f.Name), Path: v.Path, Type: v.Node.Type, Size: int64(f.Size), Mime: v.Node.Mime, MTime: v.Node.MTime,
			CreatedAt: v.Node.Created, UpdatedAt: v.Node.Created, Rev: 1, Digests: map[string]string{},
		})
	}
	return view, nil
}

// sentName returns the only name in a sender's path. It fails with drive.BadRequest for other
// paths.
func sentName(path drive.Path) (drive.Name, error) {
	if len(path) != 1 {
		return "", drive.BadField("path", drive.Malformed, "expected", "one name: a collect link takes files and no folders")
	}
	return path[0], nil
}

// beginSenderUpload begins an upload of a sender: in the link's folder, under a free name. Known
// content is not linked. It fails with drive.BadRequest for a parent, a missing path or size, and
// with the errors of the link's limits.
func (u uploads) beginSenderUpload(ctx context.Context, c *call, in *beginBody) (reply, error) {
	switch {
	case in.Parent != "":
		return reply{}, drive.BadField("parent", drive.NotAllowed, "allowed", []string{}, "sent", server.Clip(in.Parent))
	case in.Path.Path == nil:
		return reply{}, drive.BadField("path", drive.Required)
	case in.Name != "":
		return reply{}, drive.BadField("path", drive.NotTogether, "with", "name")
	case in.Size == nil:
		return reply{}, drive.BadField("size", drive.Required)
	}
	b, err := u.readBegin(ctx, c, in)
	if err != nil {
		return reply{}, err
	}
	begin, err := beginOf(*c.sender, b)
	if err != nil {
		return reply{}, err
	}
	return c.once(ctx, func() (reply, error) {
		v, err := u.sessions.Begin(ctx, c.who, begin, u.admitted(c, begin, b.Digests))
		if err != nil {
			return reply{}, err
		}
		return u.begun(ctx, c, u.db, v)
	})
}

// beginOf returns what Begin may do for a sender: it keeps the link's folder and drops digests and
// conflict policy.
func beginOf(by collect.Sender, b upload.Begin) (upload.Begin, error) {
	name, err := sentName(b.Path)
	return upload.Begin{
		Parent: by.Folder(), Name: name, Size: b.Size, Fingerprint: by.Fingerprint(b.Fingerprint), Conflict: drive.ConflictRename,
		PartSize: b.PartSize, MTime: b.MTime, Mime: b.Mime, Protocol: b.Protocol, Metadata: b.Metadata,
	}, err
}

// admitted returns the transaction hook that admits a sender's upload, under the idempotency key if
// there is one.
func (u uploads) admitted(c *call, b upload.Begin, declared digest.Set) upload.Once[upload.View] {
	keep, admit := u.beginning(c), u.admit(*c.sender, b, declared)
	if keep == nil {
		return admit
	}
	return func(ctx context.Context, tx *sqldb.Tx, effect func(context.Context, *sqldb.Tx) (upload.View, error)) (upload.View, error) {
		return keep(ctx, tx, func(ctx context.Context, tx *sqldb.Tx) (upload.View, error) { return admit(ctx, tx, effect) })
	}
}

// admit returns the hook that begins an upload in the transaction that checks the link's room and
// records the sender. It fails with drive.Quota or drive.Gone.
func (u uploads) admit(by collect.Sender, b upload.Begin, declared digest.Set) upload.Once[upload.View] {
	return func(ctx context.Context, tx *sqldb.Tx, effect func(context.Context, *sqldb.Tx) (upload.View, error)) (upload.View, error) {
		var v upload.View
		f := collect.File{Name: b.Name, Size: b.Size, Digests: declared}
		err := u.links.BeginUpload(ctx, tx, by, f, func() (_ collect.BeginResult, err error) {
			v, err = effect(ctx, tx)
			return collect.BeginResult{Upload: v.ID, Found: v.Found}, err
		})
		return v, err
	}
}

// listSenderUploads replies with a page of the open uploads that the sender of a collect link has
// begun. Uploads that end meanwhile are left out.
func (u uploads) listSenderUploads(ctx context.Context, c *call) (reply, error) {
	since, err := after[drive.UploadID](c)
	if err != nil {
		return reply{}, err
	}
	sent, err := u.links.ListSent(ctx, *c.sender, since, c.limit()+1)
	if err != nil {
		return reply{}, err
	}
	page := api.Page[api.Upload]{Items: []api.Upload{}}
	if len(sent) > c.limit() {
		sent = sent[:c.limit()]
		next := sent[len(sent)-1].Upload.String()
		page.NextCursor = &next
	}
	for _, f := range sent {
		v, err := u.sessions.Get(ctx, c.who, f.Upload)
		if drive.IsKind(err, drive.Gone, drive.NotFound) { // deleted since it was listed
			continue
		}
		if err != nil {
			return reply{}, err
		}
		view, err := u.sentView(ctx, c, u.db, v)
		if err != nil {
			return reply{}, err
		}
		page.Items = append(page.Items, view)
	}
	return ok(page)
}

// patchSenderUpload adds digests to a sender's upload. They are verified at the end. The response
// does not reveal whether the content is known. Other members than digests fail with
// drive.BadRequest.
func (u uploads) patchSenderUpload(ctx context.Context, c *call, id drive.UploadID, in *amendBody) (reply, error) {
	if in.Parent != nil || in.Name != "" || in.Conflict != "" {
		return reply{}, drive.Fail(drive.Forbidden, "scope", write.String())
	}
	if err := u.links.DeclareDigests(ctx, *c.sender, id, in.Digests); err != nil {
		return reply{}, err
	}
	return u.get(ctx, c, id)
}

// completeRequest returns the Complete of a sender: with all digests declared so far, and without a
// change of place. It fails with drive.Gone if the link is closed.
func (u uploads) completeRequest(ctx context.Context, by collect.Sender, id drive.UploadID, done upload.Complete) (upload.Complete, error) {
	if err := u.links.CheckOpen(ctx, by); err != nil {
		return upload.Complete{}, err
	}
	f, err := u.links.FindSent(ctx, u.db, by, id)
	if err != nil {
		return upload.Complete{}, err
	}
	digests := digest.Set{}
	maps.Copy(digests, f.Digests)
	maps.Copy(digests, done.Digests)
	return upload.Complete{Digests: digests, Size: done.Size}, nil
}

// putSenderFile stores a whole file of a sender as an upload with sequential parts. If that fails,
// it cancels the upload.
func (u uploads) putSenderFile(ctx context.Context, c *call, put upload.PutFile, body io.Reader) (reply, error) {
	if put.Size == blob.UnknownSize {
		return reply{}, drive.Fail(drive.LengthRequired)
	}
	begin, err := beginOf(*c.sender, upload.Begin{Path: put.Path, Size: put.Size, MTime: put.MTime, Mime: put.Mime})
	if err != nil {
		return reply{}, err
	}
	v, err := u.sessions.Begin(ctx, c.who, begin, u.admitted(c, begin, put.Digests))
	if err != nil {
		return reply{}, err
	}
	done, err := u.sendParts(ctx, c, v, put.Digests, body)
	if err != nil {
		return reply{}, errors.Join(err, u.sessions.Cancel(context.WithoutCancel(ctx), c.who, v.ID))
	}
	if done.Node == nil { // sealing continues
		return reply{}, drive.Fail(drive.InProgress, "retry_after", 5)
	}
	view, err := u.sentView(ctx, c, u.db, done)
	return reply{status: http.StatusCreated, body: view.Node}, err
}

// sendParts stores body as the parts of an upload, one after the other, and completes the upload.
// It fails if the body breaks off, a digest differs or the link was closed meanwhile; the caller
// then cancels the upload.
func (u uploads) sendParts(ctx context.Context, c *call, v upload.View, digests digest.Set, body io.Reader) (upload.View, error) {
	left := *v.Size
	for n := 0; left > 0; n++ {
		size := min(left, v.PartSize)
		part := upload.ReaderWithCloser(io.LimitReader(body, int64(size)), body)
		if err := u.sessions.Put(ctx, c.who, v.ID, upload.PutPart{N: n, Size: size}, part); err != nil {
			return upload.View{}, err
		}
		left -= size
	}
	if _, err := io.Copy(io.Discard, body); err != nil { // reading to the end verifies the digests
		return upload.View{}, err
	}
	if err := u.links.CheckOpen(ctx, *c.sender); err != nil {
		return upload.View{}, err
	}
	done, _, err := u.sessions.Complete(ctx, c.who, v.ID, upload.Complete{Digests: digests})
	return done, err
}

// Sender is the sender of a collect link, for other protocol heads. Its methods enforce the same
// limits as the API.
type Sender struct {
	uploads uploads
	by      collect.Sender
}

// Begin returns the upload that the sender may begin, and the transaction hook that admits it if
// the link has room. The digests are verified at the end and do not link known content. It fails
// with drive.BadRequest if the size is unknown.
func (s *Sender) Begin(b upload.Begin, declared digest.Set) (upload.Begin, upload.Once[upload.View], error) {
	if b.Size == blob.UnknownSize {
		return b, nil, drive.BadField("size", drive.Required)
	}
	begin, err := beginOf(s.by, b)
	return begin, s.uploads.admit(s.by, begin, declared), err
}

// CheckOwner fails with NotFound for an upload that the sender has not begun.
func (s *Sender) CheckOwner(ctx context.Context, id drive.UploadID) error {
	return s.uploads.links.CheckOwner(ctx, s.by, id)
}

// CheckOpen fails with Gone {reason} if the link has been closed since the request arrived.
func (s *Sender) CheckOpen(ctx context.Context) error { return s.uploads.links.CheckOpen(ctx, s.by) }

// CompleteRequest returns the Complete that ends the sender's upload without other changes. It
// fails like CheckOpen.
func (s *Sender) CompleteRequest(ctx context.Context, id drive.UploadID) (upload.Complete, error) {
	return s.uploads.completeRequest(ctx, s.by, id, upload.Complete{})
}

// TranslateError returns err as the sender may see it: see forSender.
func (s *Sender) TranslateError(ctx context.Context, err error) error {
	return forSender(ctx, s.uploads.links, s.by, err)
}
