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
	leaseBundle  = "bundles"   // the consumer of sealed bundles, where there is no Kafka
	leaseAudit   = "audit"
	leaseArm     = "arm-timers" // after Redis has lost them
)

// identify finds out who we are, and refuses what does not belong together.
func (a *App) identify(ctx context.Context) (err error) {
	if a.cfg.Mode().Many() {
		a.Installation, err = identifyShared(ctx, a.db, a.marks)
	} else {
		a.Installation, err = identify(ctx, a.db, a.marks)
	}
	return err
}

// join makes this process one of the instances. The lock of the data directory keeps a second one of this directory away; where
// there may be only one at all, the death of another is waited for.
func (a *App) join(ctx context.Context) error {
	info := instance.Info{Generation: a.Generation, Roles: a.cfg.Roles.String(), Version: telemetry.ReadBuild().Version}
	info.Host, _ = os.Hostname() // shown to people only
	if a.ownsDatabase() {
		a.member = instance.Alone(info)
		return nil
	}
	var err error
	if info.ID, err = directoryID(a.cfg.Data); err != nil {
		return err
	}
	if a.cfg.Mode().Many() {
		if err := startAll(ctx, []component{{"Redis", a.claimNamespace}}, a.cfg.StartWait, a.log); err != nil {
			return err
		}
	}
	err = startAll(ctx, []component{{"instances", func(ctx context.Context) (err error) {
		a.member, err = instance.Join(ctx, a.db, instance.Options{Info: info, Only: !a.cfg.Mode().Many(), Now: a.db.Now, Log: a.log})
		return err
	}}}, a.cfg.StartWait, a.log)
	if err != nil {
		return err
	}
	return startAll(ctx, []component{{"database", a.checkConnections}}, a.cfg.StartWait, a.log)
}

// leave tells the others, who take over at once.
func (a *App) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := a.member.Leave(ctx); err != nil { // they find out by themselves
		a.log.Warn("the other instances were not told of the stop", "error", err)
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
