package instance

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Instance is one start of a process.
type Instance struct {
	Info
	JoinedAt drive.Time    `json:"joined_at"`
	SeenAt   drive.Time    `json:"seen_at"` // last heartbeat, by the database's clock
	Ended    bool          `json:"ended"`   // permanently
	Alive    bool          `json:"alive"`
	Silent   time.Duration `json:"silent_ns"` // time since SeenAt

	ahead bool // SeenAt is in the future: the database's clock was set back
}

// List returns the recent instances, live and dead, the latest start first. An installation of one
// process has one entry, itself.
func (m *Member) List(ctx context.Context) ([]Instance, error) {
	if m.single {
		return []Instance{{Info: m.opt.Info, JoinedAt: drive.TimeOf(m.steadySince), SeenAt: drive.TimeOf(time.Now()), Alive: true}}, nil
	}
	return list(ctx, m.db, m.opt.Now)
}

// NoneAlive returns an Unavailable error if any instance is alive, for a process that is not an
// instance and must be alone.
func NoneAlive(ctx context.Context, db *sqldb.DB, now func(context.Context) (drive.Time, error)) error {
	all, err := list(ctx, db, now)
	for _, in := range all {
		if in.Alive {
			return drive.Wrap(fmt.Errorf("start %d on host %q uses the database and was seen %s ago; stop it first",
				in.Generation, in.Host, in.Silent.Round(time.Second)), drive.Unavailable)
		}
	}
	return err
}

// RunExclusive runs change while no instance is alive. If one is alive, it fails with Unavailable.
// It ends all instances permanently before and after the change, so that a frozen instance, or one
// that joined during the change, stops when it continues.
func RunExclusive(ctx context.Context, db *sqldb.DB, now func(context.Context) (drive.Time, error), change func() error) error {
	if err := NoneAlive(ctx, db, now); err != nil {
		return err
	}
	end := func() error {
		at, err := now(ctx)
		if err != nil {
			return fmt.Errorf("ask the database for the time: %w", err)
		}
		err = db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE instances SET ended_at = ? WHERE ended_at IS NULL`, at)
			return err
		})
		if err != nil {
			return fmt.Errorf("end the instances: %w", err)
		}
		return nil
	}
	if err := end(); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	return end()
}

// list reads the 1,000 latest instances, the latest start first, and computes whether each is alive
// by the given clock: not ended, and seen less than ttl ago.
func list(ctx context.Context, db *sqldb.DB, clock func(context.Context) (drive.Time, error)) ([]Instance, error) {
	now, err := clock(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the database for the time: %w", err)
	}
	rows, err := db.Query(ctx, `SELECT generation, id, host, roles, version, joined_at, seen_at, ended_at IS NOT NULL FROM instances
		ORDER BY generation DESC LIMIT 1000`)
	all, err := sqldb.Scan(rows, err, func(in *Instance, scan func(...any) error) error {
		return scan(&in.Generation, &in.ID, &in.Host, &in.Roles, &in.Version, &in.JoinedAt, &in.SeenAt, &in.Ended)
	})
	if err != nil {
		return nil, fmt.Errorf("list the instances: %w", err)
	}
	for i := range all {
		in := &all[i]
		in.Silent = max(0, now.Sub(in.SeenAt))
		in.Alive = !in.Ended && in.Silent < ttl
		in.ahead = in.SeenAt.Sub(now) > ttl
	}
	return all, nil
}

// Alive returns the live instances, the latest start first, this one included. On an error the list
// is not complete.
func (m *Member) Alive(ctx context.Context) ([]Instance, error) {
	all, err := m.List(ctx)
	alive := all[:0]
	for _, in := range all {
		if in.Alive {
			alive = append(alive, in)
		}
	}
	return alive, err
}

// IsAlive reports whether the instance of that start is alive. A dead one may come back with its
// next heartbeat unless it was ended. After the database's clock was set back, an instance counts
// as dead until its next heartbeat; otherwise dead instances would keep their leases until the
// clock catches up.
func (m *Member) IsAlive(ctx context.Context, generation int64) (bool, error) {
	all, err := m.Alive(ctx)
	for _, in := range all {
		if in.Generation == generation {
			return !in.ahead, nil
		}
	}
	return false, err
}

// Oldest returns the time at which the longest-running instance that has not ended joined, by the
// database's clock. No unfinished work of any instance began earlier. Zero if there is none.
func (m *Member) Oldest(ctx context.Context) (drive.Time, error) {
	all, err := m.List(ctx)
	oldest := drive.Time(0)
	for _, in := range all {
		if !in.Ended && (oldest == 0 || in.JoinedAt < oldest) {
			oldest = in.JoinedAt
		}
	}
	return oldest, err
}

// EndDead ends the instance of that start permanently if it is dead, and reports whether it has
// ended, now or before. An instance without a row counts as ended. The caller may then clean up
// after the instance: its later transactions fail in FenceTx. It returns false for this instance
// itself.
//
// After an outage of the database all instances look dead until their next heartbeat. So an
// instance ends others only if its own heartbeats have succeeded for longer than that.
func (m *Member) EndDead(ctx context.Context, generation int64) (bool, error) {
	if m.single {
		return generation != m.opt.Generation, nil
	}
	if generation == m.opt.Generation {
		return false, nil
	}
	now, err := m.opt.Now(ctx)
	if err != nil {
		return false, fmt.Errorf("ask the database for the time: %w", err)
	}
	ended := false
	err = m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var seen drive.Time
		err := tx.QueryRow(ctx, `SELECT seen_at, ended_at IS NOT NULL FROM instances WHERE generation = ?`, generation).Scan(&seen, &ended)
		if drive.IsKind(err, drive.NotFound) { // an instance without a row cannot send a heartbeat either
			ended = true
			return nil
		}
		if err != nil || ended || !m.isSteady() {
			return err
		}
		n, err := tx.Exec(ctx, `UPDATE instances SET ended_at = ? WHERE generation = ? AND seen_at < ? AND ended_at IS NULL`,
			now, generation, now.Add(-ttl))
		ended = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("end instance %d: %w", generation, err)
	}
	return ended, nil
}

// isSteady reports whether heartbeats have succeeded without a gap for at least twice the time to
// live.
func (m *Member) isSteady() bool {
	if !m.trusted() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.steadySince) >= 2*ttl
}

// FenceTx fails with Stopping if this instance was ended. Otherwise the instance cannot be ended
// before the transaction is over. Call it in every transaction that references bytes which other
// instances delete after this one has ended.
func (m *Member) FenceTx(ctx context.Context, tx *sqldb.Tx) error {
	if m.single {
		return nil
	}
	share := "" // SQLite has a single writer, so no other transaction can end the instance
	if tx.Dialect() == sqldb.MySQL {
		share = " LOCK IN SHARE MODE" // MariaDB does not support FOR SHARE
	}
	var ended bool
	err := tx.QueryRow(ctx, `SELECT ended_at IS NOT NULL FROM instances WHERE generation = ?`+share, m.opt.Generation).Scan(&ended)
	if ended || drive.IsKind(err, drive.NotFound) {
		return drive.Wrap(ErrEnded, drive.Stopping)
	}
	return err
}
