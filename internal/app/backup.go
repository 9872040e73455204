package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/engine/instance"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/usecase/backup"
)

// BackupRequest names the directory of a backup. It is absolute, because the server has another
// working directory than the client.
type BackupRequest struct {
	Dir    string `json:"dir"`
	Copy   bool   `json:"copy"`   // copy, never link
	Verify bool   `json:"verify"` // read contents that are in the backup already
}

// ErrServerDatabase refuses a backup if the database is on a server, and describes the alternative.
var ErrServerDatabase = errors.New(`the database is on a server, which has its own tools: copy the rows first, with "mysqldump --single-transaction", ` +
	`then the contents (the bucket, or the directory of --blobs). To go back, put both in place, stop all instances, and run "smartdrive admin restore" ` +
	`without a directory`)

// backup updates a backup while the server runs. It fails with Precondition if the database is on a
// server, and with WrongState during a migration.
func (c *console) backup(ctx context.Context, in BackupRequest) (backup.Result, error) {
	if c.platform.mode.backupRefused != nil {
		return backup.Result{}, drive.Wrap(c.platform.mode.backupRefused, drive.Precondition)
	}
	if c.moving() {
		return backup.Result{}, drive.Fail(drive.WrongState, "why", "the installation is moving to other engines; the other side is the copy")
	}
	if !filepath.IsAbs(in.Dir) {
		return backup.Result{}, drive.BadField("dir", drive.Malformed, "expected", "an absolute path", "sent", in.Dir)
	}
	out, err := backup.Run(ctx, c.platform.db, c.platform.cfg.Blobs, in.Dir, backup.Options{Copy: in.Copy, Verify: in.Verify, Packs: local.PackFiles{}, Log: c.platform.log})
	if err != nil {
		return out, err
	}
	if n := len(out.Missing) + len(out.Damaged); n > 0 {
		c.platform.log.ErrorContext(ctx, "backup: contents of the installation are missing or damaged; restore them from an older backup", "missing", len(out.Missing), "damaged", len(out.Damaged), "directory", in.Dir)
	}
	last := rest.Backup{TakenAt: out.Taken, Contents: out.Blobs, Missing: int64(len(out.Missing)), Damaged: int64(len(out.Damaged))}
	return out, c.platform.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := meta.Save(ctx, tx, metaBackup, last); err != nil || last.Missing+last.Damaged > 0 {
			return err
		}
		return c.platform.noteGoodBackup(ctx, tx)
	})
}

// metaBackup is the meta key of the last backup's result, which the status shows.
const metaBackup = "backup"

const (
	// snapshotDir is the directory of daily database copies below the data directory.
	snapshotDir   = "backups"
	keepSnapshots = 7 // days
)

// snapshot copies the database into snapshotDir unless today's copy exists, and deletes the copies
// beyond keepSnapshots. It fails if the copy cannot be written, for example without spare bytes on
// the disk.
func (p *platform) snapshot(ctx context.Context, now time.Time) error {
	_, err := backup.Snapshot(ctx, p.db, backup.SnapshotOptions{
		Dir: filepath.Join(p.cfg.Data, snapshotDir), Keep: keepSnapshots, Now: now, RetentionNow: p.kept.Now(), Spare: p.spareBytes,
	})
	return err
}

// spareBytes returns how many bytes optional files may use on the disk of the database; negative if
// less than --min-free is free.
func (p *platform) spareBytes() (drive.ByteSize, error) {
	free, err := p.dataFree()
	return free - atLeastOne(p.cfg.MinFree), err
}

// leaseCopies names the lease of the instance that refreshes copies.
const leaseCopies = "copies"

const (
	copySoon = time.Minute // after the start
	// copyEvery is the interval of housekeeping.copy.
	copyEvery = time.Hour
)

// keepCopies refreshes the copies every hour: the daily snapshot of the database, or the mark of a
// bucket. It is no housekeeping job, because copying a large database exceeds the time of all jobs
// together. It runs until ctx ends and then returns nil; failures are logged and repeated.
func (h *housekeeping) keepCopies(ctx context.Context) error {
	next := time.NewTimer(copySoon)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		if err := h.copy(ctx); err != nil && ctx.Err() == nil {
			h.platform.log.ErrorContext(ctx, "the daily copy of the database, or the mark of the bucket, could not be written; retried within the hour", "error", err)
		}
		next.Reset(copyEvery)
	}
}

// copy refreshes the copies of the database that the mode keeps, once, and waits for it. If this
// process runs a restored backup, it does nothing and returns nil.
func (h *housekeeping) copy(ctx context.Context) error {
	if h.platform.Restored {
		return nil
	}
	return h.platform.mode.refreshCopies(ctx, h.mover.rows.State().Switched)
}

// restoreSite returns the directories that a restore replaces in an embedded installation, and how
// it reads and writes the installation's mark there. It touches nothing.
func restoreSite(cfg config.Config) backup.Target {
	return backup.Target{
		Data: cfg.Data, Blobs: cfg.Blobs,
		ReadMark: func(blobs string) (backup.Marker, bool, error) {
			m, found, err := local.ReadMark(blobs)
			return backup.Marker(m), found, err
		},
		WriteMark: func(blobs string, m backup.Marker) error { return local.WriteMark(blobs, local.Mark(m)) },
	}
}

// Restore replaces the data in cfg.Data by a backup; the result names missing and damaged files.
// The restored installation deletes nothing until a check was clean. It fails with LockedError if a
// server runs there and with ErrServerDatabase for MySQL.
func Restore(ctx context.Context, cfg config.Config, from string, force bool, log *slog.Logger) (out backup.RestoreResult, err error) {
	if cfg.MySQL != nil {
		return backup.RestoreResult{}, ErrServerDatabase
	}
	lock, err := lockDir(cfg.Data)
	if err != nil {
		return backup.RestoreResult{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return backup.Restore(ctx, from, restoreSite(cfg), force, backup.Options{Packs: local.PackFiles{}, Log: log})
}

// Adopt accepts a database that was restored by other means, such as a nightly snapshot or a
// server's dump, as the one that the blobs belong to. It returns how many open uploads it ended. It
// fails while an instance is alive.
func Adopt(ctx context.Context, cfg config.Config, log *slog.Logger) (uploads int64, err error) {
	p := newPlatform(cfg, log)
	a := &App{platform: p}
	if p.lock, err = lockDir(cfg.Data); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := p.mode.connect(ctx); err != nil {
		return 0, err
	}
	if err := p.mode.refuseAlive(ctx); err != nil {
		return 0, err
	}
	if uploads, err = backup.Adopt(ctx, p.db, p.adoptedSite(ctx), backup.Options{Log: log}); err != nil {
		return 0, fmt.Errorf("adopt the database: %w", err)
	}
	// The timers in Redis belong to the rows of the replaced database.
	err = p.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Delete(ctx, tx, metaArmed) })
	return uploads, err
}

// adoptedSite returns the place that package backup checks and marks when a restored database takes
// over the stored contents: it reads and writes the contents' installation mark.
func (p *platform) adoptedSite(ctx context.Context) backup.Target {
	return backup.Target{
		Data: p.cfg.Data, Blobs: p.marks.String(),
		ReadMark: func(string) (backup.Marker, bool, error) {
			m, found, err := p.marks.ReadMark(ctx)
			return backup.Marker(m), found, err
		},
		WriteMark: func(_ string, m backup.Marker) error { return p.marks.WriteMark(ctx, blob.Mark(m)) },
	}
}

// noneAlive fails if an instance is alive that may use the database. It retries for --start-wait,
// because a dump contains the instances that were alive when it was made, and they expire after
// some seconds.
func (p *platform) noneAlive(ctx context.Context) error {
	return p.start(component{"instances", func(ctx context.Context) error { return instance.NoneAlive(ctx, p.db, p.db.Now) }})(ctx)
}
