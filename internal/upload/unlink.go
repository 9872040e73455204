package upload

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/sqldb"
	"smartdrive/internal/timer"
)

// unlinkBatch is how many released files are deleted before their rows are forgotten in one transaction.
const unlinkBatch = 200

// unlinkPause is how long until released files are looked at again whose time has come by the wall clock only.
const unlinkPause = 10 * time.Minute

// OnUnlink handles the unlink timer: it deletes the files that were released longer than the grace time ago. A file that is
// deleted and whose row is not forgotten, because of a crash, is deleted once more without harm.
func (s *Sessions) OnUnlink(ctx context.Context, _ timer.Fired) error {
	if s.opt.Restored {
		return timer.Later(reclaimHold)
	}
	for {
		due, next, err := s.Content.ListReleased(ctx, s.DB, s.opt.BlobGrace, unlinkBatch)
		if err != nil {
			return err
		}
		files := make([]string, 0, len(due))
		for _, r := range due {
			if err := s.Store.Remove(ctx, r.File); err != nil {
				return fmt.Errorf("delete released file %s: %w", r.File, err)
			}
			files = append(files, r.File)
		}
		if len(files) > 0 {
			err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return s.Content.Forget(ctx, tx, files) })
		}
		switch now := s.now(); {
		case err != nil:
			return err
		case next == 0:
			return nil
		case next > now:
			return timer.Later(next.Sub(now))
		case len(due) == 0: // the clock of Content is behind: see package retention
			return timer.Later(unlinkPause)
		}
	}
}

// UnlinkSoon arms the unlink timer: something was released, or may have been before a start.
func (s *Sessions) UnlinkSoon(ctx context.Context) { s.unlinkSoon(ctx) }
