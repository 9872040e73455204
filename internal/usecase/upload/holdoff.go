package upload

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// clocks are the time sources of uploads.
type clocks struct {
	process   func() time.Time                              // clock of this process
	database  func(ctx context.Context) (drive.Time, error) // clock of the database, which row timestamps use; nil: process
	retention func() time.Time                              // monotonic clock for retention, see package retention; nil: process
}

// now returns the time of this process's clock.
func (c clocks) now() drive.Time { return drive.TimeOf(c.process()) }

// rowTime returns the current time for the timestamps of rows: the database's if several instances
// share it, and then the error of the query; else the local time, which never fails.
func (c clocks) rowTime(ctx context.Context) (drive.Time, error) {
	if c.database == nil {
		return c.now(), nil
	}
	return c.database(ctx)
}

// retentionTime returns the time that retention periods are measured against.
func (c clocks) retentionTime() drive.Time {
	if c.retention == nil {
		return c.now()
	}
	return drive.TimeOf(c.retention())
}

// reclaimHold is how long after a start or a loss of timers no timer may start a reclaim:
// interrupted clients get time to return.
const reclaimHold = time.Hour

// Limits for a clock that is wrong and is corrected while this process runs.
const (
	maxAhead    = 5 * time.Minute // a timestamp further in the future was written by a clock that ran ahead
	longestWait = 24 * time.Hour  // longest wait for a time that a wrong clock may have set; then the clock is read again
)

// holdoff suspends timer-driven reclaims for a while after a start, after a loss of timers, and
// after a restored backup.
type holdoff struct {
	db       *sqldb.DB
	clocks   clocks
	restored bool          // a restored backup is not checked yet: nothing is reclaimed
	length   time.Duration // how long reclaims are suspended

	mu    sync.Mutex
	ready drive.Time // when this instance became ready or last lost its timers
}

// noteLocal begins the suspension of reclaims in this instance anew, because timers were lost.
// Other instances are not told.
func (h *holdoff) noteLocal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = h.clocks.now()
}

// remaining returns how long this instance suspends reclaims; zero or negative: not suspended.
func (h *holdoff) remaining() time.Duration { return h.endsAt().Sub(h.clocks.now()) }

// endsAt returns when the suspension of reclaims in this instance ends; a time in the past means
// that it is over.
func (h *holdoff) endsAt() drive.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.clocks.now(); h.ready > now.Add(maxAhead) {
		h.ready = now
	}
	return h.ready.Add(h.length)
}

// sharedRemaining returns how long reclaims stay suspended because any instance has lost timers;
// zero or negative: not suspended. now is the time that rows use. A time of loss in the future was
// written by a wrong clock: sharedRemaining then stores the present time and begins the suspension
// anew.
func (h *holdoff) sharedRemaining(ctx context.Context, now drive.Time) (time.Duration, error) {
	if h.restored {
		return reclaimHold, nil
	}
	at, err := h.lostAt(ctx)
	switch {
	case err != nil || at == 0:
		return 0, err
	case at > now.Add(maxAhead):
		return h.length, h.noteShared(ctx)
	}
	return at.Add(h.length).Sub(now), nil
}

// metaTimersLost is the key in the meta table for the time at which any instance last noticed lost
// timers.
const metaTimersLost = "timers-lost"

// noteShared restarts the suspension in all instances: it stores the time of the loss in the
// database.
func (h *holdoff) noteShared(ctx context.Context) error {
	h.noteLocal()
	now, err := h.clocks.rowTime(ctx)
	if err != nil {
		return err
	}
	text := strconv.FormatInt(int64(now), 10)
	return h.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Set(ctx, tx, metaTimersLost, text) })
}

// lostAt reads from the database when timers were last lost; zero: never. It fails for text that is
// not a number.
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
