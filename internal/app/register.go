package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream/dispatch"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload"
)

// register adds all modules. Their order is that of housekeeping and of the purge of an account.
// There, exports end before the uploads that write them, all work on a tree ends before the tree,
// and the account with its user comes last.
func (a *App) register() {
	a.registerEngines()
	a.registerWork()
	a.registerAnnotations()
	a.registerAccounts()
}

// registerEngines adds the modules on which the modules of use cases run, such as timers, records
// and audits. It starts nothing.
func (a *App) registerEngines() {
	p, roles := a.platform, a.platform.cfg.Roles
	fired := dispatch.New(dispatch.Options{Handlers: a.transport.fired, Timers: a.timers.engine, OnTrace: a.traces.record})
	p.modules.add(module{
		name: "platform", loops: append(p.shared.loops(), p.member.Run, p.kept.Run, p.watchDataDisk), observe: p.observe,
	}, module{
		name: "migration", loops: []loop{a.mover.rows.Run}, observe: a.mover.observe, tables: []string{"migration_changes"},
	}, module{
		name: "settings", loops: []loop{a.settings.Run},
	}, module{
		name: "timers", consumers: fired.Consumers(), onMigrated: a.timers.armMoved,
		loops:   append(when(roles.Scheduler || roles.Worker, a.timers.recoverUntilDone), a.timers.engine.Run),
		observe: func(m *telemetry.Metrics) { observeTimers(m, a.timers.engine) },
	}, module{
		name: "timer steps", loops: []loop{a.traces.recorder.Run}, observe: a.traces.observe,
		jobs: []job{oneShot(func(ctx context.Context) error { return a.traces.recorder.Trim(ctx, p.kept.Now()) })},
	}, module{
		name: "records", loops: slices.Concat(when(roles.Scheduler, a.transport.relay...), when(roles.Worker, a.transport.work...)),
		jobs: []job{oneShot(func(ctx context.Context) error { return second(a.outbox.Trim(ctx, p.kept.Now())) })},
		observe: func(m *telemetry.Metrics) {
			counts(m, "outbox_published_total", "Records published to the outbox.", &a.outbox.Counters().Published)
		},
	}, module{
		name: "audit", loops: when(roles.Worker, underLease(p.member, leaseAudit, a.auditor.Run), a.auditor.RunPageChecks),
		observe: func(m *telemetry.Metrics) { observeAudit(m, a.auditor) },
	}, module{
		name: "unlink", loops: when(roles.Worker, a.unlinker.Run),
		// Releases before package unlink have armed timers.
		handlers: map[timer.Kind]timer.Handler{timer.Unlink: func(context.Context, timer.Fired) error { return nil }},
		observe:  func(m *telemetry.Metrics) { observeUnlinker(m, &a.unlinker.Counters) },
	}, module{
		name: "samples", loops: when(roles.Worker, underLease(p.member, leaseSample, a.sampler.run)), observe: a.sampler.observe,
	}, module{
		name: "thumbnails", observe: func(m *telemetry.Metrics) { observeThumbs(m, &a.thumbs.Counters) },
	})
}

// registerWork adds the modules of trees and of what writes to them, such as exports, uploads and
// operations. It starts nothing.
func (a *App) registerWork() {
	p, roles := a.platform, a.platform.cfg.Roles
	expiry := files.NewExpiry(a.files, files.ExpiryOptions{TrashKeep: p.cfg.TrashKeep, RetentionClock: p.kept.Now})
	operations := operations{timers: a.timers, files: a.files.Operations, bulk: a.bulk}
	p.modules.add(module{
		name:         "exports",
		tables:       []string{"archives", "export_jobs", "export_marks", "export_pins", "export_schedules", "export_texts", "export_turns", "export_wants", "exports"},
		purgeAccount: a.exports.DeleteAccount, jobs: []job{oneShot(a.exports.Purge)}, loops: when(roles.Export, a.exports.Run), isWriting: a.exports.IsWriting,
		observe: func(m *telemetry.Metrics) { observeExports(m, a.exports) },
	}, module{
		name: "uploads", tables: []string{"uploads", "refusals"},
		purgeAccount: func(ctx context.Context, id drive.AccountID) error { return second(a.uploads.ReclaimAll(ctx, id)) }, deleteAccount: a.uploads.DeleteAccount,
		jobs: []job{
			oneShot(func(ctx context.Context) error {
				return errors.Join(a.collects.Purge(ctx), a.uploads.PurgeEnded(ctx)) // collects counts rows of uploads before they are deleted
			}),
			oneShot(func(ctx context.Context) error { return upload.ReclaimAllRevoked(ctx, a.uploads) }),
		},
		handlers: map[timer.Kind]timer.Handler{timer.Park: a.uploads.OnPark, timer.Abandon: a.uploads.OnAbandon},
		armTimers: func(ctx context.Context) error {
			err := a.uploads.Recover(ctx)
			if err == nil {
				a.timers.armed.Store(true)
			}
			return err
		},
		onTimersLost: a.uploads.SuspendAllReclaims, onClockStep: func(time.Duration) { a.uploads.SuspendReclaims() }, isWriting: a.uploads.IsWriting,
	}, module{
		name: "operations", tables: []string{"bulks", "bulk_items", "operations"}, purgeAccount: a.bulk.DeleteAccount,
		// The instance that created an operation may have died before it armed the timer.
		jobs:     []job{a.bulk.Purge, oneShot(operations.armTimers)},
		handlers: map[timer.Kind]timer.Handler{timer.Operation: operations.onTimer}, armTimers: operations.armTimers,
	}, module{
		name: "activity", tables: []string{"activity"}, purgeAccount: a.activity.DeleteAccount, jobs: []job{oneShot(a.activity.Purge)},
		loops: when(roles.API, a.activity.Run, a.downloads.Run),
	}, module{
		name: "trees", tables: []string{"due", "node_numbers", "nodes", "old_versions", "owed", "owed_files", "tombstones", "trees", "versions"},
		purgeAccount: expiry.PurgeAccount,
		jobs: []job{func(ctx context.Context) (bool, error) {
			expired, err := expiry.Purge(ctx)
			return expired.More, err
		}},
	}, module{
		name: "intake", tables: []string{"bundle_members", "bundles", "document_conflicts", "documents", "sources"},
		purgeAccount: a.intake.Forget, // after the tree, from which the reconciler would find bundles again
		onNodePlaced: a.intake.Arrived,
		loops: when(roles.Ingest, a.intake.Run, a.transport.bundles(a.intake.Consumer()),
			underLease(p.member, leaseCompare, a.intake.RunReconciler), underLease(p.member, leaseGather, a.intake.RunGatherer)),
		observe: func(m *telemetry.Metrics) { observeIntake(m, a.intake) },
	})
}

// registerAnnotations adds the modules of what users attach to nodes and accounts, such as shares,
// grants and stars. It starts nothing.
func (a *App) registerAnnotations() {
	p, roles := a.platform, a.platform.cfg.Roles
	davMetadata := files.NewDAVMetadata(a.files)
	p.modules.add(module{
		name: "shares", tables: []string{"share_downloads", "share_numbers", "shares"}, deleteAccount: a.shares.DeleteAccount,
		jobs:  []job{oneShot(a.shares.Purge), oneShot(a.shareNumbers.Purge)},
		loops: when(roles.Scheduler || roles.Worker, a.links().sealUntilDone),
	}, module{
		name: "collects", tables: []string{"collected", "collects"}, deleteAccount: a.collects.DeleteAccount, // jobs: see uploads
	}, module{
		name: "access", tables: []string{"grants", "group_members", "mounts", "spaces"}, deleteAccount: a.access.DeleteAccount,
		jobs: []job{func(ctx context.Context) (bool, error) {
			ended, more := a.notices.sendDue(ctx, p.log, p.kept.Now())
			return more, a.access.Purge(ctx, ended)
		}},
		loops: when(roles.API, a.access.Run),
	}, module{
		name: "webhooks", tables: []string{"webhooks"}, deleteAccount: a.webhooks.DeleteAccount,
		loops: when(roles.Worker, underLease(p.member, leaseHooks, a.webhooks.Run)),
	}, module{
		name: "WebDAV", tables: []string{"dav_locks", "dav_properties"}, deleteAccount: davMetadata.DeleteAccount, jobs: []job{oneShot(davMetadata.Purge)},
	}, module{
		name: "stars", tables: []string{"stars"}, deleteUser: byID(a.stars.DeleteUser), jobs: []job{oneShot(a.stars.Purge)},
	}, module{
		name: "notifications", tables: []string{"notice_people", "notices"}, deleteUser: byID(a.notices.store.DeleteUser), jobs: []job{oneShot(a.notices.store.Purge)},
		consumers: a.notices.teller.Consumers(), loops: a.notices.loops(p.member, roles),
	})
}

// registerAccounts adds the accounts, and what the rows of an account or a user end with.
func (a *App) registerAccounts() {
	p, roles := a.platform, a.platform.cfg.Roles
	p.modules.add(module{
		name: "idempotency", tables: []string{"idempotency", "key_conflicts"}, deleteUser: byID(a.keyConflicts.DeleteUser),
		jobs: []job{
			oneShot(func(ctx context.Context) error { return second(a.keys.Purge(ctx, p.kept.Now())) }),
			oneShot(func(ctx context.Context) error { return a.keyConflicts.Purge(ctx, p.kept.Now()) }),
		},
	}, module{
		name: "quota", tables: []string{"ledgers"}, deleteAccount: quota.Ledger{}.Delete,
	}, module{
		name: "accounts", tables: []string{"identities", "identity_groups", "preferences", "sessions", "users"},
		deleteUser: a.users.Purge, deleteAccount: a.users.PurgeAccount,
		jobs:  []job{oneShot(func(ctx context.Context) error { return second(a.sessions.Purge(ctx)) })},
		loops: when(roles.API, a.auth.Run, a.sessions.Run),
	}, module{
		name: "housekeeping", jobs: []job{oneShot(a.housekeeping.purgeUsers), oneShot(a.housekeeping.purgeSpaces)},
		handlers:  map[timer.Kind]timer.Handler{timer.Purge: a.housekeeping.onPurge},
		armTimers: func(ctx context.Context) error { return a.timers.engine.Arm(ctx, purgeEntry) },
		loops:     when(roles.Worker, underLease(p.member, leaseCopies, a.housekeeping.keepCopies)),
	})
}

// when returns the loops if the instance has the role that runs them, else nil.
func when(has bool, loops ...loop) []loop {
	if !has {
		return nil
	}
	return loops
}

// second returns an error without the value before it.
func second[T any](_ T, err error) error { return err }

// byID turns a function of a user's id into a deleteUser hook.
func byID(do func(context.Context, *sqldb.Tx, drive.UserID) error) func(context.Context, *sqldb.Tx, account.User) error {
	return func(ctx context.Context, tx *sqldb.Tx, user account.User) error { return do(ctx, tx, user.ID) }
}
