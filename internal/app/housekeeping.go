package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/star"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/trace"
	"example.org/smartdrive/internal/export"
	"example.org/smartdrive/internal/intake/ingest"
	"example.org/smartdrive/internal/usecase/bulk"
	"example.org/smartdrive/internal/usecase/collect"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/share"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/webhook"
)

// housekeeping deletes data whose retention has ended.
type housekeeping struct {
	platform     *platform
	moved        func() bool // reports that the database has migrated elsewhere
	damaged      func() bool // reports that the database is known to be damaged
	outbox       *outbox.Outbox
	uploads      *upload.Sessions
	expiry       *files.Expiry
	marks        files.DAVMetadata
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

	traces *trace.Recorder
	// armOperations arms the timers of running operations again.
	armOperations func(context.Context) error

	first atomic.Int32 // index of the job that the next run begins with
}

// purgeKey is the key of the only timer of housekeeping.
var purgeKey = timer.Key{Kind: timer.Purge}

const (
	// purgeEvery is the interval of the purge of deleted accounts.
	purgeEvery = time.Hour
	purgeSoon  = time.Second         // after a run that left work
	purgeAgain = time.Minute         // after a job was cut off, or failed while work was left
	jobTime    = 30 * time.Second    // time limit of a job, so that others do not wait long
	keepUsers  = 30 * 24 * time.Hour // retention of a deleted user's files
)

// onPurge runs the housekeeping and rearms its timer, also after an error. A failing timer would be
// abandoned, and errors such as a full disk may pass.
func (h *housekeeping) onPurge(ctx context.Context, _ timer.Fired) error {
	left, err := h.runJobs(ctx, jobTime)
	if err != nil {
		h.platform.log.ErrorContext(ctx, "housekeeping failed and will be repeated", "error", err)
	}
	return timer.Later(left.delay(err))
}

// remaining describes the work that a run has left.
type remaining struct {
	more bool // a job has more to do
	cut  bool // a job, or the whole run, exceeded its time
}

// delay returns the time until the next run. err is the error of this run.
func (l remaining) delay(err error) time.Duration {
	switch {
	case l.cut || l.more && err != nil:
		return purgeAgain
	case l.more:
		return purgeSoon
	default:
		return purgeEvery
	}
}

// runJobs deletes what the retention clock has expired; a wall clock never decides that. Each job
// gets the time each. It deletes nothing after a restore or in a damaged database. l tells which
// jobs have not finished; all failures are joined in err.
func (h *housekeeping) runJobs(ctx context.Context, each time.Duration) (l remaining, err error) {
	h.platform.keepBallast(ctx)
	if h.platform.Restored {
		h.platform.log.WarnContext(ctx, "a backup was restored: nothing is deleted, and no copy is made, before \"smartdrive admin fsck\" is clean and the server is started again")
		return remaining{}, nil
	}
	if h.damaged() {
		h.platform.log.WarnContext(ctx, "the database is damaged: nothing is deleted before it is repaired")
		return remaining{}, nil
	}
	kept := h.platform.kept
	now := kept.Now()
	if behind := kept.Behind(); behind > 0 {
		h.platform.log.WarnContext(ctx, "a clock has stepped: retention periods are extended until the clocks have agreed for a day", "by", behind.Round(time.Second))
	}
	return h.runAll(ctx, h.jobs(now), each)
}

// runAll runs the jobs one after the other. If ctx ends before the last job, the next run begins
// with the interrupted job, so that slow jobs do not starve the others. The error joins those of
// the failed jobs.
func (h *housekeeping) runAll(ctx context.Context, all []job, each time.Duration) (l remaining, err error) {
	begin := int(h.first.Swap(0))
	for i := range all {
		at := (begin + i) % len(all)
		more, cut, failed := all[at].runWithin(ctx, each)
		if ctx.Err() != nil {
			h.first.Store(int32(at))
			return remaining{cut: true}, err
		}
		l.more, l.cut = l.more || more, l.cut || cut
		if cut { // it has much to do, or a component does not respond
			h.platform.log.InfoContext(ctx, "a housekeeping job exceeded its time; it continues in a minute", "error", failed)
			continue
		}
		err = errors.Join(err, failed)
	}
	return l, err
}

// job is one kind of housekeeping. It works in short transactions and may be interrupted anywhere.
// more reports that work is left.
type job func(ctx context.Context) (more bool, err error)

// runWithin runs a job for at most the time each. cut reports that the time ended; then err tells
// where.
func (do job) runWithin(ctx context.Context, each time.Duration) (more, cut bool, err error) {
	its, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	more, err = do(its)
	cut = its.Err() != nil
	return more || cut, cut, err
}

// oneShot turns a function without a "more" result into a job.
func oneShot(do func(context.Context) error) job {
	return func(ctx context.Context) (bool, error) { return false, do(ctx) }
}

// jobs returns all jobs in the order of a run. now is the retention time.
func (h *housekeeping) jobs(now time.Time) []job {
	return []job{
		oneShot(func(ctx context.Context) error {
			_, err := h.keys.Purge(ctx, now)
			return err
		}),
		oneShot(func(ctx context.Context) error {
			_, err := h.sessions.Purge(ctx)
			return err
		}),
		oneShot(func(ctx context.Context) error {
			_, err := h.outbox.Trim(ctx, now)
			return err
		}),
		func(ctx context.Context) (bool, error) {
			ended, more := h.notices.sendDue(ctx, h.platform.log, now)
			return more, h.access.Purge(ctx, ended)
		},
		func(ctx context.Context) (bool, error) {
			err := h.collects.Purge(ctx) // counts rows of uploads, so it runs before they are deleted
			return false, errors.Join(err, h.uploads.PurgeEnded(ctx))
		},
		oneShot(func(ctx context.Context) error { return upload.ReclaimAllRevoked(ctx, h.uploads) }),
		oneShot(h.shares.Purge), oneShot(h.shareNumbers.Purge), oneShot(h.exports.Purge),
		oneShot(func(ctx context.Context) error { return h.traces.Trim(ctx, now) }),
		oneShot(h.notices.store.Purge), oneShot(h.activity.Purge), oneShot(h.marks.Purge), oneShot(h.stars.Purge),
		oneShot(func(ctx context.Context) error { return h.keyConflicts.Purge(ctx, now) }),
		oneShot(func(ctx context.Context) error { return h.purgeUsers(ctx, now) }),
		oneShot(func(ctx context.Context) error { return h.purgeSpaces(ctx, now) }),
		h.bulk.Purge,
		oneShot(h.armOperations), // in case the instance that created an operation died before it armed the timer
		func(ctx context.Context) (bool, error) {
			expired, err := h.expiry.Purge(ctx)
			return expired.More, err
		},
	}
}

// purgeUsers deletes users 30 days after their deletion: open uploads, tree, then the user. A
// failure does not stop the purge of other users.
func (h *housekeeping) purgeUsers(ctx context.Context, now time.Time) error {
	gone, err := h.users.ListDeleted(ctx, h.platform.db, drive.TimeOf(now.Add(-keepUsers)), 100)
	for _, u := range gone {
		if failed := h.purgeUser(ctx, u); failed != nil {
			err = errors.Join(err, fmt.Errorf("purge user %s: %w", u.ID, failed))
		}
	}
	return err
}

// purgeUser deletes the data of a deleted user and then the user's rows, the latter in one
// transaction. It may be repeated after a failure.
func (h *housekeeping) purgeUser(ctx context.Context, u account.User) error {
	return h.purgeAccount(ctx, u.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		return errors.Join(h.stars.DeleteUser(ctx, tx, u.ID), h.keyConflicts.DeleteUser(ctx, tx, u.ID), h.notices.store.DeleteUser(ctx, tx, u.ID), h.users.Purge(ctx, tx, u))
	})
}

// purgeSpaces deletes spaces permanently 30 days after their deletion. A failure does not stop the
// others.
func (h *housekeeping) purgeSpaces(ctx context.Context, now time.Time) error {
	gone, err := h.access.ListDeletedSpaces(ctx, h.platform.db, drive.TimeOf(now.Add(-space.DeletedRetention)), 100)
	for _, s := range gone {
		failed := h.purgeAccount(ctx, s.ID, func(ctx context.Context, tx *sqldb.Tx) error { return h.users.PurgeAccount(ctx, tx, s.ID) })
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("purge space %s: %w", s.ID, failed))
		}
	}
	return err
}

// purgeAccount deletes all data of an account and finally the account. last runs in the last
// transaction. It stops at the first failure and may be repeated.
func (h *housekeeping) purgeAccount(ctx context.Context, id drive.AccountID, last func(context.Context, *sqldb.Tx) error) error {
	if err := h.exports.DeleteAccount(ctx, id); err != nil {
		return err
	}
	if _, err := h.uploads.ReclaimAll(ctx, id); err != nil {
		return err
	}
	if err := h.bulk.DeleteAccount(ctx, id); err != nil {
		return err
	}
	if err := h.activity.DeleteAccount(ctx, id); err != nil {
		return err
	}
	if err := h.expiry.PurgeAccount(ctx, id); err != nil {
		return err
	}
	if err := h.intake.Forget(ctx, id); err != nil { // after the tree, from which the reconciler would find bundles again
		return err
	}
	return h.platform.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := h.ledger.Lock(ctx, tx, id); err != nil {
			return err
		}
		if err := h.uploads.DeleteAccount(ctx, tx, id); err != nil {
			return err
		}
		if err := h.shares.DeleteAccount(ctx, tx, id); err != nil {
			return err
		}
		if err := h.collects.DeleteAccount(ctx, tx, id); err != nil {
			return err
		}
		if err := h.access.DeleteAccount(ctx, tx, id); err != nil {
			return err
		}
		if err := h.webhooks.DeleteAccount(ctx, tx, id); err != nil {
			return err
		}
		if err := h.marks.DeleteAccount(ctx, tx, id); err != nil {
			return err
		}
		if err := h.ledger.Delete(ctx, tx, id); err != nil {
			return err
		}
		return last(ctx, tx)
	})
}
