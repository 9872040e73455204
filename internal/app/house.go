package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/idem"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/star"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream/outbox"
	"smartdrive/internal/engine/timer"
	"smartdrive/internal/engine/trace"
	"smartdrive/internal/export"
	"smartdrive/internal/intake/ingest"
	"smartdrive/internal/usecase/bulk"
	"smartdrive/internal/usecase/collect"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/share"
	"smartdrive/internal/usecase/space"
	"smartdrive/internal/usecase/upload"
	"smartdrive/internal/usecase/webhook"
)

// house is what is kept for a while and then dropped, and who drops it.
type house struct {
	ground       *ground
	moved        func() bool // the truth is in another place by now
	outbox       *outbox.Outbox
	uploads      *upload.Sessions
	expiry       *files.Expiry
	marks        files.Marks
	bulk         *bulk.Bulk
	shares       *share.Shares
	shareNumbers *space.Numbers
	collects     *collect.Links
	exports      *export.Exports
	intake       *ingest.Intake
	access       *access.Access
	activity     *activity.Log
	webhooks     *webhook.Webhooks
	notices      *notices
	users        *account.Users
	stars        *star.Stars
	sessions     *account.Sessions
	keys         *idem.Keys
	ledger       quota.Ledger

	ways          *trace.Recorder
	armOperations func(context.Context) error
}

// purgeKey is the one timer of housekeeping.
var purgeKey = timer.Key{Kind: timer.Purge}

const (
	purgeEvery = time.Hour
	purgeSoon  = time.Second         // when there is more to do than one run does
	keepUsers  = 30 * 24 * time.Hour // how long a deleted user's files wait before they are purged
)

// onPurge runs the housekeeping. It always comes again: a timer that fails for long is given up,
// and what fails here, such as a full disk, may pass.
func (h *house) onPurge(ctx context.Context, _ timer.Fired) error {
	more, err := h.keepHouse(ctx)
	if err != nil && ctx.Err() == nil {
		h.ground.log.ErrorContext(ctx, "housekeeping failed and will be repeated", "error", err)
	}
	if more && err == nil {
		return timer.Later(purgeSoon)
	}
	return timer.Later(purgeEvery)
}

// keepHouse drops what has been kept long enough, by the clock of retention: no wall clock decides
// what is deleted. Each step works in short transactions and may stop anywhere. It reports whether
// there is more to do.
func (h *house) keepHouse(ctx context.Context) (more bool, err error) {
	h.ground.keepBallast(ctx)
	if h.ground.Restored {
		return false, nil
	}
	kept := h.ground.kept
	now := kept.Now()
	if behind := kept.Behind(); behind > 0 {
		h.ground.log.WarnContext(ctx, "a clock has stepped: what is kept is kept for longer until the clocks have agreed for a day", "by", behind.Round(time.Second))
	}
	copyErr := h.ground.mode.copies(ctx, h.moved())
	_, keysErr := h.keys.Purge(ctx, now)
	_, sessionsErr := h.sessions.Purge(ctx)
	_, trimErr := h.outbox.Trim(ctx, now)
	ended, moreFull := h.notices.look(ctx, h.ground.log, now)
	collectErr := h.collects.Purge(ctx) // before the rows of uploads that it counts
	err = errors.Join(copyErr, collectErr, h.uploads.PurgeEnded(ctx), upload.EndAllRevoked(ctx, h.uploads), keysErr, sessionsErr, trimErr, h.shares.Purge(ctx), h.shareNumbers.Purge(ctx), h.exports.Purge(ctx), h.ways.Trim(ctx, now), h.access.Purge(ctx, ended), h.notices.store.Purge(ctx), h.activity.Purge(ctx), h.marks.Purge(ctx), h.stars.Purge(ctx), h.purgeUsers(ctx, now), h.purgeSpaces(ctx, now))
	moreBulk, bulkErr := h.bulk.Purge(ctx)
	armErr := h.armOperations(ctx)           // the instance that made one may have died before it armed it
	expired, filesErr := h.expiry.Purge(ctx) // last: it may be much
	return expired.More || moreBulk || moreFull, errors.Join(err, bulkErr, armErr, filesErr)
}

// purgeUsers deletes what users who were deleted 30 days ago left: their open uploads, then their
// trees, then themselves. One that cannot be purged keeps no other one from it.
func (h *house) purgeUsers(ctx context.Context, now time.Time) error {
	gone, err := h.users.ListDeleted(ctx, h.ground.db, drive.TimeOf(now.Add(-keepUsers)), 100)
	for _, u := range gone {
		if failed := h.purgeUser(ctx, u); failed != nil {
			err = errors.Join(err, fmt.Errorf("purge user %s: %w", u.ID, failed))
		}
	}
	return err
}

func (h *house) purgeUser(ctx context.Context, u account.User) error {
	return h.purgeAccount(ctx, u.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		return errors.Join(h.stars.Forget(ctx, tx, u.ID), h.notices.store.Forget(ctx, tx, u.ID), h.users.Purge(ctx, tx, u))
	})
}

// purgeSpaces deletes for good the spaces that were deleted 30 days ago, each as far as it can be.
func (h *house) purgeSpaces(ctx context.Context, now time.Time) error {
	gone, err := h.access.ListDeletedSpaces(ctx, h.ground.db, drive.TimeOf(now.Add(-space.Kept)), 100)
	for _, s := range gone {
		failed := h.purgeAccount(ctx, s.ID, func(ctx context.Context, tx *sqldb.Tx) error { return h.users.PurgeAccount(ctx, tx, s.ID) })
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("purge space %s: %w", s.ID, failed))
		}
	}
	return err
}

// purgeAccount deletes all that an account has, and in the end the account.
func (h *house) purgeAccount(ctx context.Context, id drive.AccountID, last func(context.Context, *sqldb.Tx) error) error {
	if err := h.exports.Forget(ctx, id); err != nil {
		return err
	}
	if _, err := h.uploads.Reset(ctx, id); err != nil {
		return err
	}
	if err := h.bulk.Forget(ctx, id); err != nil {
		return err
	}
	if err := h.activity.Forget(ctx, id); err != nil {
		return err
	}
	if err := h.expiry.PurgeAccount(ctx, id); err != nil {
		return err
	}
	if err := h.intake.Forget(ctx, id); err != nil { // after the tree, which tells the reconciler what there is
		return err
	}
	return h.ground.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := h.ledger.Lock(ctx, tx, id); err != nil {
			return err
		}
		if err := h.uploads.Forget(ctx, tx, id); err != nil {
			return err
		}
		if err := h.shares.Forget(ctx, tx, id); err != nil {
			return err
		}
		if err := h.collects.Forget(ctx, tx, id); err != nil {
			return err
		}
		if err := h.access.Forget(ctx, tx, id); err != nil {
			return err
		}
		if err := h.webhooks.Forget(ctx, tx, id); err != nil {
			return err
		}
		if err := h.marks.Forget(ctx, tx, id); err != nil {
			return err
		}
		if err := h.ledger.Delete(ctx, tx, id); err != nil {
			return err
		}
		return last(ctx, tx)
	})
}
