package app

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/instance"
	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream/dispatch"
	"smartdrive/internal/engine/stream/outbox"
	"smartdrive/internal/engine/timer"
	"smartdrive/internal/engine/timer/memory"
	"smartdrive/internal/engine/timer/redis"
	"smartdrive/internal/usecase/bulk"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/upload"
)

// timers see to it that every timer that the rows ask for is in the queue: after a start, and when
// the queue has lost some.
type timers struct {
	log    *slog.Logger
	db     *sqldb.DB
	member *instance.Member
	outbox *outbox.Outbox // gets those that are dead
	shared *redis.Queue   // that several instances use; nil: this process keeps its own in memory

	// Made after the engine, which they use.
	uploads    *upload.Sessions
	operations *files.Operations
	bulk       *bulk.Bulk

	engine *timer.Engine
	armed  atomic.Bool // those of all uploads were armed after the start
}

// queue is where the timers are.
func (t *timers) queue(stepped func(by time.Duration)) timer.Queue {
	if t.shared != nil {
		return t.shared
	}
	return memory.New(memory.Options{Stepped: stepped})
}

// ofUploads are the handlers that act on uploads.
func (t *timers) ofUploads() map[timer.Kind]timer.Handler {
	return map[timer.Kind]timer.Handler{
		timer.Park:    func(ctx context.Context, f timer.Fired) error { return t.uploads.OnPark(ctx, f) },
		timer.Abandon: func(ctx context.Context, f timer.Fired) error { return t.uploads.OnAbandon(ctx, f) },
	}
}

// recoverUntilDone arms again what only memory knew, in the background: readiness does not wait for
// it.
func (t *timers) recoverUntilDone(ctx context.Context) error {
	return untilDone(ctx, t.log, "recover", t.arm)
}

// arm sees to it that every timer that the rows ask for is in the queue.
func (t *timers) arm(ctx context.Context) error {
	if t.shared == nil {
		return t.recover(ctx)
	}
	return t.armOnce(ctx)
}

// recover arms again what only memory knew: the timers of uploads, of operations, of housekeeping.
func (t *timers) recover(ctx context.Context) error {
	if err := t.uploads.Recover(ctx); err != nil {
		return err
	}
	t.armed.Store(true)
	if err := t.armOperations(ctx); err != nil {
		return err
	}
	return t.engine.Arm(ctx, timer.Entry{Key: purgeKey, Idle: time.Minute})
}

// armOperations arms the timers of all operations that run. Those that are armed stay so.
func (t *timers) armOperations(ctx context.Context) error {
	for _, list := range []func(context.Context, drive.OperationID, int) ([]drive.OperationID, error){t.operations.ListRunning, t.bulk.ListRunning} {
		for after, more := (drive.OperationID{}), true; more; {
			running, err := list(ctx, after, 100)
			if err != nil {
				return err
			}
			for _, id := range running {
				t.startOperation(id)
				after = id
			}
			more = len(running) > 0
		}
	}
	return nil
}

// startOperation arms the timer that runs a long operation now.
func (t *timers) startOperation(id drive.OperationID) {
	err := t.engine.Arm(context.Background(), timer.Entry{Key: timer.Key{Kind: timer.Operation, ID: id}, Gen: 1})
	if err != nil {
		t.log.Error("arm the timer of an operation", "operation", id, "error", err)
	}
}

// nextTurn is after how long an operation is asked again that waits for another one of its account.
const nextTurn = time.Second

// roomTurn is after how long an operation is asked again that waits for room in the drive that it
// puts something into, or for another one to end.
const roomTurn = 15 * time.Second

func (t *timers) onOperation(ctx context.Context, f timer.Fired) error {
	id := drive.OperationID(f.Key.ID)
	progress, err := t.bulk.Run(ctx, id)
	switch {
	case drive.IsKind(err, drive.NotFound):
		err := t.operations.Run(ctx, id)
		if files.Waits(err) { // no failure: it goes on when there is room
			return timer.Later(roomTurn)
		}
		return err
	case err != nil:
		return err
	case progress == bulk.More:
		return timer.Later(0)
	case progress == bulk.Waits:
		return timer.Later(nextTurn)
	}
	return nil
}

// onDead puts a timer whose handler has failed for good where an administrator finds it.
func (t *timers) onDead(ctx context.Context, f timer.Fired, cause error) error {
	record, err := dispatch.Record(f)
	if err != nil {
		return err
	}
	return t.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return t.outbox.Add(ctx, tx, dispatch.Name, record, f.Attempt, cause)
	})
}

// onLost is called when the queue has lost timers.
func (t *timers) onLost(ctx context.Context) error {
	if err := t.uploads.NoteLoss(ctx); err != nil {
		return err
	}
	return t.arm(ctx)
}

// metaArmed is the state of the shared queue for which all timers were armed.
const metaArmed = "timers-armed"

// armOnce makes sure that every timer that the rows ask for is in a queue that several instances
// share. One in memory has lost all of them at each start. A shared one keeps them while instances
// come and go: the database remembers for which state of the queue they were armed last, and one
// instance does it again when that is another one. Twice is harmless.
func (t *timers) armOnce(ctx context.Context) error {
	for {
		done, _, err := t.isArmed(ctx)
		if err != nil || done {
			return err
		}
		if held, err := t.member.Try(ctx, leaseArm, t.armAll); err != nil || held {
			return err
		}
		select { // another instance does it
		case <-time.After(time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// armAll arms everything and notes for which state of the queue it did.
func (t *timers) armAll(ctx context.Context) error {
	done, state, err := t.isArmed(ctx)
	if err != nil || done {
		return err
	}
	t.log.InfoContext(ctx, "arming all timers")
	if err := t.recover(ctx); err != nil {
		return err
	}
	return t.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Set(ctx, tx, metaArmed, state) })
}

// armMoved arms everything once a move has ended: instances with the old settings armed theirs in
// the queue that they had, also after the first one with the new settings had armed all in this
// one. What the database remembers may be of this very queue, from before it was left.
func (t *timers) armMoved(ctx context.Context) error {
	if t.shared == nil { // in memory: they were armed at the start
		return nil
	}
	t.log.InfoContext(ctx, "arming all timers: no instance with the old settings is left")
	return t.recover(ctx)
}

// isArmed reports whether the timers were armed for the present state of the shared queue.
func (t *timers) isArmed(ctx context.Context) (done bool, state string, err error) {
	if state, err = t.shared.State(ctx); err != nil {
		return false, "", err
	}
	armed, err := meta.Find(ctx, t.db, metaArmed)
	if done = err == nil && armed == state; done {
		t.armed.Store(true)
	}
	return done, state, err
}
