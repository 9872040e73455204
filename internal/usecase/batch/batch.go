package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/turn"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload"
)

// Options configure New; all fields except LongTurns are required.
type Options struct {
	DB      *sqldb.DB
	Tree    *tree.Tree
	Ledger  quota.Ledger
	Uploads *upload.Sessions
	Files   *files.Files
	Keys    *idem.Keys
	// LongTurns limits long transactions and may be shared with other users. Default:
	// turn.NewLongLimiter.
	LongTurns *turn.LongLimiter
}

// Batches runs batches. It is safe for concurrent use.
type Batches struct {
	opt       Options
	buffer    *semaphore.Weighted // bytes of files buffered for a distant store
	groupSize atomic.Int64        // items per transaction, adjusted by adaptSize
}

// Limits of one batch and of all batches.
const (
	maxGroup     = 128                   // items per transaction: about 10 ms of SQLite's writer, and of the lock on an account
	minGroup     = 16                    // lower bound of adaptSize on a slow machine
	slowGroup    = 20 * time.Millisecond // a transaction slower than this makes the next ones smaller
	maxBytes     = 8 * drive.MiB         // bytes of files per group: bounds the wait for a sync
	maxGap       = 2 * time.Millisecond  // a gap this long between items ends a group, so that nobody waits behind a slow client
	maxWait      = 20 * time.Millisecond // a group collects items at most this long, counted from its first item
	maxReadAhead = 256                   // items read ahead while a group is committed
	maxFarWrites = 16                    // concurrent writes of one batch to a distant store
	maxFarBuffer = 16 * drive.MiB        // bytes buffered by all batches for such writes
)

// New returns Batches.
func New(opt Options) *Batches {
	opt.LongTurns = cmp.Or(opt.LongTurns, turn.NewLongLimiter(opt.DB.Concurrency))
	b := &Batches{opt: opt, buffer: semaphore.NewWeighted(int64(maxFarBuffer))}
	b.groupSize.Store(maxGroup)
	return b
}

// run is one call of Batches.Run: one goroutine reads items and stores their bytes, another commits
// them in groups.
type run struct {
	*Batches
	who    drive.Who
	series *idem.Series
	source Source
	tell   func([]Answer) error // Run's tell

	ahead  chan *pending // items read and not committed yet
	stop   chan struct{} // closed when reading must stop
	writes chan struct{} // holds a token per write to a distant store
}

// Run executes a batch. key is its idempotency key; with the zero Key the batch cannot be repeated.
// tell is called with the answers of each group in item order; an error of tell ends the batch.
//
// If Run returns an error the batch ended early. Items whose answers were passed to tell are done;
// any number of the others may be done, too. A repeat under the same key continues after the items
// done.
func (b *Batches) Run(ctx context.Context, who drive.Who, key idem.Request, from Source, tell func([]Answer) error) error {
	series, err := b.opt.Keys.OpenSeries(ctx, key)
	if err != nil {
		return err
	}
	r := &run{
		Batches: b, who: who, series: series, source: from, tell: tell,
		ahead: make(chan *pending, maxReadAhead), stop: make(chan struct{}), writes: make(chan struct{}, maxFarWrites),
	}
	read := make(chan error, 1)
	go func() {
		defer close(r.ahead)
		read <- guarded(func() error { return r.read(ctx) })
	}()
	err = r.commitAll(context.WithoutCancel(ctx)) // what was received is kept, even if the client has gone
	close(r.stop)
	if err != nil {
		from.Stop()
	}
	var rest []*pending
	for p := range r.ahead {
		rest = append(rest, p)
	}
	err = errors.Join(err, r.discard(ctx, rest...))
	if readErr := <-read; err == nil { // otherwise it may result from Stop
		err = readErr
	}
	return err
}

// guarded runs step and turns a panic into its error, so that the batch ends and cleans up and
// other batches continue.
func guarded(step func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in a batch: %v\n%s", v, debug.Stack())
		}
	}()
	return step()
}

// discard removes, in one call, the stored contents of items that will not be executed, and sets
// their result to Unavailable. It first waits for contents that are still being stored. Its error
// is that of the removal.
func (r *run) discard(ctx context.Context, all ...*pending) error {
	var laid []*upload.UnsyncedFile
	for _, p := range all {
		p.await()
		if p.laid != nil {
			p.laid.SetError(drive.Fail(drive.Unavailable))
			laid = append(laid, p.laid)
		}
	}
	return guarded(func() error { return r.opt.Uploads.ReleaseUnsynced(ctx, nil, laid) })
}

// await blocks until the item's content is stored or has failed.
func (p *pending) await() {
	if p.ready != nil {
		<-p.ready
	}
}

// read receives the items of the source, one after another, and returns nil at its end. It returns
// an error if the source fails or the batch stops.
func (r *run) read(ctx context.Context) error {
	for {
		item, err := r.source.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		p := &pending{Item: item}
		r.receive(ctx, p)
		if err := r.source.Err(); err != nil { // the source failed within this item
			return errors.Join(err, r.discard(ctx, p))
		}
		select {
		case r.ahead <- p:
		case <-r.stop:
			return r.discard(ctx, p)
		}
	}
}

// receive stores the bytes of a Put item, with a remote store perhaps in the background: call
// p.await before reading its results. An item that an earlier attempt under the same idempotency
// key has executed is only hashed. Errors of the item are in p.Err.
func (r *run) receive(ctx context.Context, p *pending) {
	if r.series != nil {
		if done, ok := r.series.Done[p.N]; ok {
			p.done = &done
			p.setMark(sumOf(p.Body))
			return
		}
	}
	switch {
	case p.Err != nil:
	case p.Op == Put:
		r.store(ctx, p)
	default:
		p.setMark(digest.Sum{})
	}
}

// sumOf returns the digest of body; zero if body is nil or fails.
func sumOf(body io.Reader) digest.Sum {
	if body == nil {
		return digest.Sum{}
	}
	hash := digest.NewPart(0)
	if _, err := io.Copy(hash, body); err != nil { // the source reports the error
		return digest.Sum{}
	}
	return hash.Root()
}

// store stores the bytes of a Put item. If the store has a high latency and the buffer has room, it
// reads the bytes into memory and stores them in a goroutine, while later items are read; p.await
// waits for that. Errors are in p.Err.
func (r *run) store(ctx context.Context, p *pending) {
	size := int64(p.File.Size)
	if !r.opt.Uploads.Store.Caps().HighLatency || p.File.Size > upload.MaxUnsyncedSize || !r.buffer.TryAcquire(size) {
		r.storeFrom(ctx, p, p.Body)
		return
	}
	bytes, err := readAll(p.Body, size)
	if err != nil { // the source reports the error
		r.buffer.Release(size)
		p.Err = err
		return
	}
	p.ready = make(chan struct{})
	r.writes <- struct{}{}
	go func() {
		defer func() {
			r.buffer.Release(size)
			<-r.writes
			close(p.ready)
		}()
		r.storeFrom(ctx, p, bytes)
	}()
}

// storeFrom stores body and sets p.laid and p.mark, or p.Err. It continues even if ctx has ended.
func (r *run) storeFrom(ctx context.Context, p *pending, body io.Reader) {
	p.Err = guarded(func() (err error) {
		who := r.who
		who.Tokens = p.Tokens
		p.laid, err = r.opt.Uploads.PutUnsynced(context.WithoutCancel(ctx), who, p.File, p.Condition, body)
		return err
	})
	if p.Err == nil {
		p.setMark(p.laid.Sum())
	}
}
