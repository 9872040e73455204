package client

import (
	"context"
	"encoding/hex"
	"io"
	"sync/atomic"
	"time"

	"lukechampine.com/blake3"
)

// Small files of a tree go by batch: one request for many of them, so that neither the line's delay
// nor the server's disk is waited for by each. What one batch does not settle, a transfer of its
// own does: a file that has changed while it was read, an answer that another attempt may better, a
// server that takes no batches.

// Sizes of the batches of a tree.
const (
	batchedFile  = 256 << 10 // a file up to this goes by batch, in bytes
	batchedBytes = 4 << 20   // of the files of one batch: some of them in memory
	batchedItems = 250       // in one batch; their answers fit into what a server keeps for who does not read
	leastBatch   = 256 << 10 // a proxy that takes no more than this gets files one by one
	batchLanes   = 4         // batches on their way at once, so that the line is never idle
)

// entry is a file or folder that waits for its batch.
type entry struct {
	item Item
	src  Source
	opt  PutOptions
	dest string
	dir  bool
}

// batcher collects the small files of a tree.
type batcher struct {
	u      *Uploader
	w      *crew
	off    atomic.Bool  // the server takes none
	most   atomic.Int64 // bytes of a batch
	lanes  chan struct{}
	queued []entry
	bytes  int64
}

func newBatcher(u *Uploader, w *crew) *batcher {
	b := &batcher{u: u, w: w, lanes: make(chan struct{}, min(batchLanes, u.opt.Files))}
	b.most.Store(batchedBytes)
	b.off.Store(u.opt.Single)
	return b
}

// takes reports whether a file goes by batch.
func (b *batcher) takes(size int64) bool { return size <= batchedFile && !b.off.Load() }

// add puts a file or folder into the next batch, and sends it when it is full. It fails only when
// the whole is to stop.
func (b *batcher) add(ctx context.Context, e entry) error {
	b.queued = append(b.queued, e)
	b.bytes += e.src.Size
	if len(b.queued) < batchedItems && b.bytes < b.most.Load() {
		return nil
	}
	return b.flush(ctx)
}

// flush sends what waits.
func (b *batcher) flush(ctx context.Context) error {
	all := b.queued
	b.queued, b.bytes = nil, 0
	return b.start(ctx, len(all), func() (after func()) {
		b.send(ctx, all)
		return func() {}
	})
}

// start does a batch of so many items beside others, and what is to be done once its connection is
// free.
func (b *batcher) start(ctx context.Context, items int, do func() (after func())) error {
	if items == 0 {
		return nil
	}
	select {
	case b.lanes <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := b.w.room.Acquire(ctx, 1); err != nil {
		<-b.lanes
		return context.Cause(ctx)
	}
	b.w.wait.Go(func() {
		defer func() { <-b.lanes }()
		b.connected(do)()
	})
	return nil
}

// connected does what takes the connection that was acquired for it.
func (b *batcher) connected(do func() (after func())) (after func()) {
	defer b.w.room.Release(1)
	return do()
}

// send does the items of one batch.
func (b *batcher) send(ctx context.Context, all []entry) {
	var on []entry
	var items []BatchItem
	var sums []string
	for _, e := range all {
		item, sum, err := b.read(ctx, e)
		if err != nil {
			b.alone(ctx, e)
			continue
		}
		if item == nil { // it is there
			continue
		}
		on, items, sums = append(on, e), append(items, *item), append(sums, sum)
	}
	if len(items) == 0 {
		return
	}
	p := newPatience(b.u.opt.GiveUp)
	p.notify = func(err error, _ time.Duration) { b.waiting(on, err) }
	answers, err := b.u.c.batch(ctx, items, p)
	if err != nil && LacksBatch(err) {
		b.shrink()
		for _, e := range on {
			b.alone(ctx, e)
		}
		return
	}
	for i, e := range on {
		if answers == nil || answers[i].Node == nil && answers[i].Err == nil { // it has no answer
			e.item.Err = err
			b.w.ended(ctx, e.item)
			continue
		}
		b.settle(ctx, e, items[i], answers[i], sums[i])
	}
}

// shrink makes the next batches smaller; in the end there are none.
func (b *batcher) shrink() {
	if most := b.most.Load() / 4; most >= leastBatch {
		b.most.Store(most)
		return
	}
	b.off.Store(true)
}

// read makes the item of a batch. nil: the file is there already, and has ended.
func (b *batcher) read(ctx context.Context, e entry) (_ *BatchItem, sum string, err error) {
	if e.dir {
		return &BatchItem{Op: BatchFolder, Path: e.dest, Parents: true}, "", nil
	}
	file, err := e.src.Open()
	if err != nil {
		return nil, "", err
	}
	defer letGo(file)
	if e.opt.Known != nil {
		t := &transfer{u: b.u, src: e.src, dest: e.dest, opt: e.opt, meter: newMeter(nil, Event{}), file: file}
		if res, same, err := t.isSame(ctx); same || err != nil {
			if err == nil {
				b.over(ctx, e, res, nil)
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
		Op: BatchPut, Path: e.dest, Conflict: orElse(e.opt.Conflict, Fail), Parents: true, Digests: Digests{blake3Name: sum}, Content: content,
	}
	if mtime := e.src.Mtime.UTC(); !mtime.IsZero() {
		item.Mtime = &mtime
	}
	return item, sum, nil
}

// settle ends an item by its answer. The server has compared what it stored with the digest that
// came with it, and shows the file as it is by then: with another digest it is a later version.
func (b *batcher) settle(ctx context.Context, e entry, item BatchItem, a BatchAnswer, sum string) {
	switch {
	case e.dir:
		b.settleFolder(ctx, e, a)
	case IsCode(a.Err, CodeNameTaken, CodeDigestMismatch), a.Err != nil && judge(a.Err).again:
		b.alone(ctx, e) // which finds out whether the same content is there, or sends it again
	case a.Err != nil:
		b.over(ctx, e, Result{}, a.Err)
	default:
		res := Result{Node: *a.Node, State: StateSent, Moved: int64(len(item.Content))}
		if got := a.Node.Digests[blake3Name]; got != "" && got != sum {
			res.Note = noteReplaced
		}
		b.over(ctx, e, res, nil)
	}
}

// settleFolder counts a folder that was made. A file that was faster may have made it.
func (b *batcher) settleFolder(ctx context.Context, e entry, a BatchAnswer) {
	err := a.Err
	if IsCode(err, CodeNameTaken) {
		var n Node
		if n, err = b.u.c.NodeAt(ctx, e.dest); err == nil && n.Type != Folder {
			err = a.Err
		}
	}
	if err != nil {
		e.item.Err = err
		b.w.ended(ctx, e.item)
		return
	}
	b.w.count(func(s *Summary) { s.Folders++ })
}

// alone does an item by a transfer of its own.
func (b *batcher) alone(ctx context.Context, e entry) {
	if e.dir {
		_, _, err := b.u.c.MakeFolder(ctx, e.dest)
		b.settleFolder(ctx, e, BatchAnswer{Err: err})
		return
	}
	e.item.Result, e.item.Err = b.u.Put(ctx, e.src, e.dest, e.opt)
	b.w.ended(ctx, e.item)
}

// over ends a file.
func (b *batcher) over(ctx context.Context, e entry, res Result, err error) {
	m := newMeter(e.opt.Progress, Event{Path: e.dest, Local: e.src.Name, State: StateSending, Total: e.src.Size})
	if err != nil {
		m.end(StateFailed, err)
	} else {
		m.end(res.State, nil)
	}
	e.item.Result, e.item.Err = res, err
	b.w.ended(ctx, e.item)
}

// waiting tells of an attempt that failed, by the first file of the batch.
func (b *batcher) waiting(on []entry, err error) {
	if progress := on[0].opt.Progress; progress != nil {
		progress(Event{Path: on[0].dest, Local: on[0].src.Name, State: StateWaiting, Total: on[0].src.Size, Err: err})
	}
}
