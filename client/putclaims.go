package client

import (
	"context"
	"sync"
	"time"
)

// Files of medium size (1 MiB up to a part) are first claimed: the client sends only their digests,
// many in one batch, and the server links the content if the account already has it. Files that
// miss are then sent. Smaller files are not claimed, because the server does not answer claims for
// them; larger files are claimed when their own upload begins.

// Limits of the claims of a tree.
const (
	minClaimSize   = 1 << 20 // bytes; the server links no smaller content
	maxClaimItems  = 32      // files in one batch
	minClaimSample = 64      // claims after which the hit ratio decides
	minHitRatio    = 20      // claim further files if at least one in so many hit; otherwise reading every file twice is not worth it
	probeInterval  = 16      // below that ratio, one file in so many is still claimed
)

// claimBatcher queues the files of a tree whose content the server may already have, and claims
// them in batches.
type claimBatcher struct {
	batcher *batcher
	queued  []batchEntry

	mu sync.Mutex
	// asked counts the claimed files, hits those that the server had, skipped those sent without a
	// claim.
	asked       int
	hits        int
	skipped     int
	unsupported bool // the server does not support claims
}

// accepts reports whether a file is to be claimed before it is sent: it is of medium size, no
// remote file of its name is known, and recent claims hit often enough.
func (c *claimBatcher) accepts(e batchEntry) bool {
	if e.src.Size < minClaimSize || e.src.Size > c.batcher.u.opt.PartSize || e.opt.Known != nil || c.batcher.disabled.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unsupported {
		return false
	}
	if c.asked < minClaimSample || c.hits*minHitRatio >= c.asked {
		return true
	}
	c.skipped++
	return c.skipped%probeInterval == 0
}

// add queues a file, and claims the queue if it is full. The error means that the whole tree stops.
func (c *claimBatcher) add(ctx context.Context, e batchEntry) error {
	if c.queued = append(c.queued, e); len(c.queued) < maxClaimItems {
		return nil
	}
	return c.flush(ctx)
}

// flush claims the queued files in the background and then sends the files that missed. The error
// means that the whole tree stops.
func (c *claimBatcher) flush(ctx context.Context) error {
	all := c.queued
	c.queued = nil
	return c.batcher.start(ctx, len(all), func() (after func()) {
		missed := c.claim(ctx, all)
		return func() {
			for _, e := range missed {
				if c.send(ctx, e) != nil {
					return
				}
			}
		}
	})
}

// send starts the upload of one file with requests of its own, once a connection of the pool is
// free. The pool reports the result. It fails only if ctx ends before.
func (c *claimBatcher) send(ctx context.Context, e batchEntry) error {
	return c.batcher.pool.start(ctx, 1, e.item, func(ctx context.Context) (Result, error) { return c.batcher.u.Put(ctx, e.src, e.dest, e.opt) })
}

// claim claims files in one batch, finishes the files that hit, and returns the others.
func (c *claimBatcher) claim(ctx context.Context, all []batchEntry) (missed []batchEntry) {
	var items []BatchItem
	var on []batchEntry
	for _, e := range all {
		item, err := c.item(e)
		if err != nil { // sending the file reports the error
			missed = append(missed, e)
			continue
		}
		on, items = append(on, e), append(items, item)
	}
	if len(on) == 0 {
		return missed
	}
	p := newRetryBudget(c.batcher.u.opt.RetryFor)
	p.notify = func(err error, _ time.Duration) { c.batcher.reportRetry(on, err) }
	answers, err := c.batcher.u.c.batch(ctx, items, p)
	if err != nil && IsBatchUnsupported(err) {
		c.mu.Lock()
		c.unsupported = true
		c.mu.Unlock()
	}
	for i, e := range on {
		if answers == nil || answers[i].Node == nil {
			missed = append(missed, e)
			continue
		}
		c.batcher.finishFile(ctx, e, Result{Node: *answers[i].Node, State: StateInstant}, nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked += len(all)
	c.hits += len(all) - len(missed)
	return missed
}

// item returns the batch item that claims a file. It reads the whole file for the digest. It fails
// if the file cannot be read, or with ErrChanged if it changes meanwhile.
func (c *claimBatcher) item(e batchEntry) (BatchItem, error) {
	file, err := e.src.Open()
	if err != nil {
		return BatchItem{}, err
	}
	defer closeQuietly(file)
	sum, err := sumFile(file, e.src.Size, nil)
	if err == nil {
		err = e.src.check()
	}
	item := BatchItem{Op: BatchClaim, Path: e.dest, Size: &e.src.Size, Conflict: orDefault(e.opt.Conflict, Fail), Parents: true, Digests: Digests{blake3Name: sum}}
	if mtime := e.src.Mtime.UTC(); !mtime.IsZero() {
		item.Mtime = &mtime
	}
	return item, err
}
