package access

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

const (
	trustFor  = 5 * time.Second // how long a right that was read may be acted on where others change it, too
	pollEvery = 4 * time.Second // so that the number in use is read again before trustFor is over
)

// epoch numbers the states of all that this package decides by. What was decided in one epoch holds
// until the next.
type epoch struct {
	changes atomic.Int64 // of this process
	foreign atomic.Int64 // what the database said last
	readAt  atomic.Int64 // Unix ns, before it was asked; zero: never
}

const metaEpoch = "access-epoch"

// Stamp is when something was decided.
type Stamp struct{ own, foreign int64 }

// Stamp returns the present epoch; false: it is not known, so nothing may be kept.
func (a *Access) Stamp() (Stamp, bool) {
	s := Stamp{a.epoch.changes.Load(), a.epoch.foreign.Load()}
	if !a.opt.Shared {
		return s, true
	}
	at := a.epoch.readAt.Load()
	return s, at != 0 && a.opt.Now().Sub(time.Unix(0, at)) < trustFor
}

// changed ends the epoch with the transaction: whoever has kept something asks again.
func (a *Access) changed(ctx context.Context, tx *sqldb.Tx) error {
	tx.AfterCommit(func() { a.epoch.changes.Add(1) })
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

// Moved ends the epoch because a folder has come to lie below others, whose grants now hold for it,
// or has gone into the trash, where no grant gives anything to guests.
func (a *Access) Moved(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	var any int
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM grants WHERE account_id = ?)`, account).Scan(&any)
	if err != nil || any == 0 {
		return err
	}
	return a.changed(ctx, tx)
}

// Run keeps the epoch known while others change it, until ctx ends.
func (a *Access) Run(ctx context.Context) error {
	if !a.opt.Shared {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		_ = a.poll(ctx) // what was read becomes too old, and requests ask for themselves
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// poll reads the epoch.
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
