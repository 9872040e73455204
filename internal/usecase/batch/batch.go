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

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/idem"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/turn"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/upload"
)

// Options are what batches stand on; all but Turns are required.
type Options struct {
	DB      *sqldb.DB
	Tree    *tree.Tree
	Ledger  quota.Ledger
	Uploads *upload.Sessions
	Files   *files.Files
	Keys    *idem.Keys
	// Turns are those of long transactions, which others may share. Default: turn.NewLong.
	Turns *turn.Long
}

// Batches does batches. It is safe for concurrent use.
type Batches struct {
	opt  Options
	room *semaphore.Weighted // bytes of files that are on their way to a store that is far
	most atomic.Int64        // items of the next transactions: see pace
}

// Limits of one batch and of all of them.
const (
	maxGroup  = 128                   // items of one transaction: some 10 ms of SQLite's writer, and of the lock on an account
	minGroup  = 16                    // that a slow machine makes of it: see pace
	slowGroup = 20 * time.Millisecond // for one transaction: the next ones have fewer items
	maxBytes  = 8 * drive.MiB         // of files of one group: what a sync may have to wait for
	pause     = 2 * time.Millisecond  // without an item ends a group: fewer syncs, and nobody waits behind a slow client
	longest   = 20 * time.Millisecond // of waiting and reading, from the first item of a group on
	maxAhead  = 256                   // items that are laid while a group is committed
	farAtOnce = 16                    // files of one batch on their way to a store that is far
	farRoom   = 16 * drive.MiB        // bytes of files of all batches in memory for it
)

// New returns Batches.
func New(opt Options) *Batches {
	opt.Turns = cmp.Or(opt.Turns, turn.NewLong(opt.DB.Concurrency))
	b := &Batches{opt: opt, room: semaphore.NewWeighted(int64(farRoom))}
	b.most.Store(maxGroup)
	return b
}

// run is one batch.
type run struct {
	*Batches
	who    drive.Who
	series *idem.Series
	from   Source
	tell   func([]Answer) error

	ahead chan *pending
	stop  chan struct{} // closed when no item is to be read any more
	lanes chan struct{} // holds a token for each file on its way to a store that is far
}

// Run does a batch. key names it; the zero Key is a batch that cannot be repeated. tell is called
// with the answers of each group, in the order of the items; its error ends the batch.
//
// The error is why the batch has ended before its end: what was told is done, and of the rest
// nobody knows how much is. A repeat under the key goes on.
func (b *Batches) Run(ctx context.Context, who drive.Who, key idem.Request, from Source, tell func([]Answer) error) error {
	series, err := b.opt.Keys.OpenSeries(ctx, key)
	if err != nil {
		return err
	}
	r := &run{
		Batches: b, who: who, series: series, from: from, tell: tell,
		ahead: make(chan *pending, maxAhead), stop: make(chan struct{}), lanes: make(chan struct{}, farAtOnce),
	}
	read := make(chan error, 1)
	go func() {
		defer close(r.ahead)
		read <- guarded(func() error { return r.read(ctx) })
	}()
	err = r.commitAll(context.WithoutCancel(ctx)) // what has arrived is kept, also of a client that has gone
	close(r.stop)
	if err != nil {
		from.Stop()
	}
	var rest []*pending
	for p := range r.ahead {
		rest = append(rest, p)
	}
	err = errors.Join(err, r.discard(ctx, rest...))
	if readErr := <-read; err == nil { // else it may be that of Stop
		err = readErr
	}
	return err
}

// guarded does a step of a batch. A panic in it is the error of the step: the batch ends, what it
// has begun is cleared away, and other batches do not notice.
func guarded(step func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in a batch: %v\n%s", v, debug.Stack())
		}
	}()
	return step()
}

// discard gives up items that will not be done. Their contents are removed together: they may lie
// together.
func (r *run) discard(ctx context.Context, all ...*pending) error {
	var laid []*upload.Laid
	for _, p := range all {
		p.await()
		if p.laid != nil {
			p.laid.Refuse(drive.Fail(drive.Unavailable))
			laid = append(laid, p.laid)
		}
	}
	return guarded(func() error { return r.opt.Uploads.EndLaid(ctx, nil, laid) })
}

func (p *pending) await() {
	if p.ready != nil {
		<-p.ready
	}
}

// read takes the items as they come.
func (r *run) read(ctx context.Context) error {
	for {
		item, err := r.from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		p := &pending{Item: item}
		r.receive(ctx, p)
		if err := r.from.Err(); err != nil { // in the middle of this one
			return errors.Join(err, r.discard(ctx, p))
		}
		select {
		case r.ahead <- p:
		case <-r.stop:
			return r.discard(ctx, p)
		}
	}
}

// receive takes the bytes of an item, and looks whether it was done before.
func (r *run) receive(ctx context.Context, p *pending) {
	if r.series != nil {
		if done, ok := r.series.Done[p.N]; ok {
			p.done = &done
			p.marked(sumOf(p.Body))
			return
		}
	}
	switch {
	case p.Err != nil:
	case p.Op == Put:
		r.lay(ctx, p)
	default:
		p.marked(digest.Sum{})
	}
}

// sumOf reads bytes that are there already.
func sumOf(body io.Reader) digest.Sum {
	if body == nil {
		return digest.Sum{}
	}
	hash := digest.NewPart(0)
	if _, err := io.Copy(hash, body); err != nil { // the source knows
		return digest.Sum{}
	}
	return hash.Root()
}

// lay brings the bytes of a file to the store: as they come, or, where a store is far, beside those
// that follow, as long as there is memory for it.
func (r *run) lay(ctx context.Context, p *pending) {
	size := int64(p.File.Size)
	if !r.opt.Uploads.Store.Caps().Far || p.File.Size > upload.LaidSize || !r.room.TryAcquire(size) {
		r.layFrom(ctx, p, p.Body)
		return
	}
	bytes, err := readAll(p.Body, size)
	if err != nil { // the source knows
		r.room.Release(size)
		p.Err = err
		return
	}
	p.ready = make(chan struct{})
	r.lanes <- struct{}{}
	go func() {
		defer func() {
			r.room.Release(size)
			<-r.lanes
			close(p.ready)
		}()
		r.layFrom(ctx, p, bytes)
	}()
}

func (r *run) layFrom(ctx context.Context, p *pending, body io.Reader) {
	p.Err = guarded(func() (err error) {
		who := r.who
		who.Tokens = p.Tokens
		p.laid, err = r.opt.Uploads.Lay(context.WithoutCancel(ctx), who, p.File, p.If, body)
		return err
	})
	if p.Err == nil {
		p.marked(p.laid.Sum())
	}
}
