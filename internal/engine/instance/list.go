package instance

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Instance is one start of one process.
type Instance struct {
	Info
	JoinedAt drive.Time    `json:"joined_at"`
	SeenAt   drive.Time    `json:"seen_at"` // by the database's clock
	Ended    bool          `json:"ended"`   // for good
	Alive    bool          `json:"alive"`
	Silent   time.Duration `json:"silent_ns"` // since SeenAt

	ahead bool // SeenAt is yet to come: the database's clock was set back
}

// List returns all instances of late, the living and the dead, the latest start first.
func (m *Member) List(ctx context.Context) ([]Instance, error) {
	if m.sole {
		return []Instance{{Info: m.opt.Info, JoinedAt: drive.TimeOf(m.steady), SeenAt: drive.TimeOf(time.Now()), Alive: true}}, nil
	}
	return list(ctx, m.db, m.opt.Now)
}

// NoneAlive is Unavailable while any instance is alive. It is for who is none and must be alone.
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

// Between changes what all instances rely on while there are none. It is Unavailable while any is
// alive. All that have used the database are ended for good: one that was frozen stops when it goes
// on, and so does one that has come during the change and does not know of it.
func Between(ctx context.Context, db *sqldb.DB, now func(context.Context) (drive.Time, error), change func() error) error {
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

// Alive returns the instances that are alive, the latest start first.
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

// IsAlive reports whether the instance of that start is alive. One that is not may come back unless
// it was ended. After the database's clock was set back who lives says so with the next heartbeat;
// until then none is alive, or the dead would hold their leases for as long as the clock was ahead.
func (m *Member) IsAlive(ctx context.Context, generation int64) (bool, error) {
	all, err := m.Alive(ctx)
	for _, in := range all {
		if in.Generation == generation {
			return !in.ahead, nil
		}
	}
	return false, err
}

// Oldest returns when the longest-living instance that has not ended joined, by the database's
// clock: nothing that any of them is about to do was begun before. Zero when nobody else can be
// there.
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

// End reports whether the instance of that start has ended for good, and ends it if it is dead. It
// is then safe to clear up behind it: what it would still commit fails in Hold.
//
// After an outage of the database everybody looks dead until their next heartbeat; so only an
// instance that has itself been steady for longer than that ends others.
func (m *Member) End(ctx context.Context, generation int64) (bool, error) {
	if m.sole {
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
		if drive.IsKind(err, drive.NotFound) { // such a one cannot send a heartbeat either
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

// isSteady reports whether heartbeats have come for long without a gap, up to now.
func (m *Member) isSteady() bool {
	if !m.trusted() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.steady) >= 2*ttl
}

// Hold makes a transaction fail (Stopping) if this instance was ended, and otherwise keeps it from
// being ended before the transaction is over. It belongs into every transaction that names bytes
// which others clear away when their instance has ended.
func (m *Member) Hold(ctx context.Context, tx *sqldb.Tx) error {
	if m.sole {
		return nil
	}
	share := "" // where there is one writer nobody ends it meanwhile
	if tx.Dialect() == sqldb.MySQL {
		share = " LOCK IN SHARE MODE" // FOR SHARE is not MariaDB's
	}
	var ended bool
	err := tx.QueryRow(ctx, `SELECT ended_at IS NOT NULL FROM instances WHERE generation = ?`+share, m.opt.Generation).Scan(&ended)
	if ended || drive.IsKind(err, drive.NotFound) {
		return drive.Wrap(ErrEnded, drive.Stopping)
	}
	return err
}
