package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/engine/sqldb"
)

// The times of an instance's life. TTL minus margin is what a leased job may still run after the
// last heartbeat: three tries of it fit in.
const (
	every  = 5 * time.Second  // between two heartbeats, and between two looks at a lease
	ttl    = 20 * time.Second // without one an instance is dead
	margin = 4 * time.Second  // between the end of a job here and its beginning elsewhere
	keep   = 24 * time.Hour   // how long the rows of dead instances are shown
)

// ErrEnded says that this instance was declared dead and replaced: it must stop and restart.
var ErrEnded = errors.New("this instance was declared dead, or another process has started from a copy of its data directory")

// Info says who an instance is.
type Info struct {
	Generation int64  `json:"generation"` // of its start
	ID         string `json:"id"`         // of its data directory, the same over restarts
	Host       string `json:"host"`
	Roles      string `json:"roles"` // "api,worker"
	Version    string `json:"version"`
}

// Options configure Join. The zero value of each optional field is its default.
type Options struct {
	Info
	// Only: there may be no other instance alive; Join is Unavailable while there is one.
	Only bool
	// Now is the clock that all instances share: the database's. Required.
	Now func(ctx context.Context) (drive.Time, error)
	Log *slog.Logger // default slog.Default
}

// Member is this process as one of the instances. It is safe for concurrent use.
type Member struct {
	db   *sqldb.DB
	opt  Options
	log  *slog.Logger
	sole bool          // nobody else can be there, and nothing is written
	gone chan struct{} // closed when the instance was found to be ended

	mu     sync.Mutex
	until  time.Time // leases are good till then, by this process's monotonic clock
	wall   time.Time // and by the clock on the wall
	steady time.Time // since when heartbeats have come without a gap; see End
	ended  bool
}

// Alone returns the member of an installation of one process, which a lock keeps others out of. It
// needs no heartbeat: it writes nothing and holds every lease.
func Alone(in Info) *Member {
	return &Member{opt: Options{Info: in}, sole: true, steady: time.Now(), gone: make(chan struct{}), log: slog.New(slog.DiscardHandler)}
}

// Join makes this process an instance, and ends what an earlier start from the same data directory
// has left: whoever joins holds the lock of that directory.
func Join(ctx context.Context, db *sqldb.DB, opt Options) (*Member, error) {
	opt.Log = cmp.Or(opt.Log, slog.Default())
	m := &Member{db: db, opt: opt, log: opt.Log.With("generation", opt.Generation), gone: make(chan struct{})}
	start := time.Now()
	now, err := opt.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the database for the time: %w", err)
	}
	if err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return m.insert(ctx, tx, now) }); err != nil {
		return nil, fmt.Errorf("join the instances: %w", err)
	}
	m.trust(start)
	if opt.Only {
		if err := m.refuseOthers(ctx); err != nil {
			return nil, errors.Join(err, m.withdraw(context.WithoutCancel(ctx)))
		}
	}
	return m, nil
}

func (m *Member) insert(ctx context.Context, tx *sqldb.Tx, now drive.Time) error {
	if _, err := tx.Exec(ctx, `UPDATE instances SET ended_at = ? WHERE id = ? AND generation <> ? AND ended_at IS NULL`,
		now, m.opt.ID, m.opt.Generation); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM instances WHERE ended_at < ? OR seen_at < ?`, now.Add(-keep), now.Add(-keep)); err != nil {
		return err
	}
	fresh, err := tx.InsertNew(ctx, `INSERT INTO instances (generation, id, host, roles, version, joined_at, seen_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		m.opt.Generation, m.opt.ID, m.opt.Host, m.opt.Roles, m.opt.Version, now, now)
	if err != nil || fresh {
		return err
	}
	// The reply to the same insert was lost.
	n, err := tx.Exec(ctx, `UPDATE instances SET seen_at = ? WHERE generation = ? AND id = ? AND ended_at IS NULL`, now, m.opt.Generation, m.opt.ID)
	if err == nil && n == 0 {
		err = fmt.Errorf("start %d is another instance's", m.opt.Generation)
	}
	return err
}

// refuseOthers reads after its own row was committed: of two that join at once at least one sees
// the other.
func (m *Member) refuseOthers(ctx context.Context) error {
	all, err := m.List(ctx)
	if err != nil {
		return err
	}
	for _, in := range all {
		if in.Alive && in.Generation != m.opt.Generation {
			return drive.Wrap(fmt.Errorf("another instance, start %d on host %q, uses the database and was seen %s ago; with contents in a "+
				"directory there can only be one", in.Generation, in.Host, in.Silent.Round(time.Second)), drive.Unavailable)
		}
	}
	return nil
}

// withdraw takes the row back, so that the same start may try again.
func (m *Member) withdraw(ctx context.Context) error {
	return m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM instances WHERE generation = ?`, m.opt.Generation)
		return err
	})
}

// Info returns who this instance is.
func (m *Member) Info() Info { return m.opt.Info }

// Run sends heartbeats until ctx is done. It returns ErrEnded when this instance was ended by
// others; nothing else ends it.
func (m *Member) Run(ctx context.Context) error {
	if m.sole {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var outage telemetry.Outage
	for {
		err := m.beat(ctx)
		if errors.Is(err, ErrEnded) {
			return err
		}
		outage.Note(ctx, m.log, "no heartbeat", err, slog.Any("leases_until", m.deadline()))
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// beat is one heartbeat. Its row shows a moment between the start of the attempt and its commit.
func (m *Member) beat(ctx context.Context) error {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	now, err := m.opt.Now(ctx)
	if err != nil {
		return fmt.Errorf("ask the database for the time: %w", err)
	}
	var n int64
	err = m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = tx.Exec(ctx, `UPDATE instances SET seen_at = ? WHERE generation = ? AND ended_at IS NULL`, now, m.opt.Generation)
		return err
	})
	if err != nil {
		return fmt.Errorf("send a heartbeat: %w", err)
	}
	if n == 0 {
		m.end()
		return ErrEnded
	}
	m.trust(start)
	return nil
}

// trust notes a good heartbeat that was begun at start.
func (m *Member) trust(start time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	if m.until.IsZero() || start.After(m.until.Add(margin)) {
		m.steady = start
	}
	m.until = start.Add(ttl - margin)
	m.wall = m.until.Round(0)
}

// trusted reports whether leases are still good. A machine that slept has a monotonic clock that
// did not count it: the wall clock has its say too, and one that jumps ahead costs a pause.
func (m *Member) trusted() bool {
	if m.sole {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	return !m.ended && now.Before(m.until) && now.Round(0).Before(m.wall)
}

func (m *Member) deadline() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until
}

// end notes that others have ended this instance.
func (m *Member) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.ended = true
		close(m.gone)
	}
}

// Leave ends this instance: what it held is free at once. The last thing a process does with the
// database.
func (m *Member) Leave(ctx context.Context) error {
	if m.sole {
		return nil
	}
	m.end()
	now, err := m.opt.Now(ctx)
	if err == nil {
		err = m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE instances SET ended_at = ? WHERE generation = ? AND ended_at IS NULL`, now, m.opt.Generation)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("leave the instances: %w", err)
	}
	return nil
}
