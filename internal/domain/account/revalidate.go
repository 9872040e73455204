package account

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Run keeps the recently used sessions fresh until ctx ends, and records that they were used.
// Without it nothing is wrong: requests ask the database every five seconds and logins do not
// slide.
func (a *Auth) Run(ctx context.Context) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := a.runOnce(ctx); err != nil && ctx.Err() == nil {
				a.opt.Log.Warn("keep sessions fresh", "error", err)
			}
		}
	}
}

// maxReadAtOnce sessions are read by one query; SQLite takes 32,766 parameters.
const maxReadAtOnce = 4096

// runOnce reads the sessions used within the last minute again and writes the times of use that
// have become old. Where nothing was used it does not ask the database.
func (a *Auth) runOnce(ctx context.Context) error {
	now := a.opt.Now()
	recent := a.recent(now)
	for len(recent) > 0 {
		batch := recent[:min(len(recent), maxReadAtOnce)]
		recent = recent[len(batch):]
		r, err := a.look(ctx, batch)
		if err != nil {
			return err
		}
		a.refresh(batch, r)
	}
	return a.touch(ctx, now)
}

// recent returns the sessions used within the last minute and drops those of an hour ago.
func (a *Auth) recent(now time.Time) []secretHash {
	a.mu.Lock()
	defer a.mu.Unlock()
	var recent []secretHash
	for hash, c := range a.cached {
		switch idle := now.Sub(time.Unix(0, c.usedAt.Load())); {
		case idle <= recentlyFor:
			recent = append(recent, hash)
		case idle > touchAfter:
			delete(a.cached, hash)
		}
	}
	return recent
}

// refresh replaces the rows in memory by what the database says; a session that ended leaves it.
// Where something was revoked while the query ran, its answer is dropped, as in keep.
func (a *Auth) refresh(hashes []secretHash, r reading) {
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

// touch writes when sessions were last used, for those whose row is an hour behind, and lets logins
// slide. A crash before it loses at most an hour of thirty days.
func (a *Auth) touch(ctx context.Context, now time.Time) error {
	behind := a.behind(now)
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

// behind returns up to purgeBatch sessions used since their row was last brought up to date an hour
// ago or more.
func (a *Auth) behind(now time.Time) []drive.SessionID {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var ids []drive.SessionID
	for _, c := range a.cached {
		used := drive.TimeOf(time.Unix(0, c.usedAt.Load()))
		if used.Sub(c.row.session.SeenAt) >= touchAfter && now.Sub(c.readAt) < trustFor {
			if ids = append(ids, c.row.session.ID); len(ids) == purgeBatch {
				break
			}
		}
	}
	slices.SortFunc(ids, func(x, y drive.SessionID) int { return bytes.Compare(x[:], y[:]) }) // rows are locked in one order
	return ids
}
