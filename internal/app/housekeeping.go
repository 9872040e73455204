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
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/space"
)

// housekeeping runs the housekeeping jobs of all modules and purges deleted users and spaces.
type housekeeping struct {
	platform *platform
	mover    *mover
	damaged  func() bool // reports that the database is known to be damaged
	users    *account.Users
	access   *access.Access
	ledger   quota.Ledger

	first atomic.Int32 // index of the job that the next run begins with
}

// purgeEntry arms the only timer of housekeeping.
var purgeEntry = timer.Entry{Key: timer.Key{Kind: timer.Purge}, Idle: time.Minute}

const (
	// purgeEvery is the interval of the purge of deleted accounts.
	purgeEvery = time.Hour
	purgeSoon  = time.Second         // after a run that left work
	purgeAgain = time.Minute         // after a job was cut off, or failed while work was left
	jobTime    = 30 * time.Second    // time limit of a job, so that others do not wait long
	keepUsers  = 30 * 24 * time.Hour // retention of a deleted user's files
)

// onPurge runs the housekeeping jobs. It always returns timer.Later, also after an error, which it
// logs: a timer that fails would be given up, and errors such as a full disk may pass.
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

// delay returns the time until the next run: purgeAgain if the last run was cut off or left work
// after an error, purgeSoon if it left work, else purgeEvery. err is the error of that run.
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
	if behind := h.platform.kept.Behind(); behind > 0 {
		h.platform.log.WarnContext(ctx, "a clock has stepped: retention periods are extended until the clocks have agreed for a day", "by", behind.Round(time.Second))
	}
	return h.runAll(ctx, h.platform.modules.jobs(), each)
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

// runWithin runs a job for at most the time each. cut reports that the time ended, and more is then
// true as well; err is the error of the job.
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

// purgeUsers deletes users 30 days after their deletion: open uploads, tree, then the user. A
// failure does not stop the purge of other users.
func (h *housekeeping) purgeUsers(ctx context.Context) error {
	before := drive.TimeOf(h.platform.kept.Now().Add(-keepUsers))
	gone, err := h.users.ListDeleted(ctx, h.platform.db, before, 100)
	for _, u := range gone {
		if failed := h.purgeAccount(ctx, u.Account, &u); failed != nil {
			err = errors.Join(err, fmt.Errorf("purge user %s: %w", u.ID, failed))
		}
	}
	return err
}

// purgeSpaces deletes spaces permanently 30 days after their deletion. A failure does not stop the
// others.
func (h *housekeeping) purgeSpaces(ctx context.Context) error {
	before := drive.TimeOf(h.platform.kept.Now().Add(-space.DeletedRetention))
	gone, err := h.access.ListDeletedSpaces(ctx, h.platform.db, before, 100)
	for _, s := range gone {
		if failed := h.purgeAccount(ctx, s.ID, nil); failed != nil {
			err = errors.Join(err, fmt.Errorf("purge space %s: %w", s.ID, failed))
		}
	}
	return err
}

// purgeAccount deletes all data of an account and finally, in one transaction, the account and its
// user; nil for the account of a space. It stops at the first failure and may be repeated.
func (h *housekeeping) purgeAccount(ctx context.Context, id drive.AccountID, user *account.User) error {
	if err := h.platform.modules.purgeAccount(ctx, id); err != nil {
		return err
	}
	return h.platform.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := h.ledger.Lock(ctx, tx, id); err != nil {
			return err
		}
		return h.platform.modules.deleteAccount(ctx, tx, id, user)
	})
}
