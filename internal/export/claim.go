package export

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/instance/lease"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

// errFenced says that somebody else has the batch, or that it has ended: nothing was changed, and
// its worker stops.
var errFenced = lease.ErrFenced

// queue says who works on which batch: claims, leases, turns, and how a try ended.
type queue struct {
	*ground
	asked sync.Map // by the id of a batch of this process: what tells its worker to give it back
}

// claim takes the first batch that is due, if this machine may work on one more; nil: there is
// none. The row of the machine is locked first, so that any number of pollers of a machine count
// one after the other.
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
		if over = b.State == Running; over && b.barren() && q.died() {
			b.Tries++ // perhaps it is what ended its process
		}
		b.State, b.Epoch, b.Worker, b.Machine, b.Due = Running, b.Epoch+1, q.opt.Instance, q.opt.Machine, now.Add(lease.Length)
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
		return took(ctx, tx, b.Account, now)
	})
	if err != nil {
		return nil, fmt.Errorf("claim a batch: %w", q.answered(err))
	}
	if over && taken != nil {
		q.counters.TakenOver.Add(1)
	}
	return taken, nil
}

// answered notes that the database is away, and returns the error.
func (g *ground) answered(err error) error {
	if drive.IsKind(err, drive.Unavailable) {
		now := time.Now() // with what no change of the clock touches
		g.away.Store(&now)
	}
	return err
}

// sinceAway is how long after the last call that the database did not answer a lease may have ended
// for that: the lease, and the time until somebody looks.
const sinceAway = 2 * lease.Length

// died reports whether a lease that is over says that its process has ended: not if no heartbeat
// can have come through.
func (g *ground) died() bool {
	at := g.away.Load()
	return at == nil || time.Since(*at) > sinceAway
}

// lockMachine locks the row of this machine and returns how many batches and jobs it works on.
func (q *queue) lockMachine(ctx context.Context, tx *sqldb.Tx, now drive.Time) (batches, jobs int, err error) {
	n, err := tx.Exec(ctx, `UPDATE export_machines SET seen_at = ? WHERE machine = ?`, now, q.opt.Machine)
	if err != nil {
		return 0, 0, err
	}
	if n == 0 {
		made, err := tx.InsertNew(ctx, `INSERT INTO export_machines (machine, seen_at) VALUES (?, ?)`, q.opt.Machine, now)
		if err == nil && !made {
			err = sqldb.Again(errors.New("the machine's row has come"))
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

// skipLocked is what to put at the end of a SELECT by key of a row that is taken only if nobody
// else is taking it.
func skipLocked(tx *sqldb.Tx) string {
	if tx.Dialect() == sqldb.MySQL {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// fenced is the beginning of every statement of a worker.
const fenced = ` WHERE id = ? AND epoch = ? AND state = 'running'`

// update changes the row of a batch that this worker has, or is errFenced.
func (b *batch) update(ctx context.Context, tx *sqldb.Tx, set string, args ...any) error {
	n, err := tx.Exec(ctx, "UPDATE exports SET "+set+fenced, append(args, b.ID, b.Epoch)...)
	if err != nil {
		return fmt.Errorf("update batch %s: %w", b.ID, err)
	}
	if n == 0 {
		return errFenced
	}
	return nil
}

// beat renews the lease and reports whether somebody wants the batch to be given back.
func (q *queue) beat(ctx context.Context, b *batch) (yield bool, err error) {
	now, err := q.now(ctx)
	if err != nil {
		return false, err
	}
	err = q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := b.update(ctx, tx, "due_at = ?", now.Add(lease.Length)); err != nil {
			return err
		}
		var at drive.Time
		err := tx.QueryRow(ctx, "SELECT yield_at FROM exports WHERE id = ?", b.ID).Scan(&at)
		yield = at != 0 && at <= now
		return err
	})
	return yield || err == nil && q.stopFor(ctx, b.User), err
}

// giveBack leaves a batch to others. avoid keeps this machine from taking it for so long.
func (q *queue) giveBack(ctx context.Context, b *batch, avoid time.Duration) error {
	return q.giveBackAfter(ctx, b, avoid, false)
}

// giveBackAfter is giveBack after what perhaps was a try.
func (q *queue) giveBackAfter(ctx context.Context, b *batch, avoid time.Duration, try bool) error {
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

// again says when an aborted batch is due once more.
func again(tries int64) time.Duration { return 30 * time.Second << min(tries, 5) }

// abort ends a try. After too many of them the batch has failed for good.
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
			return q.tell(ctx, tx, stream.ExportFailed, failed)
		})
	}
	q.counters.Aborted.Add(1)
	return q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "state = 'aborted', epoch = epoch + 1, error = ?, tries = tries + 1, due_at = ?, save_point = 0, avoid = ''",
			reason, now.Add(again(b.Tries)))
	})
}

const (
	asideWait   = 5 * time.Second  // until entries that were set aside are tried again; twice as long each time: 35 s in all
	othersFirst = 20 * time.Second // so long others have the first go at what this machine does not get at
	aliveFor    = time.Minute      // a machine that has looked for work within it is there
)

// setBack ends a try of which only entries are left that may be had a little later, or by another
// machine where there is one. The batch waits as it did before: all else has arrived, and in the
// last try what is left counts as failed.
func (q *queue) setBack(ctx context.Context, b *batch, left *leftError) error {
	now, err := q.now(ctx)
	if err != nil {
		return err
	}
	due, machine, until := now.Add(asideWait<<min(b.Tries, maxTries)), "", drive.Time(0)
	if left.unread {
		due = now.Add(again(b.Tries))
	} else if left.elsewhere {
		var others int
		err := q.opt.DB.QueryRow(ctx, "SELECT COUNT(*) FROM export_machines WHERE machine <> ? AND seen_at > ?", q.opt.Machine, now.Add(-aliveFor)).Scan(&others)
		if err != nil {
			return fmt.Errorf("look for other machines: %w", err)
		}
		if others > 0 {
			due, machine, until = now, q.opt.Machine, now.Add(othersFirst)
		}
	}
	q.counters.Aborted.Add(1)
	return q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, `state = 'pending', epoch = epoch + 1, error = ?, tries = tries + 1, due_at = ?, save_point = 0, yield_at = 0,
			avoid = ?, avoid_until = ?`, left.reason, due, machine, until)
	})
}

// The rule of a hand-over: a batch that would take its worker so much longer is given to a machine
// that has nothing to do, but not again and again.
const (
	slowAfter    = 10 * time.Minute // estimated remaining time
	measureFor   = time.Minute      // until a rate says something
	maxHandovers = 2
	awayFor      = 30 * time.Minute // so long the slow machine does not take it back
)

// askForSlow asks for the batch that would take longest where it is, if a machine without work
// asks. Its worker stops at the next save point and gives it back.
func (q *queue) askForSlow(ctx context.Context) error {
	now, err := q.now(ctx)
	if err != nil {
		return err
	}
	rows, err := q.opt.DB.Query(ctx, selectBatches+`WHERE state = 'running' AND due_at > ? AND machine <> ? AND yield_at = 0 AND handovers < ?
		AND claimed_at < ? AND (avoid <> ? OR avoid_until <= ?)`,
		now, q.opt.Machine, maxHandovers, now.Add(-measureFor), q.opt.Machine, now)
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
	q.log.InfoContext(ctx, "a slow batch is asked for", "export", slow.ID, "machine", slow.Machine, "remaining", longest)
	return q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE exports SET yield_at = ?, handovers = handovers + 1 WHERE id = ? AND epoch = ? AND state = 'running'
			AND yield_at = 0`, now, slow.ID, slow.Epoch)
		return err
	})
}

// remaining estimates how long a batch will take its worker.
func (b batch) remaining(now drive.Time) time.Duration {
	left := b.Total - b.Collected - b.Failed
	rate := b.rate(now)
	if rate <= 0 {
		rate = 1 / max(now.Sub(b.ClaimedAt).Seconds(), 1) // nothing has come yet: at most one in that time
	}
	return min(time.Duration(float64(left)/rate)*time.Second, 365*24*time.Hour)
}
