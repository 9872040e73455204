package access

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Bounds of the cache where other instances change grants, too.
const (
	maxAge       = 5 * time.Second // age up to which a cached right is used
	pollInterval = 4 * time.Second // shorter than maxAge, so that the epoch stays known
)

// epoch identifies a state of the data that authorization depends on. A cached decision is valid
// within one epoch.
type epoch struct {
	own     atomic.Int64 // changes made by this process
	foreign atomic.Int64 // number of changes as last read from the database
	readAt  atomic.Int64 // start of that read, Unix ns; zero: never read
}

// metaEpoch is the row of meta that holds the epoch that instances share.
const metaEpoch = "access-epoch"

// EpochStamp identifies the epoch in which a decision was made.
type EpochStamp struct{ own, foreign int64 }

// Stamp returns the current epoch; false: it is unknown, and decisions must not be cached.
func (a *Access) Stamp() (EpochStamp, bool) {
	s := EpochStamp{a.epoch.own.Load(), a.epoch.foreign.Load()}
	if !a.opt.Shared {
		return s, true
	}
	at := a.epoch.readAt.Load()
	return s, at != 0 && a.opt.Now().Sub(time.Unix(0, at)) < maxAge
}

// endEpoch ends the epoch when tx commits, which invalidates all cached decisions of this process,
// and with Options.Shared those of other instances as soon as they poll. With Options.Shared it
// locks a row of meta until tx ends.
func (a *Access) endEpoch(ctx context.Context, tx *sqldb.Tx) error {
	tx.AfterCommit(func() { a.epoch.own.Add(1) })
	if !a.opt.Shared {
		return nil
	}
	n, err := tx.Exec(ctx, `UPDATE meta SET value = CAST(value AS SIGNED) + 1 WHERE name = ?`, metaEpoch)
	if err == nil && n == 0 {
		err = meta.Set(ctx, tx, metaEpoch, "1")
	}
	if err != nil {
		return fmt.Errorf("end the epoch of access: %w", err)
	}
	return nil
}

// InvalidateIfGranted ends the epoch if the account has a grant, else it does nothing. The caller
// calls it because a folder moved, so that other grants apply to it, or was trashed, so that guests
// lose access.
func (a *Access) InvalidateIfGranted(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	var any int
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM grants WHERE account_id = ?)`, account).Scan(&any)
	if err != nil || any == 0 {
		return err
	}
	return a.endEpoch(ctx, tx)
}

// Run polls the shared epoch every pollInterval until ctx ends, and always returns nil. If polls
// fail, the epoch becomes too old and decisions are read from the database. Without Options.Shared
// it only waits.
func (a *Access) Run(ctx context.Context) error {
	if !a.opt.Shared {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		_ = a.poll(ctx) // after an error the epoch becomes too old, and requests read the database
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// poll reads the shared epoch from the database and stores it with the time at which the read
// began; a missing row counts as 0. On an error the stored epoch and time stay.
func (a *Access) poll(ctx context.Context) error {
	at := a.opt.Now()
	text, err := meta.Find(ctx, a.opt.DB, metaEpoch)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && text != "" {
		return fmt.Errorf("read the epoch of access: %w", err)
	}
	a.epoch.foreign.Store(n)
	a.epoch.readAt.Store(at.UnixNano())
	return nil
}
