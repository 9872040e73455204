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
	"strconv"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/growth"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/domain/star"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/retention"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/turn"
	"example.org/smartdrive/internal/export"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/intake/ingest"
	"example.org/smartdrive/internal/usecase/admin"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/bulk"
	"example.org/smartdrive/internal/usecase/collect"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/handover"
	"example.org/smartdrive/internal/usecase/history"
	"example.org/smartdrive/internal/usecase/setting"
	"example.org/smartdrive/internal/usecase/share"
	"example.org/smartdrive/internal/usecase/signon"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/thumb"
	"example.org/smartdrive/internal/usecase/unlink"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/webhook"
)

// App is an open installation. All parts are constructed, and no background work runs before Run.
// The fields are what heads, commands and tests call; what runs in the background is registered in
// platform.modules.
type App struct {
	platform *platform // directory, database, stores, instance and modules
	mover    *mover
	metrics  *telemetry.Metrics

	outbox       *outbox.Outbox
	transport    *transport
	traces       *traces
	timers       *timers
	tree         *tree.Tree
	uploads      *upload.Sessions
	files        *files.Files
	access       *access.Access
	activity     *activity.Log
	downloads    *history.Downloads
	events       activityPublisher
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
	housekeeping *housekeeping
	unlinker     *unlink.Unlinker
	auditor      *fsck.Checker
	sampler      *sampler
}

// Open opens the installation that cfg describes. It fails with an error for operators if another
// process uses the data directory, a component is missing or misconfigured, database and blobs do
// not belong together, or the database is of a newer release. Then nothing is changed. The caller
// calls Close.
func Open(ctx context.Context, cfg config.Config, log *slog.Logger) (*App, error) {
	a, err := open(ctx, cfg, log, func(context.Context, *platform) error { return nil })
	return a, explainDamage(explainOwner(err, cfg.Data, cfg.Blobs), cfg.Data)
}

// open does the work of Open. look runs after the database is open and before anything is created
// in it; its error ends open. After an error everything is closed and the App is nil.
func open(ctx context.Context, cfg config.Config, log *slog.Logger, look func(context.Context, *platform) error) (_ *App, err error) {
	p := newPlatform(cfg, log)
	a := &App{platform: p, metrics: telemetry.NewMetrics()}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if p.lock, err = lockDir(cfg.Data); err != nil {
		return nil, err
	}
	if err := p.mode.connect(ctx); err != nil {
		return nil, err
	}
	p.kept = retention.New(retention.Options{DB: p.db, Log: log})
	a.mover = newMover(cfg, log, p.db, p.kept.Now, &p.modules)
	if p.marks, err = a.mover.restore(ctx, p.marks); err != nil {
		return nil, err
	}
	if err := look(ctx, p); err != nil {
		return nil, err
	}
	if p.Installation, err = p.mode.identify(ctx); err != nil {
		return nil, err
	}
	if err := p.mode.join(ctx); err != nil {
		return nil, err
	}
	if err := p.mode.openStorage(ctx); err != nil {
		return nil, err
	}
	p.storage = a.mover.join(p.Installation, p.member, p.storage)
	if err := a.compose(ctx); err != nil {
		return nil, err
	}
	p.keepBallast(ctx)
	return a, a.ensureFirstUser(ctx)
}

// compose constructs the use cases, dependencies first, and starts nothing. It reads from the
// database and fails with its errors; Close releases what is constructed by then.
func (a *App) compose(ctx context.Context) (err error) {
	p, cfg, log := a.platform, a.platform.cfg, a.platform.log
	if err := p.kept.Update(ctx); err != nil {
		return err
	}
	a.outbox = outbox.New(p.db, outbox.Options{Source: p.source(), Relayed: cfg.Kafka != nil, Log: log})
	a.activity = activity.New(activity.Options{DB: p.db, Now: p.rowTime, RetentionClock: p.kept.Now, Keep: cfg.ActivityKeep, Shared: p.storage.staging.Caps().Shared})
	a.events = activityPublisher{outbox: a.outbox, log: a.activity}
	if err := a.composeTimers(); err != nil {
		return err
	}
	a.access = access.New(access.Options{DB: p.db, Now: p.rowTime, Shared: p.storage.staging.Caps().Shared})
	trees := tree.Options{MaxNodes: int64(cfg.MaxNodes), Now: p.rowTime, RetentionClock: p.kept.Now, OnPlaced: p.modules.nodePlaced, OnEffect: a.activity.RecordNode}
	trees.OnFolderTrashed = func(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
		return a.access.InvalidateIfGranted(ctx, tx, n.Account)
	}
	files.EnforceLocks(&trees, files.LockRules(p.rowTime, a.access))
	a.tree = tree.New(trees)
	a.uploads = upload.New(upload.Dependencies{
		DB: p.db, Staging: p.storage.staging, Store: p.storage.store, Tree: a.tree, Timers: a.timers.engine, Events: a.events,
		Content: p.content(), Access: a.access,
	}, p.uploadOptions())
	a.intake = ingest.New(ingest.Options{
		DB: p.db, Tree: a.tree, Store: p.storage.store, Events: a.events, Activity: a.activity, Content: p.content(), Instance: strconv.FormatInt(p.Generation, 10), Log: log,
	})
	a.auditor = fsck.New(a.auditParts(), fsck.Options{Scrub: cfg.Scrub, Log: log})
	a.unlinker = unlink.New(unlink.Dependencies{DB: p.db, Store: p.storage.store, Content: p.content()}, unlink.Options{
		Grace: atLeastOne(cfg.BlobGrace), Restored: p.Restored, Damaged: a.auditor.DatabaseDamaged, Log: log,
	})
	noted := history.AccountHook(a.activity)
	a.auth = account.NewAuth(p.db, account.Options{Log: log})
	a.users = account.NewUsers(p.db, a.auth, account.Options{Now: p.rowTime, Log: log, PasswordChanged: p.onPassword, Happened: noted})
	a.sessions = account.NewSessions(p.db, a.users, a.auth, account.Options{Kept: p.kept.Now, Log: log, Happened: noted})
	if a.prepared, err = idem.OpenPreparedIDs(ctx, p.db, idem.Options{}); err != nil {
		return err
	}
	if a.vault, err = p.openVault(ctx); err != nil {
		return err
	}
	a.keys, a.keyConflicts = idem.NewKeys(p.db, idem.Options{Sealer: a.vault}), idem.NewConflicts(p.db, idem.Options{})
	a.downloads = history.NewDownloads(history.Parts{DB: p.db, Log: a.activity, Tree: a.tree}, nil, log)
	long := turn.NewLongLimiter(p.db.Concurrency)
	a.files = files.New(files.Options{
		DB: p.db, Tree: a.tree, Content: p.content(), Store: p.storage.store,
		OnStart: a.timers.startOperation, Access: a.access, OnHandover: a.intake.Unfile, OnDownload: a.downloads.File,
		Fingerprint: p.Fingerprint, LongTurns: long, Log: log,
	})
	a.stars, a.growth = star.New(p.db, p.rowTime), growth.New(p.db, p.rowTime)
	a.history = history.New(history.Parts{DB: p.db, Log: a.activity, Access: a.access, Users: a.users, Tree: a.tree})
	a.webhooks = webhook.New(webhook.Parts{DB: p.db, Log: a.activity, Access: a.access, Tree: a.tree, Vault: a.vault}, webhook.Options{
		Source: p.source(), Transport: webhookTransport(cfg), Refuses: webhookRefuser(cfg), Log: log, OnDisabled: a.events.hookDisabled,
	})
	a.notices = newNotices(a)
	a.shareNumbers = space.NewNumbers(p.db)
	a.shares = share.New(share.Options{DB: p.db, Access: a.access, Tree: a.tree, Users: a.users, Vault: a.vault, RetentionClock: p.kept.Now, Log: a.activity})
	a.bulk = bulk.New(bulk.Options{
		DB: p.db, Tree: a.tree, Files: a.files, Shares: a.shares, Start: a.timers.startOperation, Events: a.events, Now: p.rowTime, RetentionClock: p.kept.Now, Log: log,
		LongTurns: long,
	})
	a.batches = batch.New(batch.Options{DB: p.db, Tree: a.tree, Uploads: a.uploads, Files: a.files, Keys: a.keys, LongTurns: long})
	a.collects = collect.New(collect.Options{DB: p.db, Access: a.access, Tree: a.tree, Users: a.users, Vault: a.vault, Log: a.activity})
	a.thumbs = thumb.New(thumb.Options{Dir: filepath.Join(cfg.Data, thumbsDir), Child: cfg.Decoder, Helpers: helpersOf(cfg)})
	if err := a.composeExports(ctx); err != nil {
		return err
	}
	a.handovers = handover.New(handover.Parts{
		DB: p.db, Users: a.users, Access: a.access, Tree: a.tree, Files: a.files, Shares: a.shares, Collects: a.collects, Uploads: a.uploads,
		Activity: a.activity, Log: log,
	})
	a.spaces = space.New(space.Parts{DB: p.db, Access: a.access, Users: a.users, Tree: a.tree, Log: a.activity, Events: a.events, Busy: a.handovers.Busy}, space.Options{DefaultQuota: p.defaultQuota, Now: p.rowTime})
	a.admin = admin.New(admin.Parts{DB: p.db, Users: a.users, Trees: a.tree, Access: a.access, Keys: a.keys, Busy: a.handovers.Busy}, admin.Options{DefaultQuota: p.defaultQuota})
	a.signOn = newSignOn(a)
	a.settings = setting.New(setting.Parts{DB: p.db, Users: a.users, Live: p.live, Log: log, Now: p.rowTime, Activity: a.activity, Changed: setLevel})
	if err := a.settings.Refresh(ctx); err != nil {
		return err
	}
	a.housekeeping = &housekeeping{platform: p, mover: a.mover, damaged: a.auditor.DatabaseDamaged, users: a.users, access: a.access}
	a.sampler = &sampler{log: p.log, db: p.db, member: p.member, timers: a.timers.engine, records: a.transport.recordFlow, store: p.storage.store, growth: a.growth, tree: a.tree}
	a.register()
	return nil
}

// composeTimers chooses how records are transported and constructs the timer engine. It fails if
// the transport cannot be constructed.
func (a *App) composeTimers() error {
	p, roles := a.platform, a.platform.cfg.Roles
	a.timers = &timers{log: p.log, db: p.db, member: p.member, modules: &p.modules, outbox: a.outbox, shared: p.shared.queue}
	a.traces = newTraces(p)
	a.transport = &transport{log: p.log, member: p.member, modules: &p.modules, outbox: a.outbox, traces: a.traces}
	if p.cfg.Kafka == nil {
		a.transport.useOutbox()
	} else {
		broker, err := p.newBroker(p.source(), a.outbox)
		if err != nil {
			return err
		}
		p.shared.broker = broker
		a.transport.useKafka(broker)
	}
	// An instance handles only these kinds and leaves the others to other instances. A scheduler
	// handles timers of uploads itself or publishes them to the workers. A worker leases its own
	// kinds from the queue, because they are neither urgent nor frequent.
	handlers := map[timer.Kind]timer.Handler{}
	if roles.Scheduler {
		maps.Copy(handlers, a.transport.handlers)
	}
	if roles.Worker {
		for _, kind := range []timer.Kind{timer.Unlink, timer.Operation, timer.Purge} {
			handlers[kind] = p.modules.handle
		}
	}
	atOnce := map[timer.Kind]int{timer.Unlink: 1, timer.Operation: 2, timer.Purge: 1}
	maps.Copy(atOnce, a.transport.atOnce)
	a.timers.engine = timer.New(timer.Options{
		Queue: a.timers.queue(p.clockStepped), Handlers: handlers, OnDead: a.timers.onDead, OnLoss: a.timers.onLost, Log: p.log, Concurrency: atOnce,
		OnTrace: a.transport.traceDelivery,
	})
	return nil
}

// defaultQuota returns the quota of new accounts as it is set now; nil means unlimited.
func (p *platform) defaultQuota() *drive.ByteSize { return p.live.Now().DefaultQuota }

// setLevel applies cfg.LogLevel to the running logger; without a LevelVar it does nothing.
func setLevel(cfg *config.Config) {
	if cfg.Level != nil {
		cfg.Level.Set(cfg.LogLevel)
	}
}

// uploadOptions returns the options of upload sessions. Settings that change while the server runs
// are read at each use.
func (p *platform) uploadOptions() upload.Options {
	cfg := p.cfg
	return upload.Options{
		Idle: cfg.UploadIdle, Abandon: cfg.UploadAbandon, MaxAge: cfg.UploadMaxAge, MaxOpen: cfg.UploadMaxOpen, PartSize: cfg.PartSize,
		MinFree: atLeastOne(cfg.MinFree), CheckDatabaseDisk: p.rowsFit, InstantMax: cfg.InstantMax, InstantScope: func() upload.Scope { return upload.Scope(p.live.Now().InstantScope) },
		Generation: p.Generation, Restored: p.Restored, RetentionClock: p.kept.Now, RowClock: p.mode.clock, CheckInstance: p.mode.fence, Log: p.log,
	}
}

// auditParts returns the dependencies of the auditor.
func (a *App) auditParts() fsck.Dependencies {
	p := a.platform
	return fsck.Dependencies{
		DB: p.db, Staging: p.storage.staging, Store: p.storage.store, Timers: a.timers.engine, TimersArmed: a.timers.armed.Load, IsWriting: p.modules.isWriting,
		Quarantine: p.storage.quarantine, Generation: p.Generation, Content: p.content(), RetentionClock: p.kept.Now,
		Ended: p.mode.endInstance, OldestStart: p.mode.oldestStart, CheckMounted: a.checkContentsMark,
	}
}

// checkContentsMark fails if the configured store of contents lacks the mark of this installation,
// as an unmounted directory does. It returns nil if contents have migrated away since the start.
func (a *App) checkContentsMark(ctx context.Context) error {
	if a.mover.rows.State().Switched {
		return nil
	}
	p := a.platform
	m, found, err := p.marks.ReadMark(ctx)
	if err != nil {
		return fmt.Errorf("read the mark of the contents: %w", err)
	}
	if !found || m.ID != p.ID {
		return drive.Fail(drive.WrongState, "why", fmt.Sprintf("%s does not hold the contents of this installation, perhaps because nothing is mounted there", p.marks))
	}
	return nil
}

// links returns the parts with which the tokens and codes of public links are encrypted.
func (a *App) links() links { return links{a.platform.log, a.vault, a.shares, a.collects} }

// console returns the handlers for commands of the local administrator, which arrive at the control
// socket.
func (a *App) console() *console {
	return &console{
		platform: a.platform, users: a.users, uploads: a.uploads, auditor: a.auditor, links: a.links(),
		moving: func() bool { return a.mover.rows.State().ID != "" },
	}
}

// atLeastOne keeps an explicit 0 from being taken for "not set": it returns 1 byte or 1 ns instead.
func atLeastOne[T ~int64](v T) T { return max(v, 1) }

// Close releases what Open acquired, in reverse order, and returns all failures joined. It works
// after a failed Open. Call it once, after Run has returned.
func (a *App) Close() error {
	p := a.platform
	var errs []error
	if a.uploads != nil {
		errs = append(errs, a.uploads.Close())
	}
	if p.storage.close != nil {
		errs = append(errs, p.storage.close())
	}
	errs = append(errs, p.shared.close())
	if p.member != nil {
		errs = append(errs, p.leave())
	}
	if a.mover != nil {
		errs = append(errs, a.mover.close())
	}
	if p.db != nil {
		errs = append(errs, p.db.Close())
	}
	if p.lock != nil {
		errs = append(errs, p.lock.Close())
	}
	return errors.Join(errs...)
}

// ensureFirstUser creates the user "admin" in a new installation. It prints a generated password
// once and keeps it in a file until it is changed. An invalid SMARTDRIVE_ADMIN_PASSWORD fails with
// StartError.
func (a *App) ensureFirstUser(ctx context.Context) error {
	path := filepath.Join(a.platform.cfg.Data, passwordFile)
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
	if kept && !created { // another instance created the user, with its own password
		return os.Remove(path)
	}
	if generated != "" {
		fmt.Fprintf(os.Stderr, "First user: %s, password: %s (also in %s until it is changed)\n", admin.FirstUser, generated, path)
	}
	return nil
}

// writeDurably writes a file and syncs it. A crash may leave a part of it; see writeAtomically. It
// replaces an existing file and fails with an error of the file system.
func writeDurably(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// onPassword is called after the password of the user name has changed. For the first user it
// deletes the file with the generated password; a failure is logged.
func (p *platform) onPassword(name string) {
	if name != admin.FirstUser {
		return
	}
	if err := os.Remove(filepath.Join(p.cfg.Data, passwordFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Warn("the file with the initial password could not be removed; delete it", "error", err)
	}
}

// helpersOf returns the function that finds helper programs for thumbnails; nil if they are
// disabled.
func helpersOf(cfg config.Config) func(string) (string, error) {
	if cfg.PreviewHelpers == config.HelpersOff {
		return nil
	}
	return exec.LookPath
}
