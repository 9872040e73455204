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
	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/head/rest"
	"smartdrive/internal/usecase/backup"
)

// BackupRequest names the directory of a backup, absolute because the server's working directory is
// not the caller's.
type BackupRequest struct {
	Dir    string `json:"dir"`
	Copy   bool   `json:"copy"`   // never link
	Verify bool   `json:"verify"` // read what is there already
}

// ErrServerDatabase is why a backup of a database on a server is made elsewhere.
var ErrServerDatabase = errors.New(`the database is on a server, which has its own tools: copy the rows first, with "mysqldump --single-transaction", ` +
	`then the contents (the bucket, or the directory of --blobs). To go back, put both in place, stop all instances, and run "smartdrive admin restore" ` +
	`without a directory`)

// backup brings a backup up to date while everything runs.
func (c *console) backup(ctx context.Context, in BackupRequest) (backup.Result, error) {
	if c.ground.mode.backup != nil {
		return backup.Result{}, drive.Wrap(c.ground.mode.backup, drive.Precondition)
	}
	if c.moving() {
		return backup.Result{}, drive.Fail(drive.WrongState, "why", "the installation is moving to other engines; the other side is the copy")
	}
	if !filepath.IsAbs(in.Dir) {
		return backup.Result{}, drive.Bad("dir", drive.Malformed, "expected", "an absolute path", "sent", in.Dir)
	}
	out, err := backup.Run(ctx, c.ground.db, c.ground.cfg.Blobs, in.Dir, backup.Options{Copy: in.Copy, Verify: in.Verify, Packs: local.Packed{}, Log: c.ground.log})
	if err != nil {
		return out, err
	}
	if n := len(out.Missing) + len(out.Damaged); n > 0 {
		c.ground.log.ErrorContext(ctx, "backup: the installation has lost contents", "missing", len(out.Missing), "damaged", len(out.Damaged), "directory", in.Dir)
	}
	last := rest.Backup{TakenAt: out.Taken, Contents: out.Blobs, Missing: int64(len(out.Missing)), Damaged: int64(len(out.Damaged))}
	return out, c.ground.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := meta.Save(ctx, tx, metaBackup, last); err != nil || last.Missing+last.Damaged > 0 {
			return err
		}
		return c.ground.noteGoodBackup(ctx, tx)
	})
}

// metaBackup names what came of the last backup, for the status.
const metaBackup = "backup"

const (
	snapshotDir   = "backups"
	keepSnapshots = 7 // days
)

// snapshot copies the database once a day.
func (g *ground) snapshot(ctx context.Context, now time.Time) error {
	_, err := backup.Snapshot(ctx, g.db, backup.Snapshots{
		Dir: filepath.Join(g.cfg.Data, snapshotDir), Keep: keepSnapshots, Now: now, Kept: g.kept.Now(), Spare: g.spare,
	})
	return err
}

// spare is how many bytes of the disk of the database something may take that is not needed.
func (g *ground) spare() (drive.ByteSize, error) {
	free, err := g.dataFree()
	return free - orLeast(g.cfg.MinFree), err
}

// leaseCopies is that of who keeps copies.
const leaseCopies = "copies"

const (
	copySoon  = time.Minute // after the start
	copyEvery = time.Hour
)

// keepCopies brings up to date what lies elsewhere: the copy of the day, or the mark of a bucket.
// It is no chore of the housekeeping: to copy a large database takes longer than all of them may.
func (h *house) keepCopies(ctx context.Context) error {
	next := time.NewTimer(copySoon)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		if err := h.copy(ctx); err != nil && ctx.Err() == nil {
			h.ground.log.ErrorContext(ctx, "a copy could not be brought up to date; it will be tried again within the hour", "error", err)
		}
		next.Reset(copyEvery)
	}
}

func (h *house) copy(ctx context.Context) error {
	if h.ground.Restored {
		return nil
	}
	return h.ground.mode.copies(ctx, h.moved())
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

// Restore puts a backup in place of what is in cfg.Data. No server may run there. Until a check was
// clean the restored installation deletes nothing.
func Restore(ctx context.Context, cfg config.Config, from string, force bool, log *slog.Logger) (out backup.Restored, err error) {
	if cfg.MySQL != nil {
		return backup.Restored{}, ErrServerDatabase
	}
	lock, err := lockDir(cfg.Data)
	if err != nil {
		return backup.Restored{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return backup.Restore(ctx, from, site(cfg), force, backup.Options{Packs: local.Packed{}, Log: log})
}

// Adopt accepts a database that was put in place by other means, such as a nightly snapshot or the
// dump of a server, as the one that the blobs belong to. It returns how many open uploads it ended.
// No instance may be alive.
func Adopt(ctx context.Context, cfg config.Config, log *slog.Logger) (uploads int64, err error) {
	g := newGround(cfg, log)
	a := &App{ground: g}
	if g.lock, err = lockDir(cfg.Data); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := g.mode.connect(ctx); err != nil {
		return 0, err
	}
	if err := g.mode.alive(ctx); err != nil {
		return 0, err
	}
	if uploads, err = backup.Adopt(ctx, g.db, g.adopted(ctx), backup.Options{Log: log}); err != nil {
		return 0, fmt.Errorf("adopt the database: %w", err)
	}
	// The timers in Redis are those of the rows that were there before.
	err = g.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Delete(ctx, tx, metaArmed) })
	return uploads, err
}

// adopted is where the mark of an adopted database goes.
func (g *ground) adopted(ctx context.Context) backup.Site {
	return backup.Site{
		Data: g.cfg.Data, Blobs: g.marks.String(),
		ReadMark: func(string) (backup.Mark, bool, error) {
			m, found, err := g.marks.ReadMark(ctx)
			return backup.Mark(m), found, err
		},
		WriteMark: func(_ string, m backup.Mark) error { return g.marks.WriteMark(ctx, blob.Mark(m)) },
	}
}

// noneAlive refuses while an instance may use the database. A dump shows those that were alive when
// it was made; they are dead after some seconds.
func (g *ground) noneAlive(ctx context.Context) error {
	return g.start(component{"instances", func(ctx context.Context) error { return instance.NoneAlive(ctx, g.db, g.db.Now) }})(ctx)
}
