package app

import (
	"context"
	"maps"
	"time"

	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/timer"
)

// composeTimers makes the engine on the queue that the mode has.
func (a *App) composeTimers() {
	a.engine = timer.New(timer.Options{
		Queue: a.mode.queue(), Handlers: a.handlers(), Dead: a.onDead, Lost: a.onLost, Log: a.log,
		Concurrency: a.concurrency(),
	})
}

func (a *App) concurrency() map[timer.Kind]int {
	all := map[timer.Kind]int{timer.Unlink: 1, timer.Operation: 2, timer.Purge: 1}
	maps.Copy(all, a.records.atOnce)
	return all
}

// handlers are those of the kinds that this instance sees to; the others are left for another one. A scheduler acts on uploads
// itself or hands them over to the workers. A worker takes its own from the queue: what they do is neither urgent nor much.
func (a *App) handlers() map[timer.Kind]timer.Handler {
	all := map[timer.Kind]timer.Handler{}
	if a.cfg.Roles.Scheduler {
		maps.Copy(all, a.records.handlers)
	}
	if a.cfg.Roles.Worker {
		all[timer.Unlink] = func(context.Context, timer.Fired) error { return nil } // of releases before package unlink: they end
		all[timer.Operation] = a.onOperation
		all[timer.Purge] = a.onPurge
	}
	return all
}

// ledgerHandlers act on uploads.
func (a *App) ledgerHandlers() map[timer.Kind]timer.Handler {
	return map[timer.Kind]timer.Handler{
		timer.Park:    func(ctx context.Context, f timer.Fired) error { return a.uploads.OnPark(ctx, f) },
		timer.Abandon: func(ctx context.Context, f timer.Fired) error { return a.uploads.OnAbandon(ctx, f) },
	}
}

// onStep holds reclaims back after a clock was set or the machine slept: rows carry times of the old clock.
func (a *App) onStep(by time.Duration) {
	a.log.Warn("the clock stepped; nothing is reclaimed for a while", "by", by)
	if a.uploads != nil { // a shared queue may tell of its clock while it is checked
		a.uploads.LostTimers()
	}
}

// onLost is called when the queue has lost timers.
func (a *App) onLost(ctx context.Context) error {
	if err := a.uploads.NoteLoss(ctx); err != nil {
		return err
	}
	return a.mode.arm(ctx)
}

// metaArmed is the state of the shared queue for which all timers were armed.
const metaArmed = "timers-armed"

// armOnce makes sure that every timer that the rows ask for is in a queue that several instances
// share. One in memory has lost all of them at each start. A shared one keeps them while instances
// come and go: the database remembers for which state of the queue they were armed last, and one
// instance does it again when that is another one. Twice is harmless.
func (a *App) armOnce(ctx context.Context) error {
	for {
		done, _, err := a.isArmed(ctx)
		if err != nil || done {
			return err
		}
		if held, err := a.member.Try(ctx, leaseArm, a.armAll); err != nil || held {
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
func (a *App) armAll(ctx context.Context) error {
	done, state, err := a.isArmed(ctx)
	if err != nil || done {
		return err
	}
	a.log.InfoContext(ctx, "arming all timers")
	if err := a.recover(ctx); err != nil {
		return err
	}
	return a.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return setMeta(ctx, tx, metaArmed, state) })
}

// isArmed reports whether the timers were armed for the present state of the shared queue.
func (a *App) isArmed(ctx context.Context) (done bool, state string, err error) {
	if state, err = a.shared.queue.State(ctx); err != nil {
		return false, "", err
	}
	armed, err := getMeta(ctx, a.db, metaArmed)
	if done = err == nil && armed == state; done {
		a.armed.Store(true)
	}
	return done, state, err
}
