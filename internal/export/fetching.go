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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/export/fetch"
)

// fetchAll fetches entries side by side. Each is recorded as it arrives, so that nobody fetches it
// again. When the batch is asked for it begins no further one, gives up those that are slow, and
// returns errYield.
func (r *run) fetchAll(ctx context.Context, list []want, yield func() bool) error {
	stop := r.whileYielding(yield)
	defer stop()
	fetching, ctx := errgroup.WithContext(ctx)
	fetching.SetLimit(parallel)
	var left atomic.Bool // some were not fetched
	for _, w := range list {
		fetching.Go(func() error {
			err := errYield
			if !yield() {
				err = safely(func() error { return r.fetchOne(ctx, w) })
			}
			if errors.Is(err, errYield) {
				left.Store(true)
				return nil // what comes at a good rate goes on
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

const fetchTries = 3

// fetchOne fetches an entry, or says in a row why it cannot be had, or sets it aside for a later
// try or another machine. Its own error is one that ends the work on the batch.
func (r *run) fetchOne(ctx context.Context, w want) error {
	if enough, err := r.enough(ctx); err != nil || !enough { // a page of them may be many times what is left
		return errOr(err, errFull)
	}
	for try := 1; ; try++ {
		err := r.fetchInto(ctx, w)
		why, ours := errors.AsType[*fetch.Error](err)
		switch {
		case err == nil:
			return nil
		case drive.IsKind(err, drive.Quota):
			return r.fail(ctx, w, reasonQuota, "")
		case r.last && errors.Is(err, errYield):
			return r.fail(ctx, w, fetch.TimedOut, "")
		case !ours || ctx.Err() != nil:
			return err
		case why.Class == fetch.Final:
			return r.fail(ctx, w, why.Reason, detail(why))
		case why.Class == fetch.Here && why.Reason != fetch.TimedOut && why.Reason != reasonUnreadable && try < fetchTries: // what was slow has had its time
			if err := pause(ctx, time.Second<<(2*(try-1))); err != nil {
				return err
			}
		case r.last:
			return r.fail(ctx, w, why.Reason, detail(why))
		default:
			r.setAside(why)
			return nil
		}
	}
}

// detail is what people are told of a failure: the status, never an address of this network.
func detail(why *fetch.Error) string {
	switch why.Reason {
	case fetch.Missing, fetch.Refused, fetch.Busy, fetch.Odd, fetch.TooLarge, fetch.Encoded, fetch.NotPDF:
		if why.Err != nil {
			return why.Err.Error()
		}
	}
	return ""
}

// clip keeps a text within its column, which takes nothing that is not UTF-8.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 255)], "") }

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

func (r *run) fail(ctx context.Context, w want, reason, detail string) error {
	return r.record(ctx, dealt{errors: []failure{{w, reason, detail}}}, 0, nil)
}

func (r *run) setAside(why *fetch.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.aside.entries++
	r.aside.reason = why.Reason
	r.aside.elsewhere = r.aside.elsewhere || why.Class == fetch.Elsewhere
	r.aside.unread = r.aside.unread || why.Reason == reasonUnreadable
}

// fetchInto fetches an entry into the store and records it, in one transaction with what it is
// charged. The file lies there before its row; until then it is explained by its name, as that of a
// whole-file request.
func (r *run) fetchInto(ctx context.Context, w want) error {
	away, f := r.takeOff(ctx)
	defer r.land(f)
	doc, err := r.get(away, w)
	if err != nil {
		return err
	}
	defer doc.Close() //nolint:errcheck // it was only read
	promised, err := r.promise(ctx, doc.Size)
	if err != nil {
		return err
	}
	id := drive.NewID[drive.BlobID]()
	file := fmt.Sprintf("%s%d-%s", blob.PutPrefix, r.opt.Generation, id)
	r.putting.Store(file, struct{}{})
	defer r.putting.Delete(file)
	limit := r.opt.Fetch.MaxSize
	if limit == 0 || limit > fetch.MaxDocument {
		limit = fetch.MaxDocument // the fetcher has its own, lower one
	}
	part, err := r.opt.Store.Put(ctx, file, blob.NewBody(f.through(doc), blob.BodyOptions{Size: doc.Size, Limit: limit}))
	r.keepPromise(promised) // before it is charged: better counted in neither than in both
	if err != nil {
		return err
	}
	r.counters.Fetched.Add(int64(part.Size))
	r.halt("stored")
	err = r.arrived(ctx, w, doc, part, content.New{
		ID: id, File: file, Sum: part.Root, Size: part.Size, PartSize: onePart(part.Size), CRC32: part.CRC32,
		Parts: content.PackParts([]content.PartSum{{CV: part.CV, CRC32: part.CRC32}}),
	})
	if err != nil && !sqldb.MaybeWritten(err) { // else the row may be there: the auditor decides
		err = errors.Join(err, r.opt.Store.Remove(context.WithoutCancel(ctx), file))
	}
	return err
}

// get begins to read an entry that is not a file of the drive.
func (r *run) get(ctx context.Context, w want) (*fetch.Document, error) {
	if strings.HasPrefix(w.URL, embeddedScheme) {
		return r.embedded(ctx, w.URL)
	}
	return r.fetch.Get(ctx, w.URL, kindOf(w.Name))
}

// kindOf is what a list says that a document is, by the name that it gets in the zip.
func kindOf(name string) fetch.Kind {
	if strings.EqualFold(path.Ext(name), ".pdf") {
		return fetch.PDF
	}
	return fetch.Any
}

// promise refuses a document that the account has no room for, before its bytes come; what others
// of this batch are fetching counts. One that does not say its size is refused when there is no
// room at all. What is charged in the end the ledger decides.
func (r *run) promise(ctx context.Context, size drive.ByteSize) (drive.ByteSize, error) {
	if size < 0 {
		size = 1
	}
	balance, err := r.opt.Ledger.Get(ctx, r.opt.DB, r.b.Account)
	if err != nil || balance.Total == nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if left := balance.Available() - r.promised; size > left {
		return 0, drive.Fail(drive.Quota, "needed", size, "available", max(0, left))
	}
	r.promised += size
	return size, nil
}

func (r *run) keepPromise(size drive.ByteSize) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.promised -= size
}

// onePart is the part size of content that is one part.
func onePart(size drive.ByteSize) drive.ByteSize {
	if size <= drive.MiB {
		return drive.MiB
	}
	return 1 << bits.Len64(uint64(size-1))
}

func (r *run) arrived(ctx context.Context, w want, doc *fetch.Document, part blob.Part, n content.New) error {
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	n.Account = r.b.Account
	inspector := content.Inspector{Content: r.opt.Content, DB: r.opt.DB, Store: r.opt.Store, Log: r.opt.Log}
	if err := inspector.Prepare(ctx, &n); err != nil {
		return err
	}
	p := pin{w: w, size: part.Size, crc32: part.CRC32, mtime: pick(w.MTime, pick(doc.Modified, now)), charged: part.Size}
	err = r.record(ctx, dealt{pins: []pin{p}}, 0, func(ctx context.Context, tx *sqldb.Tx) (drive.BlobID, error) {
		id, _, err := r.opt.Content.Attach(ctx, tx, n)
		return id, err
	})
	if err == nil {
		r.halt("arrived")
	}
	return err
}
