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

	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/engine/instance"
)

// Leases, each for work that one instance does for all.
const (
	leaseRelay   = "relay"     // sends the outbox to Kafka
	leaseOutbox  = "consumers" // reads the outbox, without Kafka
	leaseCompare = "intake"    // compares bundles with the drive
	leaseGather  = "gather"    // makes bundles of files without a manifest
	leaseBundle  = "bundles"   // consumes sealed bundles, without Kafka
	leaseAudit   = "audit"
	leaseHooks   = "webhooks"   // sends to webhooks
	leaseMail    = "mail"       // sends notifications by mail
	leaseArm     = "arm-timers" // rearms timers that Redis has lost
)

// info describes this process for its row in the database, which other instances read. The host is
// empty if it is unknown.
func (p *platform) info() instance.Info {
	in := instance.Info{Generation: p.Generation, Roles: p.cfg.Roles.String(), Version: telemetry.ReadBuild().Version}
	in.Host, _ = os.Hostname() // for display only
	return in
}

// joinOthers registers this process among the instances of a database on a server. The lock of the
// data directory excludes a second instance of that directory. With only, it waits until any other
// instance is dead. It sets p.member and fails if the database cannot be reached or another
// instance stays alive.
func (p *platform) joinOthers(ctx context.Context, only bool) (err error) {
	info := p.info()
	if info.ID, err = directoryID(p.cfg.Data); err != nil {
		return err
	}
	err = p.start(component{"instances", func(ctx context.Context) (err error) {
		p.member, err = instance.Join(ctx, p.db, instance.Options{Info: info, Exclusive: only, Now: p.db.Now, Log: p.log})
		return err
	}})(ctx)
	if err != nil {
		return err
	}
	return p.start(component{"database", func(ctx context.Context) error {
		if err := p.db.CheckFormat(ctx); err != nil { // a newer release may have started since
			return err
		}
		return p.checkConnections(ctx)
	}})(ctx)
}

// leave unregisters this instance, so that the others take over its leases at once. It waits at
// most five seconds and always returns nil; a failure is logged.
func (p *platform) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := p.member.Leave(ctx); err != nil { // otherwise they detect it by its missing heartbeat
		p.log.Warn("this instance could not be deregistered; the others take over when its heartbeat expires", "error", err)
	}
	return nil
}

// instanceFile holds the id of the data directory.
const instanceFile = "instance"

// directoryID returns the id of a data directory and creates it at the first start. It fails if the
// file cannot be read or written.
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
	if err != nil { // the first start crashed while writing it
		fresh := uuid.NewString()
		return fresh, writeDurably(path, fresh+"\n")
	}
	return id.String(), nil
}
