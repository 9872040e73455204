package account

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Run refreshes recently used sessions and records their use until ctx ends, and returns nil.
// Failures are logged and retried. Without it requests read the database every five seconds and
// logins are not extended.
func (a *Auth) Run(ctx context.Context) error {
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	var outage telemetry.Outage
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			outage.Record(ctx, a.opt.Log, "cached sessions could not be refreshed; requests read the database until the next attempt", a.refreshOnce(ctx))
		}
	}
}

// sessionsPerQuery bounds the sessions read by one query; SQLite takes 32,766 parameters.
const sessionsPerQuery = 4096

// refreshOnce re-reads the sessions used within the last minute and records outdated times of use.
// It does not query if no session was used.
func (a *Auth) refreshOnce(ctx context.Context) error {
	now := a.opt.Now()
	recent := a.recentlyUsed(now)
	for len(recent) > 0 {
		batch := recent[:min(len(recent), sessionsPerQuery)]
		recent = recent[len(batch):]
		r, err := a.readSnapshot(ctx, batch)
		if err != nil {
			return err
		}
		a.refresh(batch, r)
	}
	return a.recordUse(ctx, now)
}

// recentlyUsed returns the sessions used within the last minute and evicts those unused for an
// hour.
func (a *Auth) recentlyUsed(now time.Time) []secretHash {
	a.mu.Lock()
	defer a.mu.Unlock()
	var recent []secretHash
	for hash, c := range a.cached {
		switch idle := now.Sub(time.Unix(0, c.usedAt.Load())); {
		case idle <= refreshIdleLimit:
			recent = append(recent, hash)
		case idle > usePrecision:
			delete(a.cached, hash)
		}
	}
	return recent
}

// refresh replaces cached rows by those in r and evicts sessions that ended. It does nothing if a
// revocation happened since the query began.
func (a *Auth) refresh(hashes []secretHash, r snapshot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.epoch != r.epoch {
		return
	}
	for _, hash := range hashes {
		c, cached := a.cached[hash]
		row, exists := r.rows[hash]
		switch {
		case !cached || r.at.Before(c.readAt):
		case !exists:
			delete(a.cached, hash)
		default:
			c.row, c.readAt = row, r.at
		}
	}
}

// recordUse records the time of use of sessions whose row is an hour behind, and extends logins. A
// crash loses at most an hour of thirty days.
func (a *Auth) recordUse(ctx context.Context, now time.Time) error {
	behind := a.dueForRecord(now)
	if len(behind) == 0 {
		return nil
	}
	seen := drive.TimeOf(now)
	err := a.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, id := range behind {
			if _, err := tx.Exec(ctx, `UPDATE sessions SET seen_at = ?,
				expires_at = CASE WHEN kind <> 'login' THEN expires_at WHEN ends_at BETWEEN 1 AND ? THEN ends_at ELSE ? END
				WHERE id = ? AND seen_at < ? AND (expires_at = 0 OR expires_at > ?)`,
				seen, seen.Add(loginLife), seen.Add(loginLife), id, seen, seen); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record the use of sessions: %w", err)
	}
	return nil
}

// dueForRecord returns up to batchSize sessions whose recorded time of use is an hour or more
// behind.
func (a *Auth) dueForRecord(now time.Time) []drive.SessionID {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var ids []drive.SessionID
	for _, c := range a.cached {
		used := drive.TimeOf(time.Unix(0, c.usedAt.Load()))
		if used.Sub(c.row.session.SeenAt) >= usePrecision && now.Sub(c.readAt) < maxRowAge {
			if ids = append(ids, c.row.session.ID); len(ids) == batchSize {
				break
			}
		}
	}
	slices.SortFunc(ids, func(x, y drive.SessionID) int { return bytes.Compare(x[:], y[:]) }) // all transactions lock rows in this order
	return ids
}
