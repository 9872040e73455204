package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/export/fetch"
	"example.org/smartdrive/internal/export/zipline"
)

// An unavailable store says nothing about a batch or job, which waits without counting a failed
// try. If a store is reachable but refuses one content, for example with 403 or a disk error, tries
// count and back off. After the last try the entry or job fails as unreadable.

// probeTimeout bounds the time that storesReachable takes.
const probeTimeout = 4 * time.Second

// storesReachable asks the store and the database and reports whether both answer within
// probeTimeout. It asks the store for a file that does not exist, which needs the same permission
// as reading.
func (c *core) storesReachable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := c.opt.Store.Stat(ctx, fmt.Sprintf("%s%d-%s", blob.PutPrefix, c.opt.Generation, drive.NewID[drive.BlobID]()))
	if !drive.IsKind(err, drive.NotFound) {
		return false
	}
	_, err = c.now(ctx)
	return err == nil
}

// classifyReadError classifies the error of reading a stored content. If the store is unavailable
// or ctx has ended, it returns err, which ends the try of the batch. Otherwise the content itself
// is at fault: it returns a *fetch.Error with the reason unreadable.
func (r *run) classifyReadError(ctx context.Context, err error) error {
	if ctx.Err() != nil || drive.IsKind(err, drive.Unavailable) && !r.storesReachable(ctx) {
		return err
	}
	return &fetch.Error{Class: fetch.RetryHere, Reason: reasonUnreadable, Err: err}
}

// embeddedBody is an embedded file whose read errors are mapped by classify.
type embeddedBody struct {
	io.ReadCloser
	classify func(error) error
}

// Read reads the embedded file. It returns errors other than io.EOF as classify makes them.
func (e embeddedBody) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = e.classify(err)
	}
	return n, err
}

// contentUnreadable reports whether a job failed because the store cannot read one entry although
// it is reachable. Such a failure counts as a try; an outage does not.
func (r *jobRunner) contentUnreadable(ctx context.Context, err error) bool {
	_, entry := errors.AsType[*zipline.EntryError](err)
	return entry && r.storesReachable(ctx)
}

// failureReason returns the code that is stored with, and shown on, a failed job: reasonUnreadable
// if an entry could not be read, else the kind of err.
func failureReason(err error) string {
	why := drive.KindOf(err)
	if _, entry := errors.AsType[*zipline.EntryError](err); entry && (why == drive.Unavailable || why == drive.Internal) {
		return reasonUnreadable
	}
	return why.String()
}
