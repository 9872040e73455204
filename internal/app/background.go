package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream/dispatch"
	"smartdrive/internal/engine/timer"
)

// recover arms again what only memory knew: the timers of uploads, of operations, of housekeeping.
func (a *App) recover(ctx context.Context) error {
	if err := a.uploads.Recover(ctx); err != nil {
		return err
	}
	a.armed.Store(true)
	for after := (drive.OperationID{}); ; {
		running, err := a.files.ListRunning(ctx, after, 100)
		if err != nil || len(running) == 0 {
			return errors.Join(err, a.engine.Arm(ctx, timer.Entry{Key: purgeKey, Idle: time.Minute}))
		}
		for _, id := range running {
			a.startOperation(id)
			after = id
		}
	}
}

func (a *App) onOperation(ctx context.Context, f timer.Fired) error {
	return a.files.RunOperation(ctx, drive.OperationID(f.Key.ID))
}

// purgeKey is the one timer of housekeeping.
var purgeKey = timer.Key{Kind: timer.Purge}

const (
	purgeEvery = time.Hour
	purgeSoon  = time.Second         // when there is more to do than one run does
	keepUsers  = 30 * 24 * time.Hour // how long a deleted user's files wait before they are purged
)

// onPurge runs the housekeeping. It always comes again: a timer that fails for long is given up, and what fails here, such as a
// full disk, may pass.
func (a *App) onPurge(ctx context.Context, _ timer.Fired) error {
	more, err := a.keepHouse(ctx)
	if err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "housekeeping failed and will be repeated", "error", err)
	}
	if more && err == nil {
		return timer.Later(purgeSoon)
	}
	return timer.Later(purgeEvery)
}

// keepHouse drops what has been kept long enough, by the clock of retention: no wall clock decides
// what is deleted. Each step works in short transactions and may stop anywhere. It reports whether
// there is more to do.
func (a *App) keepHouse(ctx context.Context) (more bool, err error) {
	a.keepBallast(ctx)
	if a.Restored {
		return false, nil
	}
	now := a.kept.Now()
	if behind := a.kept.Behind(); behind > 0 {
		a.log.WarnContext(ctx, "a clock has stepped: what is kept is kept for longer until the clocks have agreed for a day", "by", behind.Round(time.Second))
	}
	copyErr := a.mode.copies(ctx, time.Now())
	_, keysErr := a.keys.Purge(ctx, now)
	_, sessionsErr := a.sessions.Purge(ctx)
	_, trimErr := a.outbox.Trim(ctx, now)
	collectErr := a.collects.Purge(ctx) // before the rows of uploads that it counts
	err = errors.Join(copyErr, collectErr, a.uploads.PurgeEnded(ctx), keysErr, sessionsErr, trimErr, a.shares.Purge(ctx), a.exports.Purge(ctx), a.purgeUsers(ctx, now))
	expired, filesErr := a.files.PurgeExpired(ctx) // last: it may be much
	return expired.More, errors.Join(err, filesErr)
}

// keepBallast places the ballast where it was given up; there may be no room for it yet.
func (a *App) keepBallast(ctx context.Context) {
	if err := a.mode.ballast(); err != nil {
		a.log.WarnContext(ctx, "no room for the ballast", "error", err)
	}
}

// purgeUsers deletes what users who were deleted 30 days ago left: their open uploads, then their trees, then themselves.
func (a *App) purgeUsers(ctx context.Context, now time.Time) error {
	gone, err := a.users.ListDeleted(ctx, a.db, drive.TimeOf(now.Add(-keepUsers)), 100)
	for _, u := range gone {
		if err := a.purgeUser(ctx, u); err != nil {
			return fmt.Errorf("purge user %s: %w", u.ID, err)
		}
	}
	return err
}

func (a *App) purgeUser(ctx context.Context, u account.User) error {
	if err := a.exports.Forget(ctx, u.Account); err != nil {
		return err
	}
	if _, err := a.uploads.Reset(ctx, u.Account); err != nil {
		return err
	}
	if err := a.files.PurgeAccount(ctx, u.Account); err != nil {
		return err
	}
	if err := a.intake.Forget(ctx, u.Account); err != nil { // after the tree, which tells the reconciler what there is
		return err
	}
	return a.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := a.ledger.Lock(ctx, tx, u.Account); err != nil {
			return err
		}
		if err := a.uploads.Forget(ctx, tx, u.Account); err != nil {
			return err
		}
		if err := a.shares.Forget(ctx, tx, u.Account); err != nil {
			return err
		}
		if err := a.collects.Forget(ctx, tx, u.Account); err != nil {
			return err
		}
		if err := a.ledger.Delete(ctx, tx, u.Account); err != nil {
			return err
		}
		return a.users.Purge(ctx, tx, u)
	})
}

// onDead puts a timer whose handler has failed for good where an administrator finds it.
func (a *App) onDead(ctx context.Context, f timer.Fired, cause error) error {
	record, err := dispatch.Record(f)
	if err != nil {
		return err
	}
	return a.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return a.outbox.Add(ctx, tx, dispatch.Name, record, f.Attempt, cause)
	})
}
