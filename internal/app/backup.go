package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"smartdrive/internal/base/config"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/local"
	"smartdrive/internal/engine/instance"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/backup"
)

// BackupRequest names the directory of a backup, absolute because the server's working directory is not the caller's.
type BackupRequest struct {
	Dir  string `json:"dir"`
	Copy bool   `json:"copy"` // never link
}

// ErrServerDatabase is why a backup of a database on a server is made elsewhere.
var ErrServerDatabase = errors.New(`the database is on a server, which has its own tools: copy the rows first, with "mysqldump --single-transaction", ` +
	`then the contents (the bucket, or the directory of --blobs). To go back, put both in place, stop all instances, and run "smartdrive admin restore" ` +
	`without a directory`)

// backup brings a backup up to date while everything runs.
func (a *App) backup(ctx context.Context, in BackupRequest) (backup.Result, error) {
	if a.mode.backup != nil {
		return backup.Result{}, drive.Wrap(a.mode.backup, drive.Precondition)
	}
	if a.mover.rows.State().ID != "" {
		return backup.Result{}, drive.Fail(drive.WrongState, "why", "the installation is moving to other engines; the other side is the copy")
	}
	if !filepath.IsAbs(in.Dir) {
		return backup.Result{}, drive.Bad("dir", drive.Malformed, "expected", "an absolute path", "sent", in.Dir)
	}
	return backup.Run(ctx, a.db, a.cfg.Blobs, in.Dir, backup.Options{Copy: in.Copy, Log: a.log})
}

const (
	snapshotDir   = "backups"
	keepSnapshots = 7 // days
)

// snapshot copies the database once a day.
func (a *App) snapshot(ctx context.Context, now time.Time) error {
	_, err := backup.Snapshot(ctx, a.db, backup.Snapshots{
		Dir: filepath.Join(a.cfg.Data, snapshotDir), Keep: keepSnapshots, Now: now, Kept: a.kept.Now(),
	})
	return err
}

func site(cfg config.Config) backup.Site {
	return backup.Site{
		Data: cfg.Data, Blobs: cfg.Blobs,
		ReadMark: func(blobs string) (backup.Mark, bool, error) {
			m, found, err := local.ReadMark(blobs)
			return backup.Mark(m), found, err
		},
		WriteMark: func(blobs string, m backup.Mark) error { return local.WriteMark(blobs, local.Mark(m)) },
	}
}

// Restore puts a backup in place of what is in cfg.Data. No server may run there. Until a check was clean the restored
// installation deletes nothing.
func Restore(ctx context.Context, cfg config.Config, from string, force bool, log *slog.Logger) (out backup.Restored, err error) {
	if cfg.MySQL != nil {
		return backup.Restored{}, ErrServerDatabase
	}
	lock, err := lockDir(cfg.Data)
	if err != nil {
		return backup.Restored{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return backup.Restore(ctx, from, site(cfg), force, backup.Options{Log: log})
}

// Adopt accepts a database that was put in place by other means, such as a nightly snapshot or the dump of a server, as the one
// that the blobs belong to. It returns how many open uploads it ended. No instance may be alive.
func Adopt(ctx context.Context, cfg config.Config, log *slog.Logger) (uploads int64, err error) {
	a := &App{cfg: cfg, log: log}
	if a.lock, err = lockDir(cfg.Data); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	a.mode = a.modeOf()
	if err := a.mode.connect(ctx); err != nil {
		return 0, err
	}
	if err := a.mode.alive(ctx); err != nil {
		return 0, err
	}
	if uploads, err = backup.Adopt(ctx, a.db, a.adopted(ctx), backup.Options{Log: log}); err != nil {
		return 0, fmt.Errorf("adopt the database: %w", err)
	}
	// The timers in Redis are those of the rows that were there before.
	err = a.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM meta WHERE name = ?`, metaArmed)
		return err
	})
	return uploads, err
}

// adopted is where the mark of an adopted database goes.
func (a *App) adopted(ctx context.Context) backup.Site {
	return backup.Site{
		Data: a.cfg.Data, Blobs: a.marks.String(),
		ReadMark: func(string) (backup.Mark, bool, error) {
			m, found, err := a.marks.ReadMark(ctx)
			return backup.Mark(m), found, err
		},
		WriteMark: func(_ string, m backup.Mark) error { return a.marks.WriteMark(ctx, blob.Mark(m)) },
	}
}

// noneAlive refuses while an instance may use the database. A dump shows those that were alive when
// it was made; they are dead after some seconds.
func (a *App) noneAlive(ctx context.Context) error {
	return a.start(component{"instances", func(ctx context.Context) error { return instance.NoneAlive(ctx, a.db, a.db.Now) }})(ctx)
}
