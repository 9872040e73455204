package migrate

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/engine/sqldb"
)

// announcer tells the others which epoch this process acts by.
type announcer struct {
	*both
	party *Party

	// Guarded by looking:
	heard   epochOf   // that this process has told of
	heardAt time.Time // when it last did
	waits   string    // why it did not acknowledge it; empty: it did
	warmed  bool      // for the switch that everybody is careful for
}

const (
	ackEvery = 5 * time.Second
	warmTime = 2 * time.Second
	maxWhy   = 1000 // bytes of the reason why an instance waits
)

// ack says which epoch this process acts by. Where something that the epoch wants is not open yet
// it says so instead: the gate names it, and stays closed (M5).
func (a *announcer) ack(ctx context.Context, v *view) error {
	if err := a.learnNotes(ctx, v); err != nil {
		return err
	}
	a.warm(ctx, v)
	why := cutTo(a.unready(v), maxWhy)
	a.looking.Lock()
	due := a.heard != v.named() || a.waits != why || time.Since(a.heardAt) > ackEvery
	a.looking.Unlock()
	if !due {
		return nil
	}
	now, err := v.near.DB.Now(ctx)
	if err != nil {
		return err
	}
	me := a.party.Member.Info().Generation
	err = v.near.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if why != "" {
			_, err := tx.Exec(ctx, "REPLACE INTO migration_waits (instance, epoch, why, seen_at) VALUES (?, ?, ?, ?)", me, v.Epoch, why, now)
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM migration_waits WHERE instance = ?", me); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "REPLACE INTO migration_acks (instance, epoch, seen_at) VALUES (?, ?, ?)", me, v.Epoch, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("acknowledge the epoch: %w", err)
	}
	a.looking.Lock()
	defer a.looking.Unlock()
	a.heard, a.waits, a.heardAt = v.named(), why, time.Now()
	return nil
}

// warm opens connections to the side that is about to become the primary: all who waited for the
// switch come to it at once. It belongs to being ready, which everybody must be before a switch
// begins.
func (a *announcer) warm(ctx context.Context, v *view) {
	a.looking.Lock()
	due := v.Careful && v.other != nil && !a.warmed
	a.warmed = v.Careful && (a.warmed || due)
	a.looking.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warmTime)
	defer cancel()
	if err := v.other.DB.Warm(ctx); err != nil { // it costs time, later
		a.log.WarnContext(ctx, "connections for the switch", "error", err)
	}
}

// unready says what this process lacks to act by what it has heard of; empty: nothing.
func (a *announcer) unready(v *view) string {
	switch {
	case v.Peer != "" && v.other == nil && v.Phase >= Fill && v.Phase <= WriteNew:
		return "the other database: " + v.why
	case v.Peer != "" && !v.home && a.notes().old.Dropping:
		return "it was started with the old settings"
	}
	if err := a.party.Ready(a.stateOf(v)); err != nil {
		return err.Error()
	}
	return ""
}
