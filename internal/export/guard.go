package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/sqldb"
)

// errFull says that there is no room to fetch anything.
var errFull = errors.New("less than --export-min-free is left")

// waitForRoom is how long a batch waits that found no room.
const waitForRoom = time.Minute

// room keeps fetching from using up the disk. When there is too little, what nobody needs is given
// back first, and the batch waits. Entries of the drive take no room and are not asked about.
func (c *collector) room(ctx context.Context) error {
	enough, err := c.enough(ctx)
	if err != nil || enough {
		return err
	}
	if err := c.releases.evict(ctx); err != nil {
		return err
	}
	return errFull
}

func (c *collector) enough(ctx context.Context) (bool, error) {
	if !c.opt.Store.Caps().Bounded || c.opt.MinFree < 0 {
		return true, nil
	}
	free, err := c.opt.Store.Free(ctx)
	if err != nil && !c.opt.Store.Caps().Bounded { // contents have just left the disk
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask how much room is left: %w", err)
	}
	return free >= c.opt.MinFree, nil
}

// evict gives back what nobody uses: everything of batches that have ended, then what was fetched
// for the batch that has waited longest after a try that failed. It is fetched again later. A batch
// that somebody works on is left alone, and so is a sealed one until it expires.
func (r *releases) evict(ctx context.Context) error {
	if err := r.ended(ctx); err != nil {
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
	r.log.WarnContext(ctx, "what was fetched for a batch that waits is given up: the disk is full", "export", b.ID)
	for more := true; more; {
		if more, err = r.evictSome(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// evictSome gives up some of what was fetched for a batch, unless somebody has it by now.
func (r *releases) evictSome(ctx context.Context, b batch) (more bool, err error) {
	err = r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		pins, err := pinsOf(ctx, tx, b.ID, "AND charged > 0")
		if more = len(pins) == releaseBatch; err != nil || len(pins) == 0 {
			return err
		}
		var bytes drive.ByteSize
		for _, p := range pins {
			bytes += p.size
		}
		if err := r.opt.Ledger.Apply(ctx, tx, b.Account, quota.Move{Finished: -charges(pins)}); err != nil {
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

// A database or a store that is away, which says nothing of a batch or a job.
const (
	reasonAway  = "unavailable"
	waitForAway = 30 * time.Second // until it is tried again
)

// reasonFull is what a batch says that waits for room.
const reasonFull = "disk-full"

// postpone leaves a batch until later, which is not a try that has failed.
func (q *queue) postpone(ctx context.Context, b *batch, reason string, wait time.Duration) error {
	now, err := q.now(ctx)
	if err != nil {
		return err
	}
	return q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "state = 'aborted', epoch = epoch + 1, error = ?, due_at = ?", reason, now.Add(wait))
	})
}
