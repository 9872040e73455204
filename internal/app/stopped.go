package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/filelock"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/move/migrate"
)

// StoppedStatus returns the status of an embedded installation whose server is not running. It
// opens the database read-only and writes nothing to the data directory; only after a crash SQLite
// rebuilds smartdrive.db-shm. It holds the lock of the directory meanwhile. ok is false, without an
// error, if it cannot tell: another process holds the lock, the installation does not exist, is
// of an older format, uses other engines or is migrating. The caller then uses ConnectControl.
func StoppedStatus(ctx context.Context, cfg config.Config, log *slog.Logger) (s rest.Status, ok bool, err error) {
	if cfg.Mode() != config.Embedded {
		return s, false, nil
	}
	lock, err := os.Open(filepath.Join(cfg.Data, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, false, explainOwner(err, cfg.Data)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if held, err := filelock.Try(lock); err != nil || held {
		return s, false, err
	}
	db, err := sqldb.Open(ctx, sqldb.Options{Path: filepath.Join(cfg.Data, databaseFile), ReadOnly: true, Log: log})
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, false, explainDamage(err, cfg.Data)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if current, err := db.HasCurrentFormat(ctx); err != nil || !current {
		return s, false, err
	}
	in, err := readInstallation(ctx, db)
	if err != nil || in.ID == "" {
		return s, false, explainDamage(err, cfg.Data)
	}
	if migrating, err := migrate.IsRecorded(ctx, db); err != nil || migrating {
		return s, false, err
	}
	o := overview{
		platform: &platform{Installation: in, cfg: cfg, log: log, db: db},
		records:  recordFlow{lags: outbox.New(db, outbox.Options{Source: in.ID, Log: log}).Lags},
	}
	s = rest.Status{
		Installation: in.ID, Mode: string(cfg.Mode()), Restored: in.Restored, Instances: []rest.Instance{}, Leases: []rest.Lease{},
		Timers: map[string]timer.DueCounts{}, Consumers: []rest.Lag{}, Failing: []string{},
	}
	return s, true, errors.Join(o.addLags(ctx, &s), o.addBackup(ctx, &s))
}
