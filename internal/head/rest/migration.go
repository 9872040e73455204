package rest

import (
	"context"
	"errors"
	"strconv"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/move/migrate"
)

// Mover moves the installation to other engines. It refuses with WrongState, and the wrapped error
// says why.
type Mover interface {
	Status(ctx context.Context) (migrate.Status, error)
	// Start checks both sides and begins the migration, unless it is a dry run or a check fails.
	// The report lists the failed checks.
	Start(ctx context.Context, who drive.Who, in MigrationStart) (migrate.Report, error)
	// Step executes one step of a running migration.
	Step(ctx context.Context, who drive.Who, step MigrationStep, in MigrationBody) error
	// Explain records why a mismatch does not matter. It fails with NotFound or WrongState.
	Explain(ctx context.Context, who drive.Who, id int64, reason string) error
	// Mismatches lists differences found between the two sides, the latest first.
	Mismatches(ctx context.Context, limit int) ([]migrate.Mismatch, error)
}

// MigrationStep is an administrator's action on a running migration.
type MigrationStep string

// The steps of a migration; docs of the routes describe each.
const (
	MigrationVerify   MigrationStep = "verify"
	MigrationAdvance  MigrationStep = "advance"
	MigrationPercent  MigrationStep = "percent"
	MigrationPause    MigrationStep = "pause"
	MigrationResume   MigrationStep = "resume"
	MigrationRollback MigrationStep = "rollback"
	MigrationFinish   MigrationStep = "finish"
	MigrationDrop     MigrationStep = "drop"
	MigrationRate     MigrationStep = "rate"
	MigrationDropOld  MigrationStep = "drop-old"
)

// MigrationStart names the target engines of a migration.
type MigrationStart struct {
	ToDB    string `json:"to_db,omitempty" doc:"target database: a mysql:// URL, or the absolute path of a data directory for SQLite; absent: the database is not moved"`
	ToBlobs string `json:"to_blobs,omitempty" doc:"target of file contents: an s3:// URL or the absolute path of a directory; absent: contents are not moved"`
	ToRedis string `json:"to_redis,omitempty" doc:"with s3://: URL of the Redis that stores the journals of uploads"`
	DryRun  bool   `json:"dry_run,omitempty" doc:"true: checks the requirements and writes nothing on either side"`
	Rows    int64  `json:"rows_per_second,omitempty" doc:"rate limit of backfill and comparison, in rows per second; 0: unlimited"`
	Bytes   int64  `json:"bytes_per_second,omitempty" doc:"rate limit, in bytes per second, of rows and of contents each; 0: unlimited"`
}

// MigrationBody holds the arguments of a step; each step uses some.
type MigrationBody struct {
	Phase   *int      `json:"phase,omitempty" doc:"for advance and rollback: the expected current phase; in another phase nothing is done, so a repeated request has no effect"`
	Percent int       `json:"percent,omitempty" doc:"for percent, verify and drop-old: 0 to 100"`
	Users   *[]string `json:"users,omitempty" doc:"for percent: names of up to 100 users whose accounts read from the new side regardless of the percentage; absent: unchanged; empty: none"`
	Rows    *int64    `json:"rows_per_second,omitempty" doc:"for rate; 0: unlimited; absent: unchanged"`
	Bytes   *int64    `json:"bytes_per_second,omitempty" doc:"for rate; 0: unlimited; absent: unchanged"`
	Early   bool      `json:"early,omitempty" doc:"for drop-old: true: before the end of the retention period; for drop: true: also while the old side is being dropped; its remaining data stays"`
}

// migrationPath is a route path below prefix: /admin/migration.
const migrationPath = "/admin/migration"

// migration serves the administrators' routes for moving the installation to other engines.
type migration struct{ mover Mover }

// routes returns the declarations of the routes that migration serves. It registers nothing.
func (m migration) routes() []route {
	steps := []struct {
		id      string
		step    MigrationStep
		summary string
	}{
		{"verifyMigration", MigrationVerify, "Compare both sides in full: all rows, and that every content is at both places; `percent` of the contents are read again."},
		{"advanceMigration", MigrationAdvance, "Enter the next phase, up to 4, if its gate is open. Phase 5 is entered by `finish`."},
		{"setMigrationPercent", MigrationPercent, "Set of how many percent of the accounts reads go to the new side, in phase 3, and of which `users` they do whatever the percentage."},
		{"pauseMigration", MigrationPause, "Stop filling in and comparing; what changes is still brought to the other side."},
		{"resumeMigration", MigrationResume, "Go on after a pause."},
		{"rollBackMigration", MigrationRollback, "Go back to the phase before; from phase 1 the migration is given up."},
		{"finishMigration", MigrationFinish, "Leave the old side: phase 5."},
		{"dropMigration", MigrationDrop, "Forget a migration that has finished, once the installation was started with its new settings, and the old side is not being dropped."},
		{"setMigrationRate", MigrationRate, "Change how many rows and bytes a second are filled in, copied and compared at most. All instances follow."},
		{"dropMigrationSource", MigrationDropOld, "Drop what the old side has, rows and contents, once it was kept for as long as --migration-keep says, or `early`. It goes on in the background; " +
			"`percent` of the contents are read at the new place before they go, of the others the size is compared. What the new place does not have stays."},
	}
	all := []route{
		{
			id: "getMigration", method: "GET", path: migrationPath, access: admins, action: withoutBody(m.show),
			summary:  "Show how far the installation is on its way to other engines, and what the gate of the next phase waits for.",
			outcomes: []outcome{jsonOutcome[migrate.Status](200, "where the migration stands; `state` is `none` when nothing moves")},
		}, {
			id: "startMigration", method: "POST", path: migrationPath, access: admins, action: withJSON(m.start),
			summary:  "Begin to move the installation to another database, another place of contents, or both, while it serves. It begins when the report is `ok`; with `dry_run` nothing is written anywhere. Over the network each place must be one of `--migration-targets`, or it is 403; `smartdrive migrate start` on the server's machine may name any.",
			outcomes: []outcome{jsonOutcome[migrate.Report](200, "what was looked at")}, errors: []drive.Kind{drive.WrongState},
		}, {
			id: "listMigrationMismatches", method: "GET", path: migrationPath + "/mismatches", access: admins, action: withoutBody(m.listMismatches), query: []param{limitParam},
			summary:  "List what the two sides of a migration did not agree on, the latest first.",
			outcomes: []outcome{jsonOutcome[api.Page[migrate.Mismatch]](200, "a page")},
		}, {
			id: "explainMigrationMismatch", method: "POST", path: migrationPath + "/mismatches/{id}/explain", access: admins, action: withJSON(m.explain),
			summary:  "Say why a mismatch does not matter. It closes no gate any more, and is shown there with who has explained it, and why. The first explanation stays.",
			outcomes: []outcome{emptyOutcome(204, "it is explained")}, errors: []drive.Kind{drive.NotFound, drive.WrongState},
		},
	}
	for _, of := range steps {
		all = append(all, route{
			id: of.id, method: "POST", path: migrationPath + "/" + string(of.step), access: admins, bodyOptional: true,
			action: withJSON(func(ctx context.Context, c *call, in *MigrationBody) (reply, error) {
				return m.step(ctx, c, of.step, in)
			}),
			summary:  of.summary,
			outcomes: []outcome{jsonOutcome[migrate.Status](200, "where the migration stands now")}, errors: []drive.Kind{drive.WrongState},
		})
	}
	return all
}

// noMover is the Mover of an installation that cannot migrate. Every change fails with WrongState.
type noMover struct{}

// Status returns the state "none".
func (noMover) Status(context.Context) (migrate.Status, error) {
	return migrate.Status{State: "none", Instances: []migrate.Instance{}, Gate: []migrate.Gate{}}, nil
}

// Start fails with drive.WrongState.
func (noMover) Start(context.Context, drive.Who, MigrationStart) (migrate.Report, error) {
	return migrate.Report{}, drive.Fail(drive.WrongState)
}

// Step fails with drive.WrongState.
func (noMover) Step(context.Context, drive.Who, MigrationStep, MigrationBody) error {
	return drive.Fail(drive.WrongState)
}

// Explain fails with drive.WrongState.
func (noMover) Explain(context.Context, drive.Who, int64, string) error {
	return drive.Fail(drive.WrongState)
}

// Mismatches returns nothing.
func (noMover) Mismatches(context.Context, int) ([]migrate.Mismatch, error) { return nil, nil }

// show serves GET /admin/migration. It replies 200 with migrate.Status; the state is "none" without
// a migration.
func (m migration) show(ctx context.Context, _ *call) (reply, error) {
	return answer(m.mover.Status(ctx))
}

// start serves POST /admin/migration. It replies 200 with migrate.Report. Beyond the errors common
// to all routes it fails with drive.WrongState.
func (m migration) start(ctx context.Context, c *call, in *MigrationStart) (reply, error) {
	report, err := m.mover.Start(ctx, c.who, *in)
	return answer(report, withReason(err))
}

// step serves the POST routes below /admin/migration, one for each step. It executes the step even
// if the client disconnects, and replies 200 with migrate.Status. It fails with drive.WrongState
// where the step is not possible now.
func (m migration) step(ctx context.Context, c *call, step MigrationStep, in *MigrationBody) (reply, error) {
	if in.Percent < 0 || in.Percent > 100 {
		return reply{}, drive.BadField("percent", drive.OutOfRange, "min", 0, "max", 100, "sent", in.Percent)
	}
	// A step continues if the client disconnects, because a half-executed step would need manual
	// repair.
	if err := m.mover.Step(context.WithoutCancel(ctx), c.who, step, *in); err != nil {
		return reply{}, withReason(err)
	}
	return answer(m.mover.Status(ctx))
}

// listMismatches serves GET /admin/migration/mismatches. It replies 200 with
// api.Page[migrate.Mismatch].
func (m migration) listMismatches(ctx context.Context, c *call) (reply, error) {
	items, err := m.mover.Mismatches(ctx, c.limit())
	if items == nil {
		items = []migrate.Mismatch{}
	}
	return answer(api.Page[migrate.Mismatch]{Items: items}, err)
}

// explanation is the JSON request body of POST /admin/migration/mismatches/{id}/explain.
type explanation struct {
	Reason string `json:"reason" doc:"explanation why the mismatch is harmless, at most 2000 bytes"`
}

// explain serves POST /admin/migration/mismatches/{id}/explain. It replies 204 without a body.
// Beyond the errors common to all routes it fails with drive.NotFound or drive.WrongState.
func (m migration) explain(ctx context.Context, c *call, in *explanation) (reply, error) {
	id, err := strconv.ParseInt(c.r.PathValue("id"), 10, 64)
	if err != nil {
		return reply{}, drive.Wrap(err, drive.NotFound)
	}
	return empty(withReason(m.mover.Explain(ctx, c.who, id, in.Reason)))
}

// withReason adds the reason of a refusal to the problem that the administrator gets. Errors of
// kind WrongState are worded for administrators here; other errors stay unchanged.
func withReason(err error) error {
	if !drive.IsKind(err, drive.WrongState) {
		return err
	}
	why := err
	if e, ok := errors.AsType[*drive.Error](err); ok && e.Err != nil {
		why = e.Err // without the text of the kind
	}
	args := []any{"why", why.Error()}
	if refusal, ok := errors.AsType[*migrate.Refusal](err); ok {
		args = append(args, "gate", refusal.Gates)
	}
	return drive.Wrap(err, drive.WrongState, args...)
}
