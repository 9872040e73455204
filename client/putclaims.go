package client

import (
	"context"
	"sync"
	"time"
)

// Files of a middle size are not sent when the account has their content already: photos that were
// sorted into other folders, a copy of a copy. They are read once for their digests, and many ask
// in one batch. What the server does not have is sent as it always was; larger files ask for
// themselves when they begin, and of smaller ones the server tells nothing.

// Sizes of the claims of a tree.
const (
	claimedFrom  = 1 << 20 // bytes; the server links nothing smaller by its digest
	claimedItems = 32      // in one batch, whose answers the files wait for
	trustedFrom  = 64      // claims from which on it counts how many were met
	metLeast     = 20      // one in so many: less is not worth reading everything twice
	triedEvery   = 16      // then one file in so many still asks
)

// claims collects the files of a tree whose content the server may have.
type claims struct {
	b      *batcher
	queued []entry

	mu        sync.Mutex
	asked     int
	met       int
	passedBy  int
	disallows bool // the server knows no claims
}

// takes reports whether a file asks first: one that is new, as long as asking is worth it.
func (c *claims) takes(e entry) bool {
	if e.src.Size < claimedFrom || e.src.Size > c.b.u.opt.PartSize || e.opt.Known != nil || c.b.off.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.disallows {
		return false
	}
	if c.asked < trustedFrom || c.met*metLeast >= c.asked {
		return true
	}
	c.passedBy++
	return c.passedBy%triedEvery == 0
}

func (c *claims) add(ctx context.Context, e entry) error {
	if c.queued = append(c.queued, e); len(c.queued) < claimedItems {
		return nil
	}
	return c.flush(ctx)
}

// flush asks for what waits.
func (c *claims) flush(ctx context.Context) error {
	all := c.queued
	c.queued = nil
	return c.b.start(ctx, len(all), func() (after func()) {
		missed := c.ask(ctx, all)
		return func() {
			for _, e := range missed { // as if it had not been asked
				if c.send(ctx, e) != nil {
					return
				}
			}
		}
	})
}

func (c *claims) send(ctx context.Context, e entry) error {
	return c.b.w.run(ctx, 1, e.item, func(ctx context.Context) (Result, error) { return c.b.u.Put(ctx, e.src, e.dest, e.opt) })
}

// ask claims files and returns those that are to be sent.
func (c *claims) ask(ctx context.Context, all []entry) (missed []entry) {
	var items []BatchItem
	var on []entry
	for _, e := range all {
		item, err := c.item(e)
		if err != nil { // sending it tells what is wrong
			missed = append(missed, e)
			continue
		}
		on, items = append(on, e), append(items, item)
	}
	if len(on) == 0 {
		return missed
	}
	p := newPatience(c.b.u.opt.GiveUp)
	p.notify = func(err error, _ time.Duration) { c.b.waiting(on, err) }
	answers, err := c.b.u.c.batch(ctx, items, p)
	if err != nil && LacksBatch(err) {
		c.mu.Lock()
		c.disallows = true
		c.mu.Unlock()
	}
	for i, e := range on {
		if answers == nil || answers[i].Node == nil {
			missed = append(missed, e)
			continue
		}
		c.b.over(ctx, e, Result{Node: *answers[i].Node, State: StateInstant}, nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked += len(all)
	c.met += len(all) - len(missed)
	return missed
}

func (c *claims) item(e entry) (BatchItem, error) {
	file, err := e.src.Open()
	if err != nil {
		return BatchItem{}, err
	}
	defer letGo(file)
	sum, err := sumFile(file, e.src.Size, nil)
	if err == nil {
		err = e.src.check()
	}
	item := BatchItem{Op: BatchClaim, Path: e.dest, Size: &e.src.Size, Conflict: orElse(e.opt.Conflict, Fail), Parents: true, Digests: Digests{blake3Name: sum}}
	if mtime := e.src.Mtime.UTC(); !mtime.IsZero() {
		item.Mtime = &mtime
	}
	return item, err
}
