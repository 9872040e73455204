package migrate

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/engine/sqldb"
)

// announcer writes to the primary which epoch this process acts by, so that a step can wait until
// all instances follow it.
type announcer struct {
	*sides
	party *Party

	// Guarded by sides.mu:
	ackedEpoch epochKey  // last epoch acknowledged by this process
	ackedAt    time.Time // time of that acknowledgment
	waitReason string    // reason why the epoch was not acknowledged; empty: acknowledged
	warmed     bool      // connections were opened for the current switch
}

const (
	ackEvery      = 5 * time.Second // interval of repeated acknowledgments
	warmTimeout   = 2 * time.Second // timeout for opening connections before a switch
	maxWaitReason = 1000            // bytes of the stored wait reason
)

// ack records on the primary that this process acts by the epoch of v. If the process lacks
// something that the epoch needs, it records the reason instead; then the gate "instances" shows
// the reason and stays closed (M5). Without a change it writes at most every ackEvery. v must have
// a primary.
func (a *announcer) ack(ctx context.Context, v *snapshot) error {
	if err := a.loadNotes(ctx, v); err != nil {
		return err
	}
	a.warm(ctx, v)
	why := truncate(a.notReadyReason(v), maxWaitReason)
	a.mu.Lock()
	due := a.ackedEpoch != v.epochKey() || a.waitReason != why || time.Since(a.ackedAt) > ackEvery
	a.mu.Unlock()
	if !due {
		return nil
	}
	now, err := v.primary.DB.Now(ctx)
	if err != nil {
		return err
	}
	me := a.party.Member.Info().Generation
	err = v.primary.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
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
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ackedEpoch, a.waitReason, a.ackedAt = v.epochKey(), why, time.Now()
	return nil
}

// warm opens connections to the future primary before a switch, because all waiting requests use it
// at once afterwards. An instance is ready for the switch only after that.
func (a *announcer) warm(ctx context.Context, v *snapshot) {
	a.mu.Lock()
	due := v.Careful && v.other != nil && !a.warmed
	a.warmed = v.Careful && (a.warmed || due)
	a.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	if err := v.other.DB.Warm(ctx); err != nil { // a failure only delays requests
		a.log.WarnContext(ctx, "connections to the new primary could not be opened before the switch; the first requests after it are slower", "error", err)
	}
}

// notReadyReason returns why this process cannot act by the epoch of v; empty: it can.
func (a *announcer) notReadyReason(v *snapshot) string {
	switch {
	case v.Peer != "" && v.other == nil && v.Phase >= Fill && v.Phase <= WriteNew:
		return "the other database: " + v.otherError
	case v.Peer != "" && !v.nearIsHome && a.notes().old.Dropping:
		return "it was started with the old settings"
	}
	if err := a.party.Ready(a.stateOf(v)); err != nil {
		return err.Error()
	}
	return ""
}
