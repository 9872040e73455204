package client

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// Small files of a tree come many in one stream. Each is written beside its target, or into a draft
// of its folder, compared with its digest, and gets its name once it is durable, which many become
// together. A stream that breaks off goes on with the files that have not come.

// Sizes of the streams of a tree.
const (
	streamedFile  = 256 << 10       // a file up to this comes in a stream, in bytes
	streamedBytes = 32 << 20        // of the files of one stream
	streamLanes   = 4               // streams at once: some are received while the files of others are made durable
	syncsAtOnce   = 16              // files that are synced at a time, where they cannot be together
	syncedWhole   = 64              // files that are worth a sync of the file system
	slowSync      = 5 * time.Second // for one that others have much to write to; the next files are synced one by one
)

// wanted is a small file that waits for its stream.
type wanted struct {
	item Item
	node Node
	rel  string // its place below the local folder
	opt  GetOptions
	made *made // its folder, where this run has made it; in a stream: its folder has a draft
}

// collector collects the small files of a tree.
type collector struct {
	d      *Downloader
	w      *crew
	root   *os.Root
	off    atomic.Bool // the server has no such streams
	each   atomic.Bool // files are synced one by one
	run    run
	lanes  chan struct{}
	queued []wanted
	bytes  int64
}

func newCollector(d *Downloader, w *crew, root *os.Root) *collector {
	c := &collector{d: d, w: w, root: root, run: run{root: root}, lanes: make(chan struct{}, min(streamLanes, d.opt.Files))}
	c.off.Store(d.opt.Single)
	return c
}

// takes reports whether a file comes in a stream. What an interrupted download of it alone has left
// goes on so. empty: there is nothing in its folder.
func (c *collector) takes(n Node, rel string, empty bool) bool {
	if n.Size > streamedFile || c.off.Load() || n.Digests[blake3Name] == "" {
		return false
	}
	if empty {
		return true
	}
	part, _ := partNames(rel)
	_, err := c.root.Lstat(part)
	return errors.Is(err, fs.ErrNotExist)
}

func (c *collector) add(ctx context.Context, f wanted) error {
	if len(c.queued) == MaxBatchItems || c.bytes+f.node.Size > streamedBytes { // and not as soon as it is full: a folder may be, too
		if err := c.flush(ctx); err != nil {
			return err
		}
	}
	c.queued = append(c.queued, f)
	c.bytes += f.node.Size
	return nil
}

// flush fetches what waits.
func (c *collector) flush(ctx context.Context) error {
	all := c.queued
	c.queued, c.bytes = nil, 0
	if len(all) == 0 {
		return nil
	}
	chooseDrafts(all)
	select {
	case c.lanes <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.w.wait.Go(func() {
		defer func() { <-c.lanes }()
		c.fetch(ctx, all)
	})
	return nil
}

// fetch fetches files in a stream. Those that have changed since they were listed come in another
// one, with their nodes as they are now.
func (c *collector) fetch(ctx context.Context, all []wanted) {
	c.run.expect(all)
	changed := c.stream(ctx, all, true)
	noDrafts(changed)
	c.alone(ctx, c.stream(ctx, changed, false), true)
}

// stream fetches files in one stream, in several if it breaks off. known: nodes are taken from the
// list, and files that have changed since then are returned.
func (c *collector) stream(ctx context.Context, all []wanted, known bool) (changed []wanted) {
	p := newPatience(c.d.opt.GiveUp)
	p.notify = func(err error, _ time.Duration) {
		if progress := all[0].opt.Progress; progress != nil { // whoever waits, waits for some
			progress(Event{Path: all[0].node.Path, Local: all[0].item.Local, State: StateWaiting, Total: all[0].node.Size, Err: err})
		}
	}
	for failures := 0; len(all) > 0; {
		s := newStream(c, all, known)
		err := c.attempt(ctx, s)
		if s.done > 0 {
			p.touch()
			failures = 0
		}
		all, changed = all[s.done:], append(changed, s.changed...)
		noDrafts(all)
		switch {
		case err == nil, len(all) == 0: // all have come, if not the line at the end
			continue
		case ctx.Err() != nil:
			return nil
		case LacksBatch(err):
			c.off.Store(true)
			c.alone(ctx, all, false)
			return changed
		}
		failures++
		if err := c.d.c.pause(ctx, p, judge(err), failures, err); err != nil {
			for _, f := range all {
				c.over(ctx, f, Result{}, err)
			}
			return changed
		}
	}
	return changed
}

// alone fetches files each by itself, beside each other: what is wrong with one takes a while to
// tell. afresh: as they are now, since they have changed; the time of one may be all that has.
func (c *collector) alone(ctx context.Context, all []wanted, afresh bool) {
	for _, f := range all {
		err := c.w.run(ctx, 1, f.item, func(ctx context.Context) (Result, error) {
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

// over ends a file.
func (c *collector) over(ctx context.Context, f wanted, res Result, err error) {
	m := newMeter(f.opt.Progress, Event{Path: f.node.Path, Local: f.item.Local, State: StateReceiving, Total: f.node.Size})
	if err != nil {
		m.end(StateFailed, err)
		res = Result{}
	} else {
		m.end(res.State, nil)
	}
	f.item.Result, f.item.Err = res, err
	c.w.ended(ctx, f.item)
}
