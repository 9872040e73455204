package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"smartdrive/internal/base/config"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/growth"
	"smartdrive/internal/domain/idem"
	"smartdrive/internal/domain/star"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/domain/vault"
	"smartdrive/internal/engine/retention"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream/outbox"
	"smartdrive/internal/engine/timer"
	"smartdrive/internal/engine/turn"
	"smartdrive/internal/export"
	"smartdrive/internal/head/problem"
	"smartdrive/internal/intake/ingest"
	"smartdrive/internal/usecase/admin"
	"smartdrive/internal/usecase/batch"
	"smartdrive/internal/usecase/bulk"
	"smartdrive/internal/usecase/collect"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/fsck"
	"smartdrive/internal/usecase/handover"
	"smartdrive/internal/usecase/history"
	"smartdrive/internal/usecase/setting"
	"smartdrive/internal/usecase/share"
	"smartdrive/internal/usecase/signon"
	"smartdrive/internal/usecase/space"
	"smartdrive/internal/usecase/thumb"
	"smartdrive/internal/usecase/unlink"
	"smartdrive/internal/usecase/upload"
	"smartdrive/internal/usecase/webhook"
)

// App is an installation that is open: every part is put together and nothing runs yet.
type App struct {
	ground  *ground // what it stands on
	mover   *mover
	metrics *telemetry.Metrics

	// What people and their programs do.
	tree         *tree.Tree
	uploads      *upload.Sessions
	files        *files.Files
	access       *access.Access
	activity     *activity.Log
	downloads    *history.Downloads
	events       chronicle
	spaces       *space.Spaces
	signOn       *signon.SignOn
	handovers    *handover.Handovers
	history      *history.History
	webhooks     *webhook.Webhooks
	notices      *notices
	bulk         *bulk.Bulk
	batches      *batch.Batches
	vault        *vault.Vault
	thumbs       *thumb.Maker
	shares       *share.Shares
	shareNumbers *space.Numbers
	exports      *export.Exports
	intake       *ingest.Intake
	collects     *collect.Links
	auth         *account.Auth
	users        *account.Users
	stars        *star.Stars
	growth       *growth.Growth
	settings     *setting.Settings
	sessions     *account.Sessions
	keys         *idem.Keys
	keyConflicts *idem.Conflicts
	prepared     *idem.PreparedIDs
	admin        *admin.Admin

	// What goes on behind it.
	outbox   *outbox.Outbox
	courier  *courier
	ways     *ways
	timers   *timers
	house    *house
	unlinker *unlink.Unlinker
	auditor  *fsck.Checker
	sampler  *sampler
}

// Open opens the installation that cfg names. It fails in words when somebody else has the data
// directory, when something that it stands on is not as it must be, when database and blobs do not
// belong together, or when the database is of a newer release; nothing is changed then.
func Open(ctx context.Context, cfg config.Config, log *slog.Logger) (*App, error) {
	a, err := open(ctx, cfg, log, func(context.Context, *ground) error { return nil })
	return a, explainDamage(explainOwner(err, cfg.Data, cfg.Blobs), cfg.Data)
}

// open is Open with a look at what was found, before anything is made.
func open(ctx context.Context, cfg config.Config, log *slog.Logger, look func(context.Context, *ground) error) (_ *App, err error) {
	g := newGround(cfg, log)
	a := &App{ground: g, metrics: telemetry.NewMetrics()}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if g.lock, err = lockDir(cfg.Data); err != nil {
		return nil, err
	}
	if err := g.mode.connect(ctx); err != nil {
		return nil, err
	}
	g.kept = retention.New(retention.Options{DB: g.db, Log: log})
	a.mover = newMover(cfg, log, g.db, g.kept.Now)
	if g.marks, err = a.mover.takeUp(ctx, g.marks); err != nil {
		return nil, err
	}
	if err := look(ctx, g); err != nil {
		return nil, err
	}
	if g.Installation, err = g.mode.identify(ctx); err != nil {
		return nil, err
	}
	if err := g.mode.join(ctx); err != nil {
		return nil, err
	}
	if err := g.mode.bytes(ctx); err != nil {
		return nil, err
	}
	g.bytes = a.mover.take(g.Installation, g.member, g.bytes)
	if err := a.compose(ctx); err != nil {
		return nil, err
	}
	g.keepBallast(ctx)
	return a, a.ensureFirstUser(ctx)
}

// compose builds the use cases from the bottom up.
func (a *App) compose(ctx context.Context) (err error) {
	g, cfg, log := a.ground, a.ground.cfg, a.ground.log
	if err := g.kept.Look(ctx); err != nil {
		return err
	}
	a.outbox = outbox.New(g.db, outbox.Options{Source: g.source(), Relayed: cfg.Kafka != nil, Log: log})
	a.activity = activity.New(activity.Options{DB: g.db, Now: g.stamp, Kept: g.kept.Now, Keep: cfg.ActivityKeep, Shared: g.bytes.staging.Caps().Shared})
	a.events = chronicle{outbox: a.outbox, log: a.activity}
	if err := a.composeTimers(); err != nil {
		return err
	}
	a.access = access.New(access.Options{DB: g.db, Now: g.stamp, Shared: g.bytes.staging.Caps().Shared})
	trees := tree.Options{MaxNodes: int64(cfg.MaxNodes), Now: g.stamp, Kept: g.kept.Now, Arrived: a.arrived, Happened: a.activity.Node}
	trees.Trashed = func(ctx context.Context, tx *sqldb.Tx, n tree.Node) error { return a.access.Moved(ctx, tx, n.Account) }
	files.KeepLocks(&trees, files.LockRules(g.stamp, a.access))
	a.tree = tree.New(trees)
	a.unlinker = unlink.New(unlink.Parts{DB: g.db, Store: g.bytes.store, Content: g.content()}, unlink.Options{
		Grace: orLeast(cfg.BlobGrace), Restored: g.Restored, Damaged: func() bool { return a.auditor.DatabaseDamaged() }, Log: log,
	})
	a.uploads = upload.New(upload.Parts{
		DB: g.db, Staging: g.bytes.staging, Store: g.bytes.store, Tree: a.tree, Timers: a.timers.engine, Events: a.events,
		Content: g.content(), Access: a.access,
	}, g.uploadOptions())
	g.stepped = func(time.Duration) { a.uploads.LostTimers() } // rows carry times of the old clock
	a.auditor = fsck.New(a.auditParts(), fsck.Options{Scrub: cfg.Scrub, Log: log})
	noted := history.OfAccounts(a.activity)
	a.auth = account.NewAuth(g.db, account.Options{Log: log})
	a.users = account.NewUsers(g.db, a.auth, account.Options{Now: g.stamp, Log: log, PasswordChanged: g.onPassword, Happened: noted})
	a.sessions = account.NewSessions(g.db, a.users, a.auth, account.Options{Kept: g.kept.Now, Log: log, Happened: noted})
	if a.prepared, err = idem.OpenPreparedIDs(ctx, g.db, idem.Options{}); err != nil {
		return err
	}
	if a.vault, err = g.openVault(ctx); err != nil {
		return err
	}
	a.keys, a.keyConflicts = idem.NewKeys(g.db, idem.Options{Sealer: a.vault}), idem.NewConflicts(g.db, idem.Options{})
	a.downloads = history.NewDownloads(history.Parts{DB: g.db, Log: a.activity, Tree: a.tree}, nil, log)
	long := turn.NewLong(g.db.Concurrency)
	a.files = files.New(files.Options{
		DB: g.db, Tree: a.tree, Content: g.content(), Store: g.bytes.store,
		Start: a.timers.startOperation, Access: a.access, Handed: a.handed, Downloaded: a.downloads.File,
		Fingerprint: g.Fingerprint, Turns: long, Log: log,
	})
	a.stars, a.growth = star.New(g.db, g.stamp), growth.New(g.db, g.stamp)
	a.history = history.New(history.Parts{DB: g.db, Log: a.activity, Access: a.access, Users: a.users, Tree: a.tree})
	a.webhooks = webhook.New(webhook.Parts{DB: g.db, Log: a.activity, Access: a.access, Tree: a.tree, Vault: a.vault}, webhook.Options{
		Source: g.source(), Transport: webhookTransport(cfg), Log: log, Disabled: a.events.hookDisabled,
	})
	a.notices = newNotices(a)
	a.shareNumbers = space.NewNumbers(g.db)
	a.shares = share.New(share.Options{DB: g.db, Access: a.access, Tree: a.tree, Users: a.users, Vault: a.vault, Kept: g.kept.Now, Log: a.activity})
	a.bulk = bulk.New(bulk.Options{
		DB: g.db, Tree: a.tree, Files: a.files, Shares: a.shares, Start: a.timers.startOperation, Events: a.events, Now: g.stamp, Kept: g.kept.Now, Log: log,
		Turns: long,
	})
	a.batches = batch.New(batch.Options{DB: g.db, Tree: a.tree, Uploads: a.uploads, Files: a.files, Keys: a.keys, Turns: long})
	a.collects = collect.New(collect.Options{DB: g.db, Access: a.access, Tree: a.tree, Users: a.users, Vault: a.vault, Log: a.activity})
	a.thumbs = thumb.New(thumb.Options{Dir: filepath.Join(cfg.Data, thumbsDir), Child: cfg.Decoder, Helpers: helpersOf(cfg)})
	if err := a.composeExports(ctx); err != nil {
		return err
	}
	a.composeIntake()
	a.handovers = handover.New(handover.Parts{
		DB: g.db, Users: a.users, Access: a.access, Tree: a.tree, Files: a.files, Shares: a.shares, Collects: a.collects, Uploads: a.uploads,
		Activity: a.activity, Log: log,
	})
	a.spaces = space.New(space.Parts{DB: g.db, Access: a.access, Users: a.users, Tree: a.tree, Log: a.activity, Events: a.events, Busy: a.handovers.Busy}, space.Options{DefaultQuota: g.defaultQuota, Now: g.stamp})
	a.admin = admin.New(admin.Parts{DB: g.db, Users: a.users, Trees: a.tree, Access: a.access, Keys: a.keys, Busy: a.handovers.Busy}, admin.Options{DefaultQuota: g.defaultQuota})
	a.signOn = newSignOn(a)
	a.settings = setting.New(setting.Parts{DB: g.db, Users: a.users, Live: g.live, Log: log, Now: g.stamp, Activity: a.activity, Changed: setLevel})
	if err := a.settings.Refresh(ctx); err != nil {
		return err
	}
	a.introduce()
	return nil
}

// composeTimers chooses the way of records, and makes the engine of timers, whose handlers act by
// what is made after them.
func (a *App) composeTimers() error {
	g, roles := a.ground, a.ground.cfg.Roles
	a.timers = &timers{log: g.log, db: g.db, member: g.member, outbox: a.outbox, shared: g.shared.queue}
	a.ways = newWays(g)
	a.courier = &courier{log: g.log, member: g.member, outbox: a.outbox, ways: a.ways}
	if g.cfg.Kafka == nil {
		a.courier.overOutbox(a.timers.ofUploads())
	} else {
		broker, err := g.newBroker(g.source(), a.outbox)
		if err != nil {
			return err
		}
		g.shared.broker = broker
		a.courier.overKafka(broker, a.timers.ofUploads())
	}
	a.house = &house{}
	// The kinds that this instance sees to; the others are left for another one. A scheduler acts
	// on uploads itself or hands them over to the workers. A worker takes its own from the queue:
	// what they do is neither urgent nor much.
	handlers := map[timer.Kind]timer.Handler{}
	if roles.Scheduler {
		maps.Copy(handlers, a.courier.handlers)
	}
	if roles.Worker {
		handlers[timer.Unlink] = func(context.Context, timer.Fired) error { return nil } // of releases before package unlink: they end
		handlers[timer.Operation] = a.timers.onOperation
		handlers[timer.Purge] = a.house.onPurge
	}
	atOnce := map[timer.Kind]int{timer.Unlink: 1, timer.Operation: 2, timer.Purge: 1}
	maps.Copy(atOnce, a.courier.atOnce)
	a.timers.engine = timer.New(timer.Options{
		Queue: a.timers.queue(g.onStep), Handlers: handlers, Dead: a.timers.onDead, Lost: a.timers.onLost, Log: g.log, Concurrency: atOnce,
		Traced: a.courier.delivered,
	})
	a.courier.timers, a.mover.arm = a.timers.engine, a.timers.armMoved
	return nil
}

// introduce gives those that were made first what was made after them, before anything runs.
func (a *App) introduce() {
	g := a.ground
	a.timers.uploads, a.timers.operations, a.timers.bulk = a.uploads, a.files.Operations, a.bulk
	a.courier.intake, a.courier.told = a.intake, a.notices.teller.Consumers()
	*a.house = house{
		ground: g, moved: func() bool { return a.mover.rows.State().Switched }, damaged: a.auditor.DatabaseDamaged, outbox: a.outbox,
		uploads: a.uploads, expiry: files.NewExpiry(a.files, files.ExpiryOptions{TrashKeep: g.cfg.TrashKeep, Kept: g.kept.Now}), marks: files.NewMarks(a.files),
		bulk: a.bulk, shares: a.shares, shareNumbers: a.shareNumbers, collects: a.collects, exports: a.exports, intake: a.intake,
		access: a.access, activity: a.activity, webhooks: a.webhooks, notices: a.notices, users: a.users, stars: a.stars, sessions: a.sessions, keys: a.keys, keyConflicts: a.keyConflicts, armOperations: a.timers.armOperations,
		ways: a.ways.recorder,
	}
	a.sampler = &sampler{log: g.log, db: g.db, member: g.member, timers: a.timers.engine, records: a.courier.records, store: g.bytes.store, growth: a.growth, tree: a.tree}
}

func (g *ground) defaultQuota() *drive.ByteSize { return g.live.Now().DefaultQuota }

func setLevel(cfg *config.Config) {
	if cfg.Level != nil {
		cfg.Level.Set(cfg.LogLevel)
	}
}

func (g *ground) uploadOptions() upload.Options {
	cfg := g.cfg
	return upload.Options{
		Idle: cfg.UploadIdle, Abandon: cfg.UploadAbandon, MaxAge: cfg.UploadMaxAge, MaxOpen: cfg.UploadMaxOpen, PartSize: cfg.PartSize,
		MinFree: orLeast(cfg.MinFree), Rows: g.rowsFit, InstantMax: cfg.InstantMax, Instant: func() upload.Scope { return upload.Scope(g.live.Now().InstantScope) },
		Generation: g.Generation, Restored: g.Restored, Kept: g.kept.Now, Clock: g.mode.clock, Hold: g.mode.hold, Log: g.log,
	}
}

func (a *App) auditParts() fsck.Parts {
	g := a.ground
	return fsck.Parts{
		DB: g.db, Staging: g.bytes.staging, Store: g.bytes.store, Timers: a.timers.engine, Armed: a.timers.armed.Load, Putting: a.putting,
		Quarantine: g.bytes.quarantine, Generation: g.Generation, Content: g.content(), Kept: g.kept.Now,
		Ended: g.mode.ended, Since: g.mode.since, Home: a.home,
	}
}

// home fails where contents should be and the mark of this installation is not, as on a directory
// that nothing is mounted on. Contents that have moved since the start have left that place.
func (a *App) home(ctx context.Context) error {
	if a.mover.rows.State().Switched {
		return nil
	}
	g := a.ground
	m, found, err := g.marks.ReadMark(ctx)
	if err != nil {
		return fmt.Errorf("read the mark of the contents: %w", err)
	}
	if !found || m.ID != g.ID {
		return drive.Fail(drive.WrongState, "why", fmt.Sprintf("%s does not hold the contents of this installation, perhaps because nothing is mounted there", g.marks))
	}
	return nil
}

// links are what can be had with a token alone.
func (a *App) links() links { return links{a.ground.log, a.vault, a.shares, a.collects} }

// console is what the machine's administrator may do.
func (a *App) console() *console {
	return &console{
		ground: a.ground, users: a.users, uploads: a.uploads, auditor: a.auditor, links: a.links(),
		moving: func() bool { return a.mover.rows.State().ID != "" },
	}
}

// orLeast keeps a zero that was set from being taken for "not set": 1 byte or 1 ns is as good as
// none.
func orLeast[T ~int64](v T) T { return max(v, 1) }

// Close ends what Open began, in reverse order.
func (a *App) Close() error {
	g := a.ground
	var errs []error
	if a.uploads != nil {
		errs = append(errs, a.uploads.Close())
	}
	if g.bytes.close != nil {
		errs = append(errs, g.bytes.close())
	}
	errs = append(errs, g.shared.close())
	if g.member != nil {
		errs = append(errs, g.leave())
	}
	if a.mover != nil {
		errs = append(errs, a.mover.close())
	}
	if g.db != nil {
		errs = append(errs, g.db.Close())
	}
	if g.lock != nil {
		errs = append(errs, g.lock.Close())
	}
	return errors.Join(errs...)
}

// ensureFirstUser makes the user "admin" of a new installation. Its generated password is kept in a
// file until it is changed, and printed once.
func (a *App) ensureFirstUser(ctx context.Context) error {
	path := filepath.Join(a.ground.cfg.Data, passwordFile)
	kept := false
	generated, created, err := a.admin.EnsureFirstUser(ctx, os.Getenv("SMARTDRIVE_ADMIN_PASSWORD"), func(password string) error {
		kept = true
		return writeDurably(path, password+"\n")
	})
	if drive.IsKind(err, drive.BadRequest) {
		says := problem.From(err, problem.English, "").Detail
		return &StartError{lines: []string{"SMARTDRIVE_ADMIN_PASSWORD: " + says}, errs: []error{err}}
	}
	if err != nil {
		return err
	}
	if kept && !created { // another instance was faster, and has the password that counts
		return os.Remove(path)
	}
	if generated != "" {
		fmt.Fprintf(os.Stderr, "First user: %s, password: %s (also in %s until it is changed)\n", admin.FirstUser, generated, path)
	}
	return nil
}

func writeDurably(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// onPassword removes the file with the first user's generated password once that is no longer the
// password.
func (g *ground) onPassword(name string) {
	if name != admin.FirstUser {
		return
	}
	if err := os.Remove(filepath.Join(g.cfg.Data, passwordFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		g.log.Warn("remove the initial password", "error", err)
	}
}

// helpersOf says where helpers for thumbnails are looked for; nil: nowhere.
func helpersOf(cfg config.Config) func(string) (string, error) {
	if cfg.PreviewHelpers == config.HelpersOff {
		return nil
	}
	return exec.LookPath
}
