package app

import (
	"context"
	"log/slog"
	"os"
	"time"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/engine/instance"
	"example.org/smartdrive/internal/engine/retention"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/setting"
)

// platform holds what an installation runs on: data directory, database, stores, shared components,
// and this process as one of the instances. It does not know use cases.
type platform struct {
	Installation // set when the installation is identified

	cfg  config.Config // settings at the start
	live *setting.Live // current settings, with administrators' changes
	log  *slog.Logger
	mode mode

	lock    *os.File
	db      *sqldb.DB
	storage storage // configured store; during a migration, the pair of old and new store
	marks   markStore
	shared  shared // components besides the database that several instances share; zero for one instance
	member  *instance.Member
	kept    *retention.Clock

	freeAt func(dir string) (drive.ByteSize, error) // returns the free bytes of a disk; replaced in tests

	modules modules // hooks of the use cases
}

// newPlatform returns a platform for cfg with its mode selected. It does no I/O; connect opens the
// services.
func newPlatform(cfg config.Config, log *slog.Logger) *platform {
	p := &platform{cfg: cfg, live: setting.NewLive(cfg), log: log, freeAt: local.FreeSpace}
	p.mode = p.modeOf()
	return p
}

// rowTime returns the time to store in rows that retention reads. It never lies before the latest
// retention time, so that a machine with a slow clock does not backdate deletions.
func (p *platform) rowTime() time.Time {
	now, latest := time.Now(), p.kept.Latest()
	if now.Before(latest) {
		return latest
	}
	return now
}

// content returns the store of blob rows, whose release times use the retention clock.
func (p *platform) content() content.Content { return content.Content{Now: p.kept.Now} }

// source returns the CloudEvents source of this installation's records.
func (p *platform) source() string { return "smartdrive/" + p.ID }

// clockStepped handles a step of a timer queue's clock. A queue may call it during the start.
func (p *platform) clockStepped(by time.Duration) {
	p.log.Warn("the clock of the timer queue stepped; no upload is reclaimed for an hour", "by", by)
	p.modules.clockStepped(by)
}

// keepBallast creates the ballast file, whose deletion frees space on a full disk, again if the
// disk has space. A failure is only logged.
func (p *platform) keepBallast(ctx context.Context) {
	if err := p.mode.ballast(); err != nil {
		p.log.WarnContext(ctx, "the ballast file could not be written, so deletes may fail once the disk is full; free some space", "error", err)
	}
}
