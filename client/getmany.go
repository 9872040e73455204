package client

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// Small files of a tree are downloaded many per request, in a stream. Each is written beside its
// target or into a draft of its folder, verified by its digest, and renamed once durable; many
// files are made durable together. A broken stream is continued with the missing files.

// Limits of the streams of a tree.
const (
	maxStreamedFile   = 256 << 10       // largest file that is streamed, in bytes
	maxStreamBytes    = 32 << 20        // total size of the files of one stream, in bytes
	maxStreams        = 4               // concurrent streams: some receive while others sync
	maxSyncs          = 16              // concurrent fsyncs if the file system is not synced as a whole
	minFilesystemSync = 64              // fewer files than this are fsynced individually
	slowSync          = 5 * time.Second // a file system sync that takes longer makes later files be fsynced individually
)

// queuedFile is a small file to be streamed.
type queuedFile struct {
	item    Item
	node    Node
	rel     string // path below the local directory
	opt     GetOptions
	created *createdFolder // its folder if this run created it; in a stream, not nil means that the folder has a draft
}

// collector queues the small files of a tree and downloads them in streams.
type collector struct {
	d            *Downloader
	pool         *pool
	root         *os.Root
	disabled     atomic.Bool // streams are disabled or unsupported by the server
	syncEachFile atomic.Bool // fsync files individually
	run          downloadRun
	slots        chan struct{}
	queued       []queuedFile
	bytes        int64
}

// newCollector returns a collector of the small files of a tree that is downloaded into root. w
// counts their results.
func newCollector(d *Downloader, w *pool, root *os.Root) *collector {
	c := &collector{d: d, pool: w, root: root, run: downloadRun{root: root}, slots: make(chan struct{}, min(maxStreams, d.opt.Files))}
	c.disabled.Store(d.opt.NoBatching)
	return c
}

// accepts reports whether a file is to be streamed. A file with a partial file of an earlier single
// download is not, so that it resumes. empty reports that the file's folder was empty, so that no
// partial file exists.
func (c *collector) accepts(n Node, rel string, empty bool) bool {
	if n.Size > maxStreamedFile || c.disabled.Load() || n.Digests[blake3Name] == "" {
		return false
	}
	if empty {
		return true
	}
	part, _ := partNames(rel)
	_, err := c.root.Lstat(part)
	return errors.Is(err, fs.ErrNotExist)
}

// add queues a file. If the queue is full, it first flushes the files queued before, which may wait
// for a slot. It fails only if ctx ends; the whole tree then stops.
func (c *collector) add(ctx context.Context, f queuedFile) error {
	if len(c.queued) == MaxBatchItems || c.bytes+f.node.Size > maxStreamBytes { // flush late, because the folder of the last files may be complete by then
		if err := c.flush(ctx); err != nil {
			return err
		}
	}
	c.queued = append(c.queued, f)
	c.bytes += f.node.Size
	return nil
}

// flush starts the download of the queued files in the background, once one of maxStreams slots is
// free. Results are reported to the pool. It fails only if ctx ends; the whole tree then stops.
func (c *collector) flush(ctx context.Context) error {
	all := c.queued
	c.queued, c.bytes = nil, 0
	if len(all) == 0 {
		return nil
	}
	dropPartialDrafts(all)
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.pool.running.Go(func() {
		defer func() { <-c.slots }()
		c.fetch(ctx, all)
	})
	return nil
}

// fetch downloads files in a stream. Files that changed since they were listed follow in a second
// one with their current nodes, and what changes again is downloaded alone.
func (c *collector) fetch(ctx context.Context, all []queuedFile) {
	c.run.recordFolders(all)
	changed := c.stream(ctx, all, true)
	disableDrafts(changed)
	c.fetchAlone(ctx, c.stream(ctx, changed, false), true)
}

// stream downloads files in one stream, or several if the connection breaks, and reports their
// results. With known set, the reply carries no nodes, and files that changed since they were
// listed are returned instead of downloaded. If the server has no streams, each file is downloaded
// on its own.
func (c *collector) stream(ctx context.Context, all []queuedFile, known bool) (changed []queuedFile) {
	p := newRetryBudget(c.d.opt.RetryFor)
	p.notify = func(err error, _ time.Duration) {
		if progress := all[0].opt.Progress; progress != nil { // progress of one file stands for all
			progress(Event{Path: all[0].node.Path, Local: all[0].item.Local, State: StateWaiting, Total: all[0].node.Size, Err: err})
		}
	}
	for failures := 0; len(all) > 0; {
		s := newStream(c, all, known)
		err := c.attempt(ctx, s)
		if s.consumed > 0 {
			p.reset()
			failures = 0
		}
		all, changed = all[s.consumed:], append(changed, s.changed...)
		disableDrafts(all)
		switch {
		case err == nil, len(all) == 0: // all files received, even if the end line was lost
			continue
		case ctx.Err() != nil:
			return nil
		case IsBatchUnsupported(err):
			c.disabled.Store(true)
			c.fetchAlone(ctx, all, false)
			return changed
		}
		failures++
		if err := c.d.c.backoff(ctx, p, classifyError(err), failures, err); err != nil {
			for _, f := range all {
				c.finishFile(ctx, f, Result{}, err)
			}
			return changed
		}
	}
	return changed
}

// fetchAlone downloads each file with a request of its own, concurrently. afresh refetches the
// nodes first, because the files changed.
func (c *collector) fetchAlone(ctx context.Context, all []queuedFile, afresh bool) {
	for _, f := range all {
		err := c.pool.start(ctx, 1, f.item, func(ctx context.Context) (Result, error) {
			if afresh {
				if n, err := c.d.c.Node(ctx, f.node.ID); err == nil {
					f.node = n
				}
			}
			return c.d.get(ctx, c.root, f.rel, f.node, f.opt)
		})
		if err != nil {
			return
		}
	}
}

// finishFile emits the file's final event and reports its result to the pool. Each file must be
// finished once.
func (c *collector) finishFile(ctx context.Context, f queuedFile, res Result, err error) {
	m := newMeter(f.opt.Progress, Event{Path: f.node.Path, Local: f.item.Local, State: StateReceiving, Total: f.node.Size})
	if err != nil {
		m.finish(StateFailed, err)
		res = Result{}
	} else {
		m.finish(res.State, nil)
	}
	f.item.Result, f.item.Err = res, err
	c.pool.report(ctx, f.item)
}
