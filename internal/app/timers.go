package app

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream/dispatch"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/memory"
	"example.org/smartdrive/internal/engine/timer/redis"
)

// timers keeps the timer queue complete: it arms what the rows need after a start and after the
// queue has lost timers.
type timers struct {
	log     *slog.Logger
	db      *sqldb.DB
	member  *instance.Member
	modules *modules
	outbox  *outbox.Outbox // stores dead letters
	shared  *redis.Queue   // queue of several instances; nil: this process keeps timers in memory
	engine  *timer.Engine
	armed   atomic.Bool // the timers of all uploads are armed since the start
}

// queue returns the timer queue that instances share, or else a new one in the memory of this
// process. Only the new one calls stepped when the clock jumps.
func (t *timers) queue(stepped func(by time.Duration)) timer.Queue {
	if t.shared != nil {
		return t.shared
	}
	return memory.New(memory.Options{OnClockStep: stepped})
}

// recoverUntilDone arms all timers (see arm), and retries until that has succeeded or ctx ends.
// Readiness does not wait for it.
func (t *timers) recoverUntilDone(ctx context.Context) error {
	return untilDone(ctx, t.log, "recover", t.arm)
}

// arm arms the timers of all uploads, of all running operations and of housekeeping, as their rows
// require. With a queue that instances share, one instance does so, and the others wait until it
// has, or ctx ends.
func (t *timers) arm(ctx context.Context) error {
	if t.shared == nil {
		return t.modules.armTimers(ctx)
	}
	return t.armOnce(ctx)
}

// startOperation arms the timer that runs a long operation now, and waits for the queue's answer. A
// failure is logged, and housekeeping arms the timer later.
func (t *timers) startOperation(id drive.OperationID) {
	err := t.engine.Arm(context.Background(), timer.Entry{Key: timer.Key{Kind: timer.Operation, ID: id}, Gen: 1})
	if err != nil {
		t.log.Error("the timer of an operation could not be armed; housekeeping retries", "operation", id, "error", err)
	}
}

// onDead stores a timer whose handler has failed permanently as a dead letter in the database. If
// it fails, the engine tries the timer again.
func (t *timers) onDead(ctx context.Context, f timer.Fired, cause error) error {
	record, err := dispatch.Record(f)
	if err != nil {
		return err
	}
	return t.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return t.outbox.Add(ctx, tx, dispatch.ConsumerName, record, f.Attempt, cause)
	})
}

// onLost handles the loss of timers in the queue: the modules prepare for it, and all timers are
// armed again from the rows. It fails if either step fails.
func (t *timers) onLost(ctx context.Context) error {
	if err := t.modules.timersLost(ctx); err != nil {
		return err
	}
	return t.arm(ctx)
}

// metaArmed is the meta key of the shared queue's state for which all timers were armed.
const metaArmed = "timers-armed"

// armOnce arms all timers in a queue that several instances share. Such a queue survives starts. So
// the database records for which state of the queue the timers were armed, and one instance arms
// them again if the state differs. Arming twice is harmless. It waits while another instance arms,
// and fails with the cause of ctx or the error of arming.
func (t *timers) armOnce(ctx context.Context) error {
	for {
		done, _, err := t.isArmed(ctx)
		if err != nil || done {
			return err
		}
		if held, err := t.member.Try(ctx, leaseArm, t.armAll); err != nil || held {
			return err
		}
		select { // another instance arms them
		case <-time.After(time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// armAll arms all timers and records for which state of the queue that was done. If the record is
// up to date it does nothing. It fails with the error of the queue or the database; the record is
// then not written.
func (t *timers) armAll(ctx context.Context) error {
	done, state, err := t.isArmed(ctx)
	if err != nil || done {
		return err
	}
	t.log.InfoContext(ctx, "arming all timers")
	if err := t.modules.armTimers(ctx); err != nil {
		return err
	}
	return t.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Set(ctx, tx, metaArmed, state) })
}

// armMoved arms all timers in the shared queue at the end of a migration; timers in memory were
// armed at the start. Until then instances with the old settings armed timers in the old queue,
// even after the first instance with the new settings had armed all in the new one. The recorded
// state may be of the new queue from an earlier use, so armMoved ignores it.
func (t *timers) armMoved(ctx context.Context) error {
	if t.shared == nil { // in memory: they were armed at the start
		return nil
	}
	t.log.InfoContext(ctx, "arming all timers: no instance with the old settings is left")
	return t.modules.armTimers(ctx)
}

// isArmed reports whether the timers are armed for the current state of the shared queue, and
// returns it. It fails if the queue or the database cannot be read.
func (t *timers) isArmed(ctx context.Context) (done bool, state string, err error) {
	if state, err = t.shared.StateID(ctx); err != nil {
		return false, "", err
	}
	armed, err := meta.Find(ctx, t.db, metaArmed)
	if done = err == nil && armed == state; done {
		t.armed.Store(true)
	}
	return done, state, err
}
