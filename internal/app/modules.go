package app

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/timer"
)

// module declares what one part of the program, such as uploads or shares, contributes to the
// installation: its tables, how their rows end, and its background work. All hooks are optional.
// Calls of a hook follow the order of registration.
type module struct {
	name string

	// tables names the tables of the module with a column for an account, a user or a node.
	// TestEveryTableIsPurged fails for a table that no module names, and for rows that stay.
	tables []string

	// The purge of a deleted account. purgeAccount works in transactions of its own and may be
	// interrupted and repeated. When it has succeeded for all modules, deleteAccount deletes the
	// remaining rows in one transaction, which holds the lock of the account's ledger; for the
	// account of a user, deleteUser runs in the same transaction.
	purgeAccount  func(ctx context.Context, id drive.AccountID) error
	deleteAccount func(ctx context.Context, tx *sqldb.Tx, id drive.AccountID) error
	deleteUser    func(ctx context.Context, tx *sqldb.Tx, user account.User) error

	// jobs are the housekeeping jobs. Among them, one deletes the rows of nodes that were deleted
	// permanently.
	jobs []job

	// handlers handle the fired timers of the module. No other module handles the same kinds.
	handlers map[timer.Kind]timer.Handler
	// armTimers arms the timers that the module's rows need. Arming is idempotent.
	armTimers func(ctx context.Context) error
	// onTimersLost runs before timers that the queue has lost are armed again.
	onTimersLost func(ctx context.Context) error
	// onClockStep runs when the clock of the timer queue has stepped.
	onClockStep func(by time.Duration)
	// onMigrated runs when the last instance with the settings from before a migration has ended.
	onMigrated func(ctx context.Context) error
	// onNodePlaced runs in the transaction that places a node in a tree.
	onNodePlaced func(ctx context.Context, tx *sqldb.Tx, n tree.Node) error

	consumers []stream.Consumer // run by workers
	loops     []loop            // run until the instance stops
	observe   func(m *telemetry.Metrics)
	// isWriting reports whether this process is currently writing the file of that name.
	isWriting func(file string) bool
}

// modules is the list of all modules. The parts that call hooks are constructed with an empty list,
// before the modules that depend on those parts. compose adds all modules before anything runs; the
// list does not change afterwards.
type modules struct{ all []module }

// add registers modules.
func (l *modules) add(m ...module) { l.all = append(l.all, m...) }

// jobs returns the housekeeping jobs of all modules.
func (l *modules) jobs() (all []job) {
	for _, m := range l.all {
		all = append(all, m.jobs...)
	}
	return all
}

// consumers returns the consumers of all modules.
func (l *modules) consumers() (all []stream.Consumer) {
	for _, m := range l.all {
		all = append(all, m.consumers...)
	}
	return all
}

// loops returns the loops of all modules.
func (l *modules) loops() (all []loop) {
	for _, m := range l.all {
		all = append(all, m.loops...)
	}
	return all
}

// observe registers the metrics of all modules.
func (l *modules) observe(metrics *telemetry.Metrics) {
	for _, m := range l.all {
		if m.observe != nil {
			m.observe(metrics)
		}
	}
}

// isWriting reports whether this process is currently writing the file of that name.
func (l *modules) isWriting(file string) bool {
	for _, m := range l.all {
		if m.isWriting != nil && m.isWriting(file) {
			return true
		}
	}
	return false
}

// handle calls the handler of a fired timer's kind. It fails if no module has one.
func (l *modules) handle(ctx context.Context, f timer.Fired) error {
	for _, m := range l.all {
		if handler := m.handlers[f.Key.Kind]; handler != nil {
			return handler(ctx, f)
		}
	}
	return fmt.Errorf("no module handles timers of kind %s", f.Key.Kind)
}

// clockStepped calls the modules' hooks after the clock of the timer queue has jumped by that much.
func (l *modules) clockStepped(by time.Duration) {
	for _, m := range l.all {
		if m.onClockStep != nil {
			m.onClockStep(by)
		}
	}
}

// each calls do for all modules and stops at the first error, to which it adds the module's name.
func (l *modules) each(do func(m module) error) error {
	for _, m := range l.all {
		if err := do(m); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// run calls a hook without arguments of all modules that have it and stops at the first error.
func (l *modules) run(ctx context.Context, hook func(m module) func(context.Context) error) error {
	return l.each(func(m module) error {
		if do := hook(m); do != nil {
			return do(ctx)
		}
		return nil
	})
}

// armTimers arms the timers that the rows of all modules need. It stops at the first error.
func (l *modules) armTimers(ctx context.Context) error {
	return l.run(ctx, func(m module) func(context.Context) error { return m.armTimers })
}

// timersLost calls the hooks for lost timers and stops at the first error.
func (l *modules) timersLost(ctx context.Context) error {
	return l.run(ctx, func(m module) func(context.Context) error { return m.onTimersLost })
}

// migrated calls the hooks for the end of a migration and stops at the first error.
func (l *modules) migrated(ctx context.Context) error {
	return l.run(ctx, func(m module) func(context.Context) error { return m.onMigrated })
}

// nodePlaced calls the hooks for a node that tx places in a tree. It stops at the first error,
// which fails the transaction.
func (l *modules) nodePlaced(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
	return l.each(func(m module) error {
		if m.onNodePlaced == nil {
			return nil
		}
		return m.onNodePlaced(ctx, tx, n)
	})
}

// purgeAccount calls purgeAccount of all modules and stops at the first error. It may be repeated.
func (l *modules) purgeAccount(ctx context.Context, id drive.AccountID) error {
	return l.each(func(m module) error {
		if m.purgeAccount == nil {
			return nil
		}
		return m.purgeAccount(ctx, id)
	})
}

// deleteAccount deletes the remaining rows of all modules that name the account and, unless it is
// nil, its user. The caller holds the lock of the account's ledger. It stops at the first error,
// which fails the transaction.
func (l *modules) deleteAccount(ctx context.Context, tx *sqldb.Tx, id drive.AccountID, user *account.User) error {
	return l.each(func(m module) error {
		if m.deleteAccount != nil {
			if err := m.deleteAccount(ctx, tx, id); err != nil {
				return err
			}
		}
		if m.deleteUser == nil || user == nil {
			return nil
		}
		return m.deleteUser(ctx, tx, *user)
	})
}
