package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/export/fetch"
	"smartdrive/internal/export/zipline"
)

// A store that is away says nothing of a batch or a job: each waits, and no try is counted. One
// that refuses a single content, such as by 403 or with an error of the disk, and answers
// otherwise, may do so for ever: then the tries count, and are further apart each time. After the
// last one the entry has failed as unreadable, and so has the job.

// askFor is how long the store and the database have to answer whether they are there.
const askFor = 4 * time.Second

// answers reports whether the store and the database answer just now. The store is asked for a
// content that nobody has, with the rights that reading one takes.
func (g *ground) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	_, err := g.opt.Store.Stat(ctx, fmt.Sprintf("%s%d-%s", blob.PutPrefix, g.opt.Generation, drive.NewID[drive.BlobID]()))
	if !drive.IsKind(err, drive.NotFound) {
		return false
	}
	_, err = g.now(ctx)
	return err == nil
}

// unread says what an error is that came while an entry was read whose content the store has: its
// own error, or that of a store that is away, or of a batch that is given up.
func (r *run) unread(ctx context.Context, err error) error {
	if ctx.Err() != nil || drive.IsKind(err, drive.Unavailable) && !r.answers(ctx) {
		return err
	}
	return &fetch.Error{Class: fetch.Here, Reason: reasonUnreadable, Err: err}
}

// embeddedBody is an embedded file that says what its errors are.
type embeddedBody struct {
	io.ReadCloser
	why func(error) error
}

// Read implements io.Reader.
func (e embeddedBody) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = e.why(err)
	}
	return n, err
}

// unreadable reports whether a job ended at an entry that the store does not give, though it
// answers.
func (c *courier) unreadable(ctx context.Context, err error) bool {
	_, entry := errors.AsType[*zipline.EntryError](err)
	return entry && c.answers(ctx)
}

// whyBroken is what a job says that has failed.
func whyBroken(err error) string {
	why := drive.KindOf(err)
	if _, entry := errors.AsType[*zipline.EntryError](err); entry && (why == drive.Unavailable || why == drive.Internal) {
		return reasonUnreadable
	}
	return why.String()
}
