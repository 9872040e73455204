package client

import (
	"context"
	"encoding/hex"
	"io"
	"sync/atomic"
	"time"

	"lukechampine.com/blake3"
)

// Small files of a tree are sent in batches, many per request, so that neither network latency nor
// the server's disk syncs are paid per file. Files that a batch cannot finish are sent on their
// own: files that changed while being read, answers that a retry may improve, servers without
// batches.

// Limits of the batches of a tree.
const (
	maxBatchedFile  = 256 << 10 // largest file that is batched, in bytes
	maxBatchContent = 4 << 20   // total size of the files of one batch, in bytes; several batches are in memory at once
	maxBatchItems   = 250       // items of one batch; the server can buffer their answers while the client is still sending
	minBatchBytes   = 256 << 10 // if a proxy refuses batches of this size, files are sent one by one
	maxBatches      = 4         // concurrent batches, which keep the connection busy
)

// batchEntry is a file or folder to be sent in a batch.
type batchEntry struct {
	item Item
	src  Source
	opt  PutOptions
	dest string // path on the server
	dir  bool
}

// batcher queues the small files of a tree and sends them in batches.
type batcher struct {
	u        *Uploader
	pool     *pool
	disabled atomic.Bool  // batches are disabled or unsupported by the server
	maxBytes atomic.Int64 // size limit of a batch in bytes
	slots    chan struct{}
	queued   []batchEntry
	bytes    int64
}

// newBatcher returns a batcher for the tree of pool w.
func newBatcher(u *Uploader, w *pool) *batcher {
	b := &batcher{u: u, pool: w, slots: make(chan struct{}, min(maxBatches, u.opt.Files))}
	b.maxBytes.Store(maxBatchContent)
	b.disabled.Store(u.opt.NoBatching)
	return b
}

// accepts reports whether a file of that size is to be batched.
func (b *batcher) accepts(size int64) bool { return size <= maxBatchedFile && !b.disabled.Load() }

// add queues a file or folder, and sends the queue in the background if it is full. It fails only
// if ctx ends; the whole tree then stops.
func (b *batcher) add(ctx context.Context, e batchEntry) error {
	b.queued = append(b.queued, e)
	b.bytes += e.src.Size
	if len(b.queued) < maxBatchItems && b.bytes < b.maxBytes.Load() {
		return nil
	}
	return b.flush(ctx)
}

// flush starts to send the queued items in the background, once a batch slot and a connection are
// free. It fails only if ctx ends; the whole tree then stops.
func (b *batcher) flush(ctx context.Context) error {
	all := b.queued
	b.queued, b.bytes = nil, 0
	return b.start(ctx, len(all), func() (after func()) {
		b.send(ctx, all)
		return func() {}
	})
}

// start runs do in the background, once a batch slot and a connection are free. Then it releases
// the connection and runs the function that do returned. For 0 items it does nothing. It fails only
// if ctx ends; the whole tree then stops.
func (b *batcher) start(ctx context.Context, items int, do func() (after func())) error {
	if items == 0 {
		return nil
	}
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := b.pool.slots.Acquire(ctx, 1); err != nil {
		<-b.slots
		return context.Cause(ctx)
	}
	b.pool.running.Go(func() {
		defer func() { <-b.slots }()
		b.withConnection(do)()
	})
	return nil
}

// withConnection runs do and then releases the connection that the caller has acquired for it. It
// returns the function that do returned, which the caller runs without a connection.
func (b *batcher) withConnection(do func() (after func())) (after func()) {
	defer b.pool.slots.Release(1)
	return do()
}

// send sends the entries as one batch and reports each item to the pool once. Entries that cannot
// be read whole, and all entries if the server or a proxy refuses the batch, are sent alone. It
// waits for the batch.
func (b *batcher) send(ctx context.Context, all []batchEntry) {
	var on []batchEntry
	var items []BatchItem
	var sums []string
	for _, e := range all {
		item, sum, err := b.read(ctx, e)
		if err != nil {
			b.sendAlone(ctx, e)
			continue
		}
		if item == nil { // same file at dest, finished
			continue
		}
		on, items, sums = append(on, e), append(items, *item), append(sums, sum)
	}
	if len(items) == 0 {
		return
	}
	p := newRetryBudget(b.u.opt.RetryFor)
	p.notify = func(err error, _ time.Duration) { b.reportRetry(on, err) }
	answers, err := b.u.c.batch(ctx, items, p)
	if err != nil && IsBatchUnsupported(err) {
		b.shrink()
		for _, e := range on {
			b.sendAlone(ctx, e)
		}
		return
	}
	for i, e := range on {
		if answers == nil || answers[i].Node == nil && answers[i].Err == nil { // unanswered
			e.item.Err = err
			b.pool.report(ctx, e.item)
			continue
		}
		b.handleAnswer(ctx, e, items[i], answers[i], sums[i])
	}
}

// shrink reduces the size of the next batches to a quarter, and below minBatchBytes disables
// batches.
func (b *batcher) shrink() {
	if most := b.maxBytes.Load() / 4; most >= minBatchBytes {
		b.maxBytes.Store(most)
		return
	}
	b.disabled.Store(true)
}

// read reads a file and returns its batch item and digest. The item is nil if the remote file is
// the same; the file is finished then.
func (b *batcher) read(ctx context.Context, e batchEntry) (_ *BatchItem, sum string, err error) {
	if e.dir {
		return &BatchItem{Op: BatchFolder, Path: e.dest, Parents: true}, "", nil
	}
	file, err := e.src.Open()
	if err != nil {
		return nil, "", err
	}
	defer closeQuietly(file)
	if e.opt.Known != nil {
		t := &transfer{u: b.u, src: e.src, dest: e.dest, opt: e.opt, meter: newMeter(nil, Event{}), file: file}
		if res, same, err := t.isSame(ctx); same || err != nil {
			if err == nil {
				b.finishFile(ctx, e, res, nil)
			}
			return nil, "", err
		}
	}
	content := make([]byte, e.src.Size)
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, e.src.Size), content); err != nil {
		return nil, "", err
	}
	if err := e.src.check(); err != nil {
		return nil, "", err
	}
	digest := blake3.Sum256(content)
	sum = hex.EncodeToString(digest[:])
	item := &BatchItem{
		Op: BatchPut, Path: e.dest, Conflict: orDefault(e.opt.Conflict, Fail), Parents: true, Digests: Digests{blake3Name: sum}, Content: content,
	}
	if mtime := e.src.Mtime.UTC(); !mtime.IsZero() {
		item.Mtime = &mtime
	}
	return item, sum, nil
}

// handleAnswer finishes an item by its answer. The server verified the digest, so a node with
// another digest was replaced since.
func (b *batcher) handleAnswer(ctx context.Context, e batchEntry, item BatchItem, a BatchResult, sum string) {
	switch {
	case e.dir:
		b.finishFolder(ctx, e, a)
	case IsCode(a.Err, CodeNameTaken, CodeDigestMismatch), a.Err != nil && classifyError(a.Err).retry:
		b.sendAlone(ctx, e) // compares with the existing file, or sends it again
	case a.Err != nil:
		b.finishFile(ctx, e, Result{}, a.Err)
	default:
		res := Result{Node: *a.Node, State: StateSent, Moved: int64(len(item.Content))}
		if got := a.Node.Digests[blake3Name]; got != "" && got != sum {
			res.Note = noteReplaced
		}
		b.finishFile(ctx, e, res, nil)
	}
}

// finishFolder counts a created folder. An existing folder of that name is success, because a file
// of the batch may have created it.
func (b *batcher) finishFolder(ctx context.Context, e batchEntry, a BatchResult) {
	err := a.Err
	if IsCode(err, CodeNameTaken) {
		var n Node
		if n, err = b.u.c.NodeAt(ctx, e.dest); err == nil && n.Type != Folder {
			err = a.Err
		}
	}
	if err != nil {
		e.item.Err = err
		b.pool.report(ctx, e.item)
		return
	}
	b.pool.update(func(s *Summary) { s.Folders++ })
}

// sendAlone uploads one file, or makes one folder, with requests of its own instead of a batch, and
// reports the result to the pool.
func (b *batcher) sendAlone(ctx context.Context, e batchEntry) {
	if e.dir {
		_, _, err := b.u.c.MakeFolder(ctx, e.dest)
		b.finishFolder(ctx, e, BatchResult{Err: err})
		return
	}
	e.item.Result, e.item.Err = b.u.Put(ctx, e.src, e.dest, e.opt)
	b.pool.report(ctx, e.item)
}

// finishFile emits the file's final event and reports its result to the pool. Each entry must be
// finished once.
func (b *batcher) finishFile(ctx context.Context, e batchEntry, res Result, err error) {
	m := newMeter(e.opt.Progress, Event{Path: e.dest, Local: e.src.Name, State: StateSending, Total: e.src.Size})
	if err != nil {
		m.finish(StateFailed, err)
	} else {
		m.finish(res.State, nil)
	}
	e.item.Result, e.item.Err = res, err
	b.pool.report(ctx, e.item)
}

// reportRetry reports a failed attempt as progress of the batch's first file.
func (b *batcher) reportRetry(on []batchEntry, err error) {
	if progress := on[0].opt.Progress; progress != nil {
		progress(Event{Path: on[0].dest, Local: on[0].src.Name, State: StateWaiting, Total: on[0].src.Size, Err: err})
	}
}
