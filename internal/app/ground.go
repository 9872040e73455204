package app

import (
	"context"
	"log/slog"
	"os"
	"time"

	"smartdrive/internal/base/config"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/engine/blob/local"
	"smartdrive/internal/engine/instance"
	"smartdrive/internal/engine/retention"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/setting"
)

// ground is what an installation stands on: its directory, its database, where its bytes are, what
// several instances share, and this process as one of them. Nothing of it knows a use case.
type ground struct {
	Installation // once it was identified

	cfg  config.Config // as the server was started
	live *setting.Live // as administrators have changed it since
	log  *slog.Logger
	mode mode

	lock   *os.File
	db     *sqldb.DB
	bytes  storage // the configured place; from the time when moves are known, the pair of places
	marks  marks
	shared shared // what several instances share besides the database; empty where there is one
	member *instance.Member
	kept   *retention.Clock

	freeAt func(dir string) (drive.ByteSize, error) // of a disk; tests have disks of their own

	stepped func(by time.Duration) // is told that the clock of a queue has stepped; nil while a start is under way
}

// newGround does no I/O.
func newGround(cfg config.Config, log *slog.Logger) *ground {
	g := &ground{cfg: cfg, live: setting.NewLive(cfg), log: log, freeAt: local.Free}
	g.mode = g.modeOf()
	return g
}

// stamp is the time that goes into rows that retention looks at later. A machine whose clock is
// behind must not make what is deleted now look as if it had been deleted long ago.
func (g *ground) stamp() time.Time {
	now, latest := time.Now(), g.kept.Latest()
	if now.Before(latest) {
		return latest
	}
	return now
}

// content knows blobs. When one was released, and how long ago, both go by the clock of retention.
func (g *ground) content() content.Content { return content.Content{Now: g.kept.Now} }

// source is what the records of this installation name as theirs.
func (g *ground) source() string { return "smartdrive/" + g.ID }

// onStep is told of a step by a queue, which may find one while it is checked at the start.
func (g *ground) onStep(by time.Duration) {
	g.log.Warn("the clock stepped; nothing is reclaimed for a while", "by", by)
	if g.stepped != nil {
		g.stepped(by)
	}
}

// keepBallast places the ballast where it was given up; there may be no room for it yet.
func (g *ground) keepBallast(ctx context.Context) {
	if err := g.mode.ballast(); err != nil {
		g.log.WarnContext(ctx, "no room for the ballast", "error", err)
	}
}
