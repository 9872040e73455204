package nextcloud

import (
	"context"
	"net/http"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/head/dav"
	"smartdrive/internal/usecase/upload"
)

// assemble makes the file.
func (c *call) assemble(ctx context.Context, id string) error {
	key := c.who.User.String() + id
	l := c.lines.join(key)
	defer c.lines.leave(key, l)
	ctx, end, err := c.lines.enter(ctx, l, ".file")
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
		err = drive.Bad("Destination", drive.Required)
	}
	if err != nil {
		return err
	}
	done, err := c.completion(ctx, t, at)
	if err != nil {
		return err
	}
	made, err := c.seal(ctx, t, done)
	if err != nil {
		return err
	}
	return c.answerFile(ctx, at.Address, made)
}

// completion checks what a MOVE says of the file: that all of it has come, and that what it
// replaces is what the client has seen.
func (c *call) completion(ctx context.Context, t transfer, at target) (done upload.Complete, err error) {
	total, err := c.totalLength()
	if err != nil {
		return done, err
	}
	pos, err := c.Uploads.Offset(ctx, c.who, t.view.ID)
	if err != nil {
		return done, err
	}
	if total != blob.UnknownSize && total != pos.Offset || total == blob.UnknownSize && t.has.lacking() {
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
	if err := c.DAV.MayPut(ctx, c.r, at.view, at.url); err != nil {
		return done, err
	}
	mtime, err := dav.ParseMTime(c.r.Header.Get("X-OC-Mtime"))
	if err != nil {
		return done, err
	}
	declared, err := dav.Checksums(c.r.Header)
	if err != nil {
		return done, err
	}
	sums := digest.Set{}
	for _, d := range declared {
		switch d.Algo {
		case digest.FieldSHA256:
			sums[digest.SHA256] = d.Value
		case digest.FieldMD5:
			sums[digest.MD5] = d.Value
		default: // nothing has it of the whole file
		}
	}
	size := pos.Offset
	return upload.Complete{
		Digests: sums, Parent: parent.ID, Name: name, Conflict: drive.ConflictReplace, Size: &size, MTime: mtime, Mime: drive.MimeOf(name),
	}, nil
}

// sealFor is how long a MOVE waits for a file that is slow to be sealed; the client sends it again
// then. Less than clients and proxies commonly wait.
const sealFor = 50 * time.Second

func (c *call) seal(ctx context.Context, t transfer, done upload.Complete) (made *tree.Node, err error) {
	for deadline := time.Now().Add(sealFor); ; {
		v, _, err := c.Uploads.Complete(ctx, c.who, t.view.ID, done)
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

// answerFile says what the file was when it was made: its tag is that of what the client has sent,
// even if somebody has replaced it since. It is there: nothing makes an error of that any more.
// nil: it has gone.
func (c *call) answerFile(ctx context.Context, at drive.Address, made *tree.Node) error {
	created := false
	if made != nil {
		created = made.Rev == 1
		if n, err := c.Files.ViewOf(ctx, c.who, *made); err == nil {
			e := dav.Entry{NodeView: n, Place: at.Place, Path: at.Path, Node: n.ID}
			describer{c}.header(ctx, c.w.Header(), c.who, e)
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
