package nextcloud

import (
	"context"
	"net/http"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/usecase/upload"
)

// assemble handles the MOVE of .file: it makes the file at Destination from the chunks of the
// transfer with the client's id, and answers. It fails with drive.NotFound for an unknown transfer,
// drive.BadRequest without Destination, and the errors of decideSeal.
func (c *call) assemble(ctx context.Context, id string) error {
	key := c.who.User.String() + id
	l := c.transferLocks.ref(key)
	defer c.transferLocks.unref(key, l)
	ctx, end, err := c.transferLocks.lock(ctx, l, ".file")
	if err != nil {
		return err
	}
	defer end()
	t, err := c.find(ctx, id)
	if err != nil {
		return err
	}
	at, ok, err := c.destination(ctx)
	if err == nil && !ok {
		err = drive.BadField("Destination", drive.Required)
	}
	if err != nil {
		return err
	}
	made, err := c.decideSeal(ctx, t, at)
	if err != nil {
		return err
	}
	return c.answerFile(ctx, at.Address, made)
}

// decideSeal checks whether the file may be stored and completes the upload. If the state that it
// checked changes before the transaction, it checks again, at most dav.MaxAttempts times. It
// returns the new node, or nil if the file has been deleted since. It fails with the errors of a
// PUT, of completion and of seal.
func (c *call) decideSeal(ctx context.Context, t transfer, at target) (made *tree.Node, err error) {
	deadline := time.Now().Add(sealFor)
	for range dav.MaxAttempts {
		var p dav.PutPermit
		if p, err = c.DAV.CheckPut(ctx, c.r, at.view, at.url); err != nil {
			return nil, err
		}
		var done upload.Complete
		if done, err = c.completion(ctx, t, at); err != nil {
			return nil, err
		}
		done.Expect = p.Expect
		if made, err = t.seal(ctx, c.Uploads, p.Who, done, deadline); !tree.IsStale(err) && !drive.IsKind(err, drive.VersionChanged) {
			return made, err
		}
	}
	return nil, err
}

// completion returns how a MOVE completes the upload: the target, the size, and the time and
// digests that the client declares. It fails with drive.BadRequest, reason "cut", if chunks are
// missing, with drive.ParentGone for a missing folder, and with drive.BadRequest for a malformed
// header.
func (c *call) completion(ctx context.Context, t transfer, at target) (done upload.Complete, err error) {
	total, err := c.totalLength()
	if err != nil {
		return done, err
	}
	pos, err := c.Uploads.Offset(ctx, c.who, t.view.ID)
	if err != nil {
		return done, err
	}
	if total != blob.UnknownSize && total != pos.Offset || total == blob.UnknownSize && t.chunks.incomplete() {
		return done, drive.Fail(drive.BadRequest, "field", "body", "reason", "cut")
	}
	folder, name, ok := at.Path.Split()
	if !ok {
		return done, drive.Fail(drive.BadName, "reason", "root")
	}
	parent, err := c.Files.GetByPath(ctx, c.who, drive.Address{Place: at.Place, Path: folder})
	if err != nil {
		if drive.IsKind(err, drive.NotFound) {
			err = drive.Wrap(err, drive.ParentGone)
		}
		return done, err
	}
	mtime, err := dav.ParseMTime(c.r.Header.Get("X-OC-Mtime"))
	if err != nil {
		return done, err
	}
	sums, err := dav.DeclaredDigests(c.r.Header)
	if err != nil {
		return done, err
	}
	conflict := drive.ConflictReplace
	if strings.EqualFold(strings.TrimSpace(c.r.Header.Get("Overwrite")), "F") { // RFC 4918 §10.6
		conflict = drive.ConflictFail
	}
	size := pos.Offset
	return upload.Complete{
		Digests: sums, Parent: parent.ID, Name: name, Conflict: conflict, Size: &size, MTime: mtime, Mime: drive.MimeOf(name),
	}, nil
}

// sealFor bounds how long a MOVE waits until the file exists; then it fails and the client repeats
// it. It is less than common timeouts of clients and proxies.
const sealFor = 50 * time.Second

// seal completes the upload and waits until the file exists. After the deadline it fails with
// drive.InProgress, while the server continues. made is nil if the file has been deleted since.
func (t transfer) seal(ctx context.Context, uploads *upload.Sessions, who drive.Who, done upload.Complete, deadline time.Time) (made *tree.Node, err error) {
	for {
		v, _, err := uploads.Complete(ctx, who, t.view.ID, done)
		switch {
		case err != nil:
			return nil, err
		case v.State == upload.Done.Public():
			return v.Node, nil
		case time.Now().After(deadline):
			return nil, drive.Fail(drive.InProgress, "retry_after", 5)
		}
	}
}

// answerFile answers the MOVE with the state of the file when it was created, even if it was
// replaced since. The file is committed, so it reports no error. made is nil if the file has been
// deleted.
func (c *call) answerFile(ctx context.Context, at drive.Address, made *tree.Node) error {
	created := false
	if made != nil {
		created = made.Rev == 1
		if n, err := c.Files.ViewOf(ctx, c.who, *made); err == nil {
			e := dav.Entry{NodeView: n, Place: at.Place, Path: at.Path, Node: n.ID}
			c.propertyReader().header(ctx, c.w.Header(), c.who, e)
			c.w.Header().Set("ETag", e.Tag())
		}
	}
	if c.r.Header.Get("X-OC-Mtime") != "" {
		c.w.Header().Set("X-OC-Mtime", "accepted")
	}
	status := http.StatusNoContent
	if created {
		status = http.StatusCreated
	}
	c.w.WriteHeader(status)
	return nil
}
