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
func (e *Exports) room(ctx context.Context) error {
	enough, err := e.enough(ctx)
	if err != nil || enough {
		return err
	}
	if err := e.evict(ctx); err != nil {
		return err
	}
	return errFull
}

func (e *Exports) enough(ctx context.Context) (bool, error) {
	if !e.opt.Store.Caps().Bounded || e.opt.MinFree < 0 {
		return true, nil
	}
	free, err := e.opt.Store.Free(ctx)
	if err != nil && !e.opt.Store.Caps().Bounded { // contents have just left the disk
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask how much room is left: %w", err)
	}
	return free >= e.opt.MinFree, nil
}

// evict gives back what nobody uses: everything of batches that have ended, then what was fetched
// for the batch that has waited longest after a try that failed. It is fetched again later. A batch
// that somebody works on is left alone, and so is a sealed one until it expires.
func (e *Exports) evict(ctx context.Context) error {
	if err := e.releaseEnded(ctx); err != nil {
		return err
	}
	b, err := e.find(ctx, e.opt.DB, `WHERE (state = 'aborted' OR state = 'pending' AND tries > 0)
		AND EXISTS (SELECT 1 FROM export_pins p WHERE p.export_id = exports.id AND p.charged > 0)
		ORDER BY due_at, id LIMIT 1`)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for what can be evicted: %w", err)
	}
	e.log.WarnContext(ctx, "what was fetched for a batch that waits is given up: the disk is full", "export", b.ID)
	for more := true; more; {
		if more, err = e.evictSome(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// evictSome gives up some of what was fetched for a batch, unless somebody has it by now.
func (e *Exports) evictSome(ctx context.Context, b batch) (more bool, err error) {
	err = e.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		pins, err := pinsOf(ctx, tx, b.ID, "AND charged > 0")
		if more = len(pins) == releaseBatch; err != nil || len(pins) == 0 {
			return err
		}
		var bytes drive.ByteSize
		for _, p := range pins {
			bytes += p.size
		}
		if err := e.opt.Ledger.Apply(ctx, tx, b.Account, quota.Move{Finished: -charges(pins)}); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `UPDATE exports SET collected = collected - ?, bytes = bytes - ?, save_point = 0
			WHERE id = ? AND epoch = ? AND state IN ('aborted', 'pending')`, len(pins), bytes, b.ID, b.Epoch)
		if err != nil || n == 0 {
			more = false
			return errOr(err, errFenced)
		}
		return e.dropPins(ctx, tx, b, pins)
	})
	if errors.Is(err, errFenced) {
		return false, nil
	}
	return more, err
}

// reasonFull is what a batch says that waits for room.
const reasonFull = "disk-full"

// postpone leaves a batch until later, which is no try that has failed.
func (e *Exports) postpone(ctx context.Context, b *batch, reason string, wait time.Duration) error {
	now, err := e.now(ctx)
	if err != nil {
		return err
	}
	return e.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "state = 'aborted', epoch = epoch + 1, error = ?, due_at = ?", reason, now.Add(wait))
	})
}
