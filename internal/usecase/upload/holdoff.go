package upload

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

// clocks are the times that uploads go by.
type clocks struct {
	own   func() time.Time                              // of this process
	rows  func(ctx context.Context) (drive.Time, error) // of the database; nil: own
	keeps func() time.Time                              // for how long something was kept: see package retention; nil: own
}

func (c clocks) now() drive.Time { return drive.TimeOf(c.own()) }

// ofRows returns the time that rows go by.
func (c clocks) ofRows(ctx context.Context) (drive.Time, error) {
	if c.rows == nil {
		return c.now(), nil
	}
	return c.rows(ctx)
}

// kept is the time by which rows have been kept for long enough.
func (c clocks) kept() drive.Time {
	if c.keeps == nil {
		return c.now()
	}
	return drive.TimeOf(c.keeps())
}

// reclaimHold is how long after a start or a loss no timer may start a reclaim: clients that were
// cut off come back first.
const reclaimHold = time.Hour

// A clock may be wrong and be set right while this process runs.
const (
	maxAhead    = 5 * time.Minute // what was noted for later than that was noted by a clock that was ahead
	longestWait = 24 * time.Hour  // for a time that a wrong clock may have made distant; then the clock is asked again
)

// holdoff keeps timers from starting reclaims for a while: after a start, after timers were lost,
// after a backup was restored.
type holdoff struct {
	db       *sqldb.DB
	clocks   clocks
	restored bool
	length   time.Duration

	mu    sync.Mutex
	ready drive.Time // when this instance became ready, or last lost its timers
}

// lost notes that the timer queue has forgotten what it held.
func (h *holdoff) lost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = h.clocks.now()
}

// wait returns for how long no timer's word may start a reclaim, as far as this instance knows.
func (h *holdoff) wait() time.Duration { return h.until().Sub(h.clocks.now()) }

// until is the time at which wait ends.
func (h *holdoff) until() drive.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.clocks.now(); h.ready > now.Add(maxAhead) {
		h.ready = now
	}
	return h.ready.Add(h.length)
}

// waitForAll is wait for what any instance knows; now is the time that rows go by.
func (h *holdoff) waitForAll(ctx context.Context, now drive.Time) (time.Duration, error) {
	if h.restored {
		return reclaimHold, nil
	}
	at, err := h.lostAt(ctx)
	switch {
	case err != nil || at == 0:
		return 0, err
	case at > now.Add(maxAhead):
		return h.length, h.note(ctx)
	}
	return at.Add(h.length).Sub(now), nil
}

// metaTimersLost is the name of the mark in the meta table that says when any instance last found
// that timers were lost.
const metaTimersLost = "timers-lost"

// note is lost for all instances: whichever delivers a timer holds reclaims back for a while.
func (h *holdoff) note(ctx context.Context) error {
	h.lost()
	now, err := h.clocks.ofRows(ctx)
	if err != nil {
		return err
	}
	text := strconv.FormatInt(int64(now), 10)
	return h.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Set(ctx, tx, metaTimersLost, text) })
}

// lostAt returns when timers were last lost, as far as any instance knows; zero: never.
func (h *holdoff) lostAt(ctx context.Context) (at drive.Time, err error) {
	value, err := meta.Find(ctx, h.db, metaTimersLost)
	if err == nil && value != "" {
		var ms int64
		ms, err = strconv.ParseInt(value, 10, 64)
		at = drive.Time(ms)
	}
	if err != nil {
		return 0, fmt.Errorf("look for lost timers: %w", err)
	}
	return at, nil
}
