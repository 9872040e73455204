package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/engine/instance"
)

// What one instance does for all: the names of its leases.
const (
	leaseRelay   = "relay"     // outbox to Kafka
	leaseOutbox  = "consumers" // of the outbox, where there is no Kafka
	leaseCompare = "intake"    // who compares bundles with the drive
	leaseGather  = "gather"    // who makes bundles of files without a manifest
	leaseBundle  = "bundles"   // the consumer of sealed bundles, where there is no Kafka
	leaseAudit   = "audit"
	leaseHooks   = "webhooks"   // who sends to them
	leaseMail    = "mail"       // who mails what people are told
	leaseArm     = "arm-timers" // after Redis has lost them
)

// info is who this process is.
func (g *ground) info() instance.Info {
	in := instance.Info{Generation: g.Generation, Roles: g.cfg.Roles.String(), Version: telemetry.ReadBuild().Version}
	in.Host, _ = os.Hostname() // shown to people only
	return in
}

// joinOthers makes this process one of the instances of a database on a server. The lock of the
// data directory keeps a second one of this directory away; where there may be only one at all, the
// death of another is waited for.
func (g *ground) joinOthers(ctx context.Context, only bool) (err error) {
	info := g.info()
	if info.ID, err = directoryID(g.cfg.Data); err != nil {
		return err
	}
	err = g.start(component{"instances", func(ctx context.Context) (err error) {
		g.member, err = instance.Join(ctx, g.db, instance.Options{Info: info, Only: only, Now: g.db.Now, Log: g.log})
		return err
	}})(ctx)
	if err != nil {
		return err
	}
	return g.start(component{"database", func(ctx context.Context) error {
		if err := g.db.CheckFormat(ctx); err != nil { // a newer release may have come between
			return err
		}
		return g.checkConnections(ctx)
	}})(ctx)
}

// leave tells the others, who take over at once.
func (g *ground) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := g.member.Leave(ctx); err != nil { // they find out by themselves
		g.log.Warn("the other instances were not told of the stop", "error", err)
	}
	return nil
}

// instanceFile names the data directory among the instances.
const instanceFile = "instance"

// directoryID returns the id of a data directory, and makes it at the first start.
func directoryID(dir string) (string, error) {
	path := filepath.Join(dir, instanceFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id := uuid.NewString()
		return id, writeDurably(path, id+"\n")
	}
	if err != nil {
		return "", fmt.Errorf("read the id of the data directory: %w", err)
	}
	id, err := uuid.Parse(strings.TrimSpace(string(text)))
	if err != nil { // a crash in the middle of the first start
		fresh := uuid.NewString()
		return fresh, writeDurably(path, fresh+"\n")
	}
	return id.String(), nil
}
