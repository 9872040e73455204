package export

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance/lease"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// errFenced reports that another worker claimed the batch, or that the batch has ended. The
// statement changed no row, and the worker must stop.
var errFenced = lease.ErrFenced

// queue assigns batches to workers and records how each try ends.
type queue struct {
	*core
	yieldFuncs sync.Map // by batch id: func() that asks the worker in this process to yield
}

// claim claims the first due batch for this machine, that is, makes it running under the next epoch
// and a new lease. It returns nil without an error if no batch is due or the machine is at its
// limit. It locks the row of the machine first, so concurrent workers of one machine count one
// after the other. If the lease of another worker has expired and that worker seems to have
// crashed, a failed try is counted.
func (q *queue) claim(ctx context.Context) (*batch, error) {
	now, err := q.now(ctx)
	if err != nil {
		return nil, err
	}
	var taken *batch
	over := false
	err = q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		taken = nil
		batches, jobs, err := q.lockMachine(ctx, tx, now)
		if err != nil || batches+jobs >= perMachine {
			return err
		}
		b, err := q.firstDue(ctx, tx, now)
		if err != nil || b == nil {
			return err
		}
		if over = b.State == Running; over && b.noProgress() && q.holderCrashed() {
			b.Tries++ // the batch may have crashed its process
		}
		b.State, b.Epoch, b.Worker, b.Machine, b.Due = Running, b.Epoch+1, q.opt.Instance, q.opt.Machine, now.Add(lease.TTL)
		b.YieldAt, b.ClaimedAt, b.ClaimedDone = 0, now, b.Collected+b.Failed
		if b.Begun == 0 {
			b.Begun = now
		}
		_, err = tx.Exec(ctx, `UPDATE exports SET state = ?, epoch = ?, worker = ?, machine = ?, due_at = ?, yield_at = 0, claimed_at = ?,
			claimed_done = ?, tries = ?, begun_at = ? WHERE id = ?`, b.State, b.Epoch, b.Worker, b.Machine, b.Due, b.ClaimedAt, b.ClaimedDone, b.Tries, b.Begun, b.ID)
		taken = b
		if err != nil {
			return err
		}
		return recordTurn(ctx, tx, b.Account, now)
	})
	if err != nil {
		return nil, fmt.Errorf("claim a batch: %w", q.noteOutage(err))
	}
	if over && taken != nil {
		q.counters.TakenOver.Add(1)
	}
	return taken, nil
}

// noteOutage records the time if err says that the database is unavailable. It returns err
// unchanged.
func (c *core) noteOutage(err error) error {
	if drive.IsKind(err, drive.Unavailable) {
		now := time.Now() // keeps the monotonic clock
		c.lastOutage.Store(&now)
	}
	return err
}

// outageGrace is how long after a database outage an expired lease does not indicate that its
// worker crashed: one lease length, and the delay until the next poll.
const outageGrace = 2 * lease.TTL

// holderCrashed reports whether an expired lease indicates that its worker crashed. It is false
// shortly after a database outage, when heartbeats could not succeed.
func (c *core) holderCrashed() bool {
	at := c.lastOutage.Load()
	return at == nil || time.Since(*at) > outageGrace
}

// lockMachine locks the row of this machine within tx, and creates it if needed. It returns how
// many batches and jobs this machine runs under leases that have not expired.
func (q *queue) lockMachine(ctx context.Context, tx *sqldb.Tx, now drive.Time) (batches, jobs int, err error) {
	n, err := tx.Exec(ctx, `UPDATE export_machines SET seen_at = ? WHERE machine = ?`, now, q.opt.Machine)
	if err != nil {
		return 0, 0, err
	}
	if n == 0 {
		made, err := tx.InsertNew(ctx, `INSERT INTO export_machines (machine, seen_at) VALUES (?, ?)`, q.opt.Machine, now)
		if err == nil && !made {
			err = sqldb.Rerun(errors.New("the machine's row has come"))
		}
		if err != nil {
			return 0, 0, err
		}
	}
	err = tx.QueryRow(ctx, `SELECT COUNT(*) FROM exports WHERE state = 'running' AND machine = ? AND due_at > ?`, q.opt.Machine, now).Scan(&batches)
	if err != nil {
		return 0, 0, err
	}
	err = tx.QueryRow(ctx, `SELECT COUNT(*) FROM export_jobs WHERE state = 'running' AND machine = ? AND due_at > ?`, q.opt.Machine, now).Scan(&jobs)
	return batches, jobs, err
}

// skipLocked returns the suffix for a SELECT by key that skips rows locked by other claimers. It is
// empty on databases with a single writer.
func skipLocked(tx *sqldb.Tx) string {
	if tx.Dialect() == sqldb.MySQL {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// whereFenced is the WHERE clause of each statement of a worker: it matches only while the worker
// owns the batch.
const whereFenced = ` WHERE id = ? AND epoch = ? AND state = 'running'`

// update executes "UPDATE exports SET" set within tx, for a batch that this worker owns. It does
// not change the fields of b. It returns errFenced if the worker lost the batch.
func (b *batch) update(ctx context.Context, tx *sqldb.Tx, set string, args ...any) error {
	n, err := tx.Exec(ctx, "UPDATE exports SET "+set+whereFenced, append(args, b.ID, b.Epoch)...)
	if err != nil {
		return fmt.Errorf("update batch %s: %w", b.ID, err)
	}
	if n == 0 {
		return errFenced
	}
	return nil
}

// renewLease extends the worker's lease of the batch. yield reports that the worker must return the
// batch, because another worker asked for it or the user is disabled. It returns errFenced if the
// worker lost the batch.
func (q *queue) renewLease(ctx context.Context, b *batch) (yield bool, err error) {
	now, err := q.now(ctx)
	if err != nil {
		return false, err
	}
	err = q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := b.update(ctx, tx, "due_at = ?", now.Add(lease.TTL)); err != nil {
			return err
		}
		var at drive.Time
		err := tx.QueryRow(ctx, "SELECT yield_at FROM exports WHERE id = ?", b.ID).Scan(&at)
		yield = at != 0 && at <= now
		return err
	})
	return yield || err == nil && q.userInactive(ctx, b.User), err
}

// returnBatch makes the batch pending and due at once, without counting a failed try. If avoid is
// above 0, this machine does not claim it again for that time. It returns errFenced if the worker
// lost the batch.
func (q *queue) returnBatch(ctx context.Context, b *batch, avoid time.Duration) error {
	return q.returnCounted(ctx, b, avoid, false)
}

// returnCounted makes the batch pending and due at once and, with try, counts a failed try, up to
// maxTries. If avoid is above 0, this machine may not claim the batch for that time. It returns
// errFenced if the worker has lost the batch.
func (q *queue) returnCounted(ctx context.Context, b *batch, avoid time.Duration, try bool) error {
	tries := 0
	if try && b.Tries < maxTries {
		tries = 1
	}
	now, err := q.now(ctx)
	if err != nil {
		return err
	}
	machine := ""
	if avoid > 0 {
		machine = q.opt.Machine
	}
	return q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "state = 'pending', epoch = epoch + 1, tries = tries + ?, due_at = ?, yield_at = 0, avoid = ?, avoid_until = ?",
			tries, now, machine, now.Add(avoid))
	})
}

// retryDelay returns the delay before an aborted batch is due again: an exponential backoff from 30
// seconds.
func retryDelay(tries int64) time.Duration { return 30 * time.Second << min(tries, 5) }

// abort ends a failed try; reason is shown to the owner. The batch is due again after a backoff,
// and its next try begins with the first entry that has neither arrived nor failed. After maxTries
// it fails for good, with an event for its owner. It returns errFenced if the worker has lost the
// batch.
func (q *queue) abort(ctx context.Context, b *batch, reason string) error {
	now, err := q.now(ctx)
	if err != nil {
		return err
	}
	if b.Tries+1 > maxTries {
		q.counters.Failed.Add(1)
		return q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := b.update(ctx, tx, "state = 'failed', epoch = epoch + 1, error = ?, tries = tries + 1, ended_at = ?", reason, now); err != nil {
				return err
			}
			failed := *b
			failed.Error = reason
			return q.publish(ctx, tx, stream.ExportFailed, failed)
		})
	}
	q.counters.Aborted.Add(1)
	return q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "state = 'aborted', epoch = epoch + 1, error = ?, tries = tries + 1, due_at = ?, save_point = 0, avoid = ''",
			reason, now.Add(retryDelay(b.Tries)))
	})
}

const (
	deferredDelay   = 5 * time.Second  // first delay before deferred entries are retried; doubled each time: 35 s in total
	othersHeadStart = 20 * time.Second // time in which only other machines retry what this machine cannot reach
	machineTimeout  = time.Minute      // a machine that polled within this time counts as alive
)

// retryDeferred ends a try in which all entries but the deferred ones arrived or failed. If another
// machine is alive and may reach them, it can claim the batch at once, and this machine not for
// othersHeadStart; otherwise the batch is due after a delay. It counts a failed try; in the last
// try, collect lets the remaining entries fail.
func (q *queue) retryDeferred(ctx context.Context, b *batch, left *deferredError) error {
	now, err := q.now(ctx)
	if err != nil {
		return err
	}
	due, machine, until := now.Add(deferredDelay<<min(b.Tries, maxTries)), "", drive.Time(0)
	if left.unread {
		due = now.Add(retryDelay(b.Tries))
	} else if left.elsewhere {
		var others int
		err := q.opt.DB.QueryRow(ctx, "SELECT COUNT(*) FROM export_machines WHERE machine <> ? AND seen_at > ?", q.opt.Machine, now.Add(-machineTimeout)).Scan(&others)
		if err != nil {
			return fmt.Errorf("look for other machines: %w", err)
		}
		if others > 0 {
			due, machine, until = now, q.opt.Machine, now.Add(othersHeadStart)
		}
	}
	q.counters.Aborted.Add(1)
	return q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, `state = 'pending', epoch = epoch + 1, error = ?, tries = tries + 1, due_at = ?, save_point = 0, yield_at = 0,
			avoid = ?, avoid_until = ?`, left.reason, due, machine, until)
	})
}

// A slow batch is handed over to an idle machine, at most maxHandovers times.
const (
	slowAfter    = 10 * time.Minute // estimated remaining time above which a batch is slow
	minMeasured  = time.Minute      // minimum running time before the rate is meaningful
	maxHandovers = 2
	handoverBan  = 30 * time.Minute // time in which the slow machine does not claim the batch again
)

// requestSlow asks the worker of the slowest batch on another machine to yield, so that this idle
// machine can claim it. It does nothing if no batch needs longer than slowAfter. That worker stops
// at its next save point.
func (q *queue) requestSlow(ctx context.Context) error {
	now, err := q.now(ctx)
	if err != nil {
		return err
	}
	rows, err := q.opt.DB.Query(ctx, selectBatches+`WHERE state = 'running' AND due_at > ? AND machine <> ? AND yield_at = 0 AND handovers < ?
		AND claimed_at < ? AND (avoid <> ? OR avoid_until <= ?)`,
		now, q.opt.Machine, maxHandovers, now.Add(-minMeasured), q.opt.Machine, now)
	all, err := sqldb.Scan(rows, err, scanBatch)
	if err != nil {
		return fmt.Errorf("look for slow batches: %w", err)
	}
	var slow *batch
	longest := slowAfter
	for i, b := range all {
		if left := b.remaining(now); left > longest {
			slow, longest = &all[i], left
		}
	}
	if slow == nil {
		return nil
	}
	q.log.InfoContext(ctx, "asking another machine to hand over a slow batch", "export", slow.ID, "machine", slow.Machine, "remaining", longest)
	return q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE exports SET yield_at = ?, handovers = handovers + 1 WHERE id = ? AND epoch = ? AND state = 'running'
			AND yield_at = 0`, now, slow.ID, slow.Epoch)
		return err
	})
}

// remaining estimates how long the current worker needs for the remaining entries, at most a year.
func (b batch) remaining(now drive.Time) time.Duration {
	left := b.Total - b.Collected - b.Failed
	rate := b.rate(now)
	if rate <= 0 {
		rate = 1 / max(now.Sub(b.ClaimedAt).Seconds(), 1) // nothing collected yet: assume at most one entry in this time
	}
	return min(time.Duration(float64(left)/rate)*time.Second, 365*24*time.Hour)
}
