package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/config"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/idem"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/domain/vault"
	"smartdrive/internal/engine/instance"
	"smartdrive/internal/engine/retention"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream/outbox"
	"smartdrive/internal/engine/timer"
	"smartdrive/internal/export"
	"smartdrive/internal/head/problem"
	"smartdrive/internal/intake/ingest"
	"smartdrive/internal/usecase/admin"
	"smartdrive/internal/usecase/collect"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/fsck"
	"smartdrive/internal/usecase/share"
	"smartdrive/internal/usecase/thumb"
	"smartdrive/internal/usecase/unlink"
	"smartdrive/internal/usecase/upload"
)

// App is an installation that is open: every part is put together and nothing runs yet.
type App struct {
	Installation

	cfg     config.Config
	log     *slog.Logger
	metrics *telemetry.Metrics

	mode  mode
	lock  *os.File
	db    *sqldb.DB
	bytes storage
	marks marks

	mover    *mover
	member   *instance.Member
	shared   shared // what several instances share besides the database; empty where there is one
	outbox   *outbox.Outbox
	records  records
	kept     *retention.Clock
	engine   *timer.Engine
	tree     *tree.Tree
	uploads  *upload.Sessions
	unlinker *unlink.Unlinker
	files    *files.Files
	vault    *vault.Vault
	thumbs   *thumb.Maker
	shares   *share.Shares
	exports  *export.Exports
	intake   *ingest.Intake
	collects *collect.Links
	auth     *account.Auth
	users    *account.Users
	sessions *account.Sessions
	keys     *idem.Keys
	prepared *idem.PreparedIDs
	admin    *admin.Admin
	ledger   quota.Ledger
	auditor  *fsck.Checker
	sampled  sampler
	armed    atomic.Bool // the timers of all uploads were armed after the start
}

// Open opens the installation that cfg names. It fails in words when somebody else has the data directory, when something that
// it stands on is not as it must be, when database and blobs do not belong together, or when the database is of a newer
// release; nothing is changed then.
func Open(ctx context.Context, cfg config.Config, log *slog.Logger) (*App, error) {
	return open(ctx, cfg, log, func(context.Context, *App) error { return nil })
}

// open is Open with a look at what was found, before anything is made.
func open(ctx context.Context, cfg config.Config, log *slog.Logger, look func(context.Context, *App) error) (_ *App, err error) {
	a := &App{cfg: cfg, log: log, metrics: telemetry.NewMetrics()}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.lock, err = lockDir(cfg.Data); err != nil {
		return nil, err
	}
	a.mode = a.modeOf()
	if err := a.mode.connect(ctx); err != nil {
		return nil, err
	}
	a.kept = retention.New(retention.Options{DB: a.db, Log: log})
	a.mover = newMover(cfg, log, a.db, a.kept.Now)
	if a.marks, err = a.mover.takeUp(ctx, a.marks); err != nil {
		return nil, err
	}
	if err := look(ctx, a); err != nil {
		return nil, err
	}
	if a.Installation, err = a.mode.identify(ctx); err != nil {
		return nil, err
	}
	if err := a.mode.join(ctx); err != nil {
		return nil, err
	}
	if err := a.mode.bytes(ctx); err != nil {
		return nil, err
	}
	a.bytes = a.mover.take(a.Installation, a.member, a.bytes)
	if err := a.compose(ctx); err != nil {
		return nil, err
	}
	a.keepBallast(ctx)
	return a, a.ensureFirstUser(ctx)
}

// compose builds the use cases from the bottom up.
func (a *App) compose(ctx context.Context) (err error) {
	cfg, log := a.cfg, a.log
	if err := a.kept.Look(ctx); err != nil {
		return err
	}
	a.outbox = outbox.New(a.db, outbox.Options{Source: a.source(), Relayed: cfg.Kafka != nil, Log: log})
	if a.records, err = a.mode.records(); err != nil {
		return err
	}
	a.composeTimers()
	a.tree = tree.New(tree.Options{Now: a.stamp, Kept: a.kept.Now, Arrived: a.arrived})
	a.unlinker = unlink.New(unlink.Parts{DB: a.db, Store: a.bytes.store, Content: a.content()}, unlink.Options{
		Grace: orLeast(a.cfg.BlobGrace), Restored: a.Restored, Log: a.log,
	})
	a.uploads = upload.New(upload.Parts{
		DB: a.db, Staging: a.bytes.staging, Store: a.bytes.store, Tree: a.tree, Timers: a.engine, Events: a.outbox,
		Content: a.content(),
	}, a.uploadOptions())
	a.auditor = fsck.New(a.auditParts(), fsck.Options{Scrub: cfg.Scrub, Log: log})
	a.auth = account.NewAuth(a.db, account.Options{Log: log})
	a.users = account.NewUsers(a.db, a.auth, account.Options{Now: a.stamp, Log: log, PasswordChanged: a.onPassword})
	a.sessions = account.NewSessions(a.db, a.users, a.auth, account.Options{Kept: a.kept.Now, Log: log})
	if a.prepared, err = idem.OpenPreparedIDs(ctx, a.db, idem.Options{}); err != nil {
		return err
	}
	if err := a.openVault(ctx); err != nil {
		return err
	}
	a.keys = idem.NewKeys(a.db, idem.Options{Sealer: a.vault})
	a.files = files.New(files.Options{
		DB: a.db, Tree: a.tree, Content: a.content(), Store: a.bytes.store, Epochs: a.users, TrashKeep: cfg.TrashKeep,
		Secret: a.vault.Links,
		Kept:   a.kept.Now,
		Start:  a.startOperation,
	})
	a.shares = share.New(share.Options{DB: a.db, Tree: a.tree, Users: a.users, Vault: a.vault, Kept: a.kept.Now})
	a.collects = collect.New(collect.Options{DB: a.db, Tree: a.tree, Users: a.users, Vault: a.vault})
	a.thumbs = thumb.New(thumb.Options{Dir: filepath.Join(cfg.Data, thumbsDir), Child: cfg.Decoder})
	if err := a.composeExports(ctx); err != nil {
		return err
	}
	a.composeIntake()
	a.admin = admin.New(admin.Parts{DB: a.db, Users: a.users, Trees: a.tree, Keys: a.keys}, admin.Options{
		DefaultQuota: admin.Limit(cfg.DefaultQuota),
	})
	return nil
}

// stamp is the time that goes into rows that retention looks at later. A machine whose clock is
// behind must not make what is deleted now look as if it had been deleted long ago.
func (a *App) stamp() time.Time {
	now, kept := time.Now(), a.kept.Now()
	if now.Before(kept) {
		return kept
	}
	return now
}

// content knows blobs. When one was released, and how long ago, both go by the clock of retention.
func (a *App) content() content.Content { return content.Content{Now: a.kept.Now} }

// source is what the records of this installation name as theirs.
func (a *App) source() string { return "smartdrive/" + a.ID }

func (a *App) uploadOptions() upload.Options {
	cfg := a.cfg
	return upload.Options{
		Idle: cfg.UploadIdle, Abandon: cfg.UploadAbandon, MaxAge: cfg.UploadMaxAge, MaxOpen: cfg.UploadMaxOpen, PartSize: cfg.PartSize,
		MinFree: orLeast(cfg.MinFree), Instant: upload.Scope(cfg.InstantScope), Generation: a.Generation,
		Restored: a.Restored, Kept: a.kept.Now, Clock: a.mode.clock, Hold: a.mode.hold, Log: a.log,
	}
}

func (a *App) auditParts() fsck.Parts {
	return fsck.Parts{
		DB: a.db, Staging: a.bytes.staging, Store: a.bytes.store, Timers: a.engine, Armed: a.armed.Load, Putting: a.putting,
		Quarantine: a.bytes.quarantine, Generation: a.Generation, Content: a.content(), Kept: a.kept.Now,
		Ended: a.mode.ended, Since: a.mode.since,
	}
}

// orLeast keeps a zero that was set from being taken for "not set": 1 byte or 1 ns is as good as none.
func orLeast[T ~int64](v T) T { return max(v, 1) }

// Close ends what Open began, in reverse order.
func (a *App) Close() error {
	var errs []error
	if a.uploads != nil {
		errs = append(errs, a.uploads.Close())
	}
	if a.bytes.close != nil {
		errs = append(errs, a.bytes.close())
	}
	errs = append(errs, a.shared.close())
	if a.member != nil {
		errs = append(errs, a.leave())
	}
	if a.mover != nil {
		errs = append(errs, a.mover.close())
	}
	if a.db != nil {
		errs = append(errs, a.db.Close())
	}
	if a.lock != nil {
		errs = append(errs, a.lock.Close())
	}
	return errors.Join(errs...)
}

// ensureFirstUser makes the user "admin" of a new installation. Its generated password is kept in a file until it is changed,
// and printed once.
func (a *App) ensureFirstUser(ctx context.Context) error {
	path := filepath.Join(a.cfg.Data, passwordFile)
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

// onPassword removes the file with the first user's generated password once that is no longer the password.
func (a *App) onPassword(name string) {
	if name != admin.FirstUser {
		return
	}
	if err := os.Remove(filepath.Join(a.cfg.Data, passwordFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.log.Warn("remove the initial password", "error", err)
	}
}

// startOperation arms the timer that runs a long operation now.
func (a *App) startOperation(id drive.OperationID) {
	err := a.engine.Arm(context.Background(), timer.Entry{Key: timer.Key{Kind: timer.Operation, ID: id}, Gen: 1})
	if err != nil {
		a.log.Error("arm the timer of an operation", "operation", id, "error", err)
	}
}
