package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
)

// errDiskFull reports too little free disk space to fetch documents.
var errDiskFull = errors.New("less than --export-min-free is left")

// waitForSpace is the delay before a batch without disk space is retried.
const waitForSpace = time.Minute

// ensureSpace checks whether there is enough free disk space to fetch. If there is too little, it
// frees space that ended or waiting batches use (see evict), and returns errDiskFull all the same:
// the batch is retried later.
func (c *collector) ensureSpace(ctx context.Context) error {
	enough, err := c.hasSpace(ctx)
	if err != nil || enough {
		return err
	}
	if err := c.releaser.evict(ctx); err != nil {
		return err
	}
	return errDiskFull
}

// hasSpace reports whether the store has at least MinFree bytes free. It is true if MinFree is
// negative or the store does not report its free space.
func (c *collector) hasSpace(ctx context.Context) (bool, error) {
	if !c.opt.Store.Caps().ReportsFree || c.opt.MinFree < 0 {
		return true, nil
	}
	free, err := c.opt.Store.Free(ctx)
	if err != nil && !c.opt.Store.Caps().ReportsFree { // the content store was just moved off the disk
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask how much room is left: %w", err)
	}
	return free >= c.opt.MinFree, nil
}

// evict frees disk space: it releases ended batches, then drops the fetched documents of one batch
// that waits after a failed try, the one that is due first. That batch fetches them again later.
// Running and sealed batches keep theirs.
func (r *releaser) evict(ctx context.Context) error {
	if err := r.releaseEnded(ctx); err != nil {
		return err
	}
	b, err := r.find(ctx, r.opt.DB, `WHERE (state = 'aborted' OR state = 'pending' AND tries > 0)
		AND EXISTS (SELECT 1 FROM export_pins p WHERE p.export_id = exports.id AND p.charged > 0)
		ORDER BY due_at, id LIMIT 1`)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for what can be evicted: %w", err)
	}
	r.log.WarnContext(ctx, "disk full: evicting the fetched documents of a waiting batch; they are fetched again later", "export", b.ID)
	for more := true; more; {
		if more, err = r.evictSome(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// evictSome drops up to releaseBatch fetched documents of a batch in one transaction. more reports
// whether documents may be left. If a worker has claimed the batch since b was read, it does
// nothing.
func (r *releaser) evictSome(ctx context.Context, b batch) (more bool, err error) {
	err = r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		pins, err := pinsOf(ctx, tx, b.ID, "AND charged > 0")
		if more = len(pins) == releaseBatch; err != nil || len(pins) == 0 {
			return err
		}
		var bytes drive.ByteSize
		for _, p := range pins {
			bytes += p.size
		}
		if err := r.opt.Ledger.Apply(ctx, tx, b.Account, quota.Move{Finished: -chargedBytes(pins)}); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `UPDATE exports SET collected = collected - ?, bytes = bytes - ?, save_point = 0
			WHERE id = ? AND epoch = ? AND state IN ('aborted', 'pending')`, len(pins), bytes, b.ID, b.Epoch)
		if err != nil || n == 0 {
			more = false
			return errOr(err, errFenced)
		}
		return r.dropPins(ctx, tx, b, pins)
	})
	if errors.Is(err, errFenced) {
		return false, nil
	}
	return more, err
}

// The outage of the database or the store, which does not count as a failed try.
const (
	reasonUnavailable = "unavailable"
	waitForStores     = 30 * time.Second // delay before the next try
)

// reasonFull is the error shown on a batch that waits for disk space.
const reasonFull = "disk-full"

// postpone ends a try without counting it as failed: the batch is aborted with reason, and due
// again after wait. The worker no longer owns the batch then. It returns errFenced if the worker
// lost it before.
func (q *queue) postpone(ctx context.Context, b *batch, reason string, wait time.Duration) error {
	now, err := q.now(ctx)
	if err != nil {
		return err
	}
	return q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "state = 'aborted', epoch = epoch + 1, error = ?, due_at = ?", reason, now.Add(wait))
	})
}
