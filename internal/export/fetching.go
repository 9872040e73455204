package export

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/export/fetch"
)

// fetchAll fetches entries concurrently and commits each as it arrives, so that none is fetched
// twice. If yield reports true, it starts no further fetch and cancels slow ones, and returns
// errYield if entries are left. Otherwise it returns the first error that ends the try of the
// batch.
func (r *run) fetchAll(ctx context.Context, list []listEntry, yield func() bool) error {
	stop := r.watchYield(yield)
	defer stop()
	fetching, ctx := errgroup.WithContext(ctx)
	fetching.SetLimit(parallel)
	var left atomic.Bool // some were not fetched
	for _, w := range list {
		fetching.Go(func() error {
			err := errYield
			if !yield() {
				err = recoverPanic(func() error { return r.fetchOne(ctx, w) })
			}
			if errors.Is(err, errYield) {
				left.Store(true)
				return nil // other fetches continue, unless they are slow
			}
			return err
		})
	}
	if err := fetching.Wait(); err != nil {
		return err
	}
	if left.Load() {
		return errYield
	}
	return nil
}

// fetchTries is the number of attempts per entry within one try of the batch.
const fetchTries = 3

// fetchOne fetches an entry, with some retries. It commits the content, or records a final failure,
// or defers the entry to a later try or another machine; then it returns nil. An error ends the try
// of the batch.
func (r *run) fetchOne(ctx context.Context, w listEntry) error {
	if enough, err := r.hasSpace(ctx); err != nil || !enough { // the entries of a page may be larger than the remaining space
		return errOr(err, errDiskFull)
	}
	for try := 1; ; try++ {
		err := r.fetchInto(ctx, w)
		why, ours := errors.AsType[*fetch.Error](err)
		switch {
		case err == nil:
			return nil
		case drive.IsKind(err, drive.Quota):
			return r.recordFailure(ctx, w, reasonQuota, "")
		case r.last && errors.Is(err, errYield):
			return r.recordFailure(ctx, w, fetch.TimedOut, "")
		case !ours || ctx.Err() != nil:
			return err
		case why.Class == fetch.Final:
			return r.recordFailure(ctx, w, why.Reason, detail(why))
		case why.Class == fetch.RetryHere && why.Reason != fetch.TimedOut && why.Reason != reasonUnreadable && try < fetchTries: // slow or unreadable sources are not retried at once
			if err := pause(ctx, time.Second<<(2*(try-1))); err != nil {
				return err
			}
		case r.last:
			return r.recordFailure(ctx, w, why.Reason, detail(why))
		default:
			r.deferEntry(why)
			return nil
		}
	}
}

// detail returns the text of a failure that the owner may see: the HTTP status, never an address of
// the internal network.
func detail(why *fetch.Error) string {
	switch why.Reason {
	case fetch.Missing, fetch.Refused, fetch.Busy, fetch.UnexpectedStatus, fetch.TooLarge, fetch.Encoded, fetch.NotPDF:
		if why.Err != nil {
			return why.Err.Error()
		}
	}
	return ""
}

// truncate shortens a text to 255 bytes, the size of its column, and drops invalid UTF-8.
func truncate(s string) string { return strings.ToValidUTF8(s[:min(len(s), 255)], "") }

// pause sleeps for a random time of half to one and a half times mean. If ctx is done, it returns
// its cause.
func pause(ctx context.Context, mean time.Duration) error {
	timer := time.NewTimer(mean/2 + rand.N(mean))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// recordFailure commits that entry w failed for good: a row of export_errors and the count of the
// batch. reason is a code, for which the interface has texts; detail is for experts and may be "".
// It returns errFenced if the worker has lost the batch, with nothing written.
func (r *run) recordFailure(ctx context.Context, w listEntry, reason, detail string) error {
	return r.record(ctx, outcomes{errors: []failure{{w, reason, detail}}}, 0, nil)
}

// deferEntry counts an entry as deferred, to be retried in a later try of the batch, and keeps why
// as the reason. It writes nothing to the database.
func (r *run) deferEntry(why *fetch.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deferred.entries++
	r.deferred.reason = why.Reason
	r.deferred.elsewhere = r.deferred.elsewhere || why.Class == fetch.RetryElsewhere
	r.deferred.unread = r.deferred.unread || why.Reason == reasonUnreadable
}

// fetchInto fetches an entry into the store, then commits its row and its charge in one
// transaction. Until that commit the file has no row, and IsWriting protects it from the auditor.
// If the commit fails, it removes the file, unless the commit may have succeeded.
func (r *run) fetchInto(ctx context.Context, w listEntry) error {
	away, f := r.beginFetch(ctx)
	defer r.endFetch(f)
	doc, err := r.openSource(away, w)
	if err != nil {
		return err
	}
	defer doc.Close() //nolint:errcheck // read only
	promised, err := r.reserveQuota(ctx, doc.Size)
	if err != nil {
		return err
	}
	id := drive.NewID[drive.BlobID]()
	file := fmt.Sprintf("%s%d-%s", blob.PutPrefix, r.opt.Generation, id)
	r.writing.Store(file, struct{}{})
	defer r.writing.Delete(file)
	limit := r.opt.Fetch.MaxSize
	if limit == 0 || limit > fetch.MaxDocument {
		limit = fetch.MaxDocument // the fetcher applies its own, lower limit
	}
	part, err := r.opt.Store.Put(ctx, file, blob.NewBody(f.countBytes(doc), blob.BodyOptions{Size: doc.Size, Limit: limit}))
	r.releaseQuota(promised) // release before charging: counting twice would refuse other fetches
	if err != nil {
		return err
	}
	r.counters.Fetched.Add(int64(part.Size))
	r.testHook("stored")
	err = r.commitFetched(ctx, w, doc, part, content.NewContent{
		ID: id, File: file, Sum: part.Root, Size: part.Size, PartSize: onePart(part.Size), CRC32: part.CRC32,
		Parts: content.PackParts([]content.PartSum{{CV: part.CV, CRC32: part.CRC32}}),
	})
	if err != nil && !sqldb.MaybeWritten(err) { // otherwise the commit may have succeeded: the auditor decides about the file
		err = errors.Join(err, r.opt.Store.Remove(context.WithoutCancel(ctx), file))
	}
	return err
}

// openSource opens the content of an entry: a file embedded in a document of the intake if its URL
// has embeddedScheme, else the document that it fetches from the URL. It fails as run.embedded or
// fetch.Fetcher.Get does. The caller must close the Document.
func (r *run) openSource(ctx context.Context, w listEntry) (*fetch.Document, error) {
	if strings.HasPrefix(w.URL, embeddedScheme) {
		return r.embedded(ctx, w.URL)
	}
	return r.fetch.Get(ctx, w.URL, expectedKind(w.Name))
}

// expectedKind returns the document type that a name in the zip promises: PDF for ".pdf", else Any.
func expectedKind(name string) fetch.Kind {
	if strings.EqualFold(path.Ext(name), ".pdf") {
		return fetch.PDF
	}
	return fetch.Any
}

// reserveQuota reserves quota in memory for a document before it is fetched, so that concurrent
// fetches of this batch do not exceed the quota together. It returns the reserved bytes, for
// releaseQuota, or Quota. For an unknown size (negative) it reserves one byte; without a quota
// nothing. The ledger decides about the final charge.
func (r *run) reserveQuota(ctx context.Context, size drive.ByteSize) (drive.ByteSize, error) {
	if size < 0 {
		size = 1
	}
	balance, err := r.opt.Ledger.Get(ctx, r.opt.DB, r.b.Account)
	if err != nil || balance.Total == nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if left := balance.Available() - r.reserved; size > left {
		return 0, drive.Fail(drive.Quota, "needed", size, "available", max(0, left))
	}
	r.reserved += size
	return size, nil
}

// releaseQuota ends a reservation of size bytes by reserveQuota. Call it once for each.
func (r *run) releaseQuota(size drive.ByteSize) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reserved -= size
}

// onePart returns the part size with which content of the given size is a single part: a power of
// two of at least 1 MiB.
func onePart(size drive.ByteSize) drive.ByteSize {
	if size <= drive.MiB {
		return drive.MiB
	}
	return 1 << bits.Len64(uint64(size-1))
}

// commitFetched commits a fetched document in one transaction: its content n, the entry's row of
// export_pins and the charge to the account. part describes the stored bytes. On an error nothing
// is committed and the stored bytes remain for the caller to remove.
func (r *run) commitFetched(ctx context.Context, w listEntry, doc *fetch.Document, part blob.Part, n content.NewContent) error {
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	n.Account = r.b.Account
	inspector := content.Inspector{Content: r.opt.Content, DB: r.opt.DB, Store: r.opt.Store, Log: r.opt.Log}
	if err := inspector.Prepare(ctx, &n); err != nil {
		return err
	}
	p := pin{w: w, size: part.Size, crc32: part.CRC32, mtime: firstNonZero(w.MTime, firstNonZero(doc.Modified, now)), charged: part.Size}
	err = r.record(ctx, outcomes{pins: []pin{p}}, 0, func(ctx context.Context, tx *sqldb.Tx) (drive.BlobID, error) {
		id, _, err := r.opt.Content.Attach(ctx, tx, n)
		return id, err
	})
	if err == nil {
		r.testHook("arrived")
	}
	return err
}
