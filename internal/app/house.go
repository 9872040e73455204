package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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
	damaged      func() bool // the database is known to be damaged
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
	keyConflicts *idem.Conflicts
	ledger       quota.Ledger

	ways          *trace.Recorder
	armOperations func(context.Context) error

	first atomic.Int32 // the chore that the next run begins with
}

// purgeKey is the one timer of housekeeping.
var purgeKey = timer.Key{Kind: timer.Purge}

const (
	purgeEvery = time.Hour
	purgeSoon  = time.Second         // when there is more to do than one run does
	purgeAgain = time.Minute         // when a chore was cut off, or another one failed
	choreTime  = 30 * time.Second    // of one chore: no other waits for long
	keepUsers  = 30 * 24 * time.Hour // how long a deleted user's files wait before they are purged
)

// onPurge runs the housekeeping. It always comes again: a timer that fails for long is given up,
// and what fails here, such as a full disk, may pass.
func (h *house) onPurge(ctx context.Context, _ timer.Fired) error {
	left, err := h.keepHouse(ctx, choreTime)
	if err != nil {
		h.ground.log.ErrorContext(ctx, "housekeeping failed and will be repeated", "error", err)
	}
	return timer.Later(left.until(err))
}

// left says what a run has left to do.
type left struct {
	more bool // a chore has more to do
	cut  bool // a chore, or all of them together, took too long
}

// until is when the next run is.
func (l left) until(err error) time.Duration {
	switch {
	case l.cut || l.more && err != nil:
		return purgeAgain
	case l.more:
		return purgeSoon
	default:
		return purgeEvery
	}
}

// keepHouse drops what has been kept long enough, by the clock of retention: no wall clock decides
// what is deleted. It gives each chore so much time.
func (h *house) keepHouse(ctx context.Context, each time.Duration) (l left, err error) {
	h.ground.keepBallast(ctx)
	if h.ground.Restored {
		h.ground.log.WarnContext(ctx, "a backup was restored: nothing is deleted, and no copy is made, before \"smartdrive admin fsck\" is clean and the server is started again")
		return left{}, nil
	}
	if h.damaged() {
		h.ground.log.WarnContext(ctx, "the database is damaged: nothing is deleted before it is repaired")
		return left{}, nil
	}
	kept := h.ground.kept
	now := kept.Now()
	if behind := kept.Behind(); behind > 0 {
		h.ground.log.WarnContext(ctx, "a clock has stepped: what is kept is kept for longer until the clocks have agreed for a day", "by", behind.Round(time.Second))
	}
	return h.doAll(ctx, h.chores(now), each)
}

// doAll does the chores. A run may not last for ever: one whose time ends before it comes to all,
// because many take as long as they may, is gone on with by the next one where it ended. The error
// is that of the chores that failed until then.
func (h *house) doAll(ctx context.Context, all []chore, each time.Duration) (l left, err error) {
	begin := int(h.first.Swap(0))
	for i := range all {
		at := (begin + i) % len(all)
		more, cut, failed := all[at].within(ctx, each)
		if ctx.Err() != nil {
			h.first.Store(int32(at))
			return left{cut: true}, err
		}
		l.more, l.cut = l.more || more, l.cut || cut
		if cut { // it has much to do, or what it asks does not answer
			h.ground.log.InfoContext(ctx, "a chore of the housekeeping was cut off and goes on in a minute", "error", failed)
			continue
		}
		err = errors.Join(err, failed)
	}
	return l, err
}

// chore works in short transactions and may stop anywhere. One with much to do stops when its time
// is over and goes on soon, so that it keeps no other one waiting. more: it has more to do.
type chore func(ctx context.Context) (more bool, err error)

// within does a chore until its time is over; the error of one that was cut off says where.
func (do chore) within(ctx context.Context, each time.Duration) (more, cut bool, err error) {
	its, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	more, err = do(its)
	cut = its.Err() != nil
	return more || cut, cut, err
}

// simply is a chore that does all there is.
func simply(do func(context.Context) error) chore {
	return func(ctx context.Context) (bool, error) { return false, do(ctx) }
}

func (h *house) chores(now time.Time) []chore {
	return []chore{
		simply(func(ctx context.Context) error {
			_, err := h.keys.Purge(ctx, now)
			return err
		}),
		simply(func(ctx context.Context) error {
			_, err := h.sessions.Purge(ctx)
			return err
		}),
		simply(func(ctx context.Context) error {
			_, err := h.outbox.Trim(ctx, now)
			return err
		}),
		func(ctx context.Context) (bool, error) {
			ended, more := h.notices.look(ctx, h.ground.log, now)
			return more, h.access.Purge(ctx, ended)
		},
		func(ctx context.Context) (bool, error) {
			err := h.collects.Purge(ctx) // before the rows of uploads that it counts
			return false, errors.Join(err, h.uploads.PurgeEnded(ctx))
		},
		simply(func(ctx context.Context) error { return upload.EndAllRevoked(ctx, h.uploads) }),
		simply(h.shares.Purge), simply(h.shareNumbers.Purge), simply(h.exports.Purge),
		simply(func(ctx context.Context) error { return h.ways.Trim(ctx, now) }),
		simply(h.notices.store.Purge), simply(h.activity.Purge), simply(h.marks.Purge), simply(h.stars.Purge),
		simply(func(ctx context.Context) error { return h.keyConflicts.Purge(ctx, now) }),
		simply(func(ctx context.Context) error { return h.purgeUsers(ctx, now) }),
		simply(func(ctx context.Context) error { return h.purgeSpaces(ctx, now) }),
		h.bulk.Purge,
		simply(h.armOperations), // the instance that made one may have died before it armed it
		func(ctx context.Context) (bool, error) {
			expired, err := h.expiry.Purge(ctx)
			return expired.More, err
		},
	}
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
		return errors.Join(h.stars.Forget(ctx, tx, u.ID), h.keyConflicts.Forget(ctx, tx, u.ID), h.notices.store.Forget(ctx, tx, u.ID), h.users.Purge(ctx, tx, u))
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
