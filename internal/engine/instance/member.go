package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/engine/sqldb"
)

// The timing of heartbeats. A leased job may run for ttl minus margin after the last heartbeat, in
// which three attempts fit.
const (
	heartbeatEvery = 5 * time.Second  // interval of heartbeats, and of attempts to acquire a lease
	ttl            = 20 * time.Second // without a heartbeat for this time an instance is dead
	margin         = 4 * time.Second  // time between the end of a leased job here and its start elsewhere
	keepDead       = 24 * time.Hour   // time for which rows of dead instances are kept
)

// ErrEnded says that this instance was declared dead or replaced. The process must stop and may
// restart.
var ErrEnded = errors.New("this instance was declared dead, or another process has started from a copy of its data directory")

// Info describes an instance.
type Info struct {
	Generation int64  `json:"generation"` // number of its start
	ID         string `json:"id"`         // id of its data directory, the same across restarts
	Host       string `json:"host"`
	Roles      string `json:"roles"` // comma-separated: "api,worker"
	Version    string `json:"version"`
}

// Options configure Join. The zero value of each optional field means its default.
type Options struct {
	Info
	// Exclusive requires that no other instance is alive; otherwise Join fails with Unavailable.
	Exclusive bool
	// Now reads the clock shared by all instances: the database's. Required.
	Now func(ctx context.Context) (drive.Time, error)
	Log *slog.Logger // default slog.Default
}

// Member is this process as an instance. It is safe for concurrent use.
type Member struct {
	db      *sqldb.DB
	opt     Options
	log     *slog.Logger
	single  bool          // installation of one process: the database is not used
	stopped chan struct{} // closed when this instance has ended

	mu              sync.Mutex
	leasesUntil     time.Time // end of the leases by the monotonic clock
	leasesUntilWall time.Time // end of the leases by the wall clock
	steadySince     time.Time // start of the present run of successful heartbeats; see EndDead
	ended           bool      // this instance has left or was ended by another one
}

// Alone returns the member of an installation of one process; the caller must hold the lock that
// excludes others. It writes nothing and holds every lease.
func Alone(in Info) *Member {
	return &Member{opt: Options{Info: in}, single: true, steadySince: time.Now(), stopped: make(chan struct{}), log: slog.New(slog.DiscardHandler)}
}

// Join registers this process and ends earlier starts from the same data directory. The caller must
// hold the lock of that directory. If Options.Exclusive is set and another instance is alive, it
// fails with Unavailable.
func Join(ctx context.Context, db *sqldb.DB, opt Options) (*Member, error) {
	opt.Log = cmp.Or(opt.Log, slog.Default())
	m := &Member{db: db, opt: opt, log: opt.Log.With("generation", opt.Generation), stopped: make(chan struct{})}
	start := time.Now()
	now, err := opt.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the database for the time: %w", err)
	}
	if err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return m.insert(ctx, tx, now) }); err != nil {
		return nil, fmt.Errorf("join the instances: %w", err)
	}
	m.trust(start)
	if opt.Exclusive {
		if err := m.refuseOthers(ctx); err != nil {
			return nil, errors.Join(err, m.withdraw(context.WithoutCancel(ctx)))
		}
	}
	return m, nil
}

// insert inserts the row of this instance in tx, marks rows of its earlier starts as ended, and
// deletes rows older than keepDead. It may be repeated after a lost reply. It fails if another
// instance has this generation.
func (m *Member) insert(ctx context.Context, tx *sqldb.Tx, now drive.Time) error {
	if _, err := tx.Exec(ctx, `UPDATE instances SET ended_at = ? WHERE id = ? AND generation <> ? AND ended_at IS NULL`,
		now, m.opt.ID, m.opt.Generation); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM instances WHERE ended_at < ? OR seen_at < ?`, now.Add(-keepDead), now.Add(-keepDead)); err != nil {
		return err
	}
	fresh, err := tx.InsertNew(ctx, `INSERT INTO instances (generation, id, host, roles, version, joined_at, seen_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		m.opt.Generation, m.opt.ID, m.opt.Host, m.opt.Roles, m.opt.Version, now, now)
	if err != nil || fresh {
		return err
	}
	// The reply to an earlier insert of this row was lost.
	n, err := tx.Exec(ctx, `UPDATE instances SET seen_at = ? WHERE generation = ? AND id = ? AND ended_at IS NULL`, now, m.opt.Generation, m.opt.ID)
	if err == nil && n == 0 {
		err = fmt.Errorf("start %d is another instance's", m.opt.Generation)
	}
	return err
}

// refuseOthers returns Unavailable if another instance is alive. It must run after the commit of
// its own row: of two concurrent joins, at least one then sees the other.
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

// withdraw deletes the row of this instance after a Join that failed later, so that the same start
// can join again.
func (m *Member) withdraw(ctx context.Context) error {
	return m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM instances WHERE generation = ?`, m.opt.Generation)
		return err
	})
}

// Info returns the description of this instance.
func (m *Member) Info() Info { return m.opt.Info }

// Run sends heartbeats until ctx is done. It returns ErrEnded if this instance was ended; failed
// heartbeats are logged and retried.
func (m *Member) Run(ctx context.Context) error {
	if m.single {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	var outage telemetry.Outage
	for {
		err := m.beat(ctx)
		if errors.Is(err, ErrEnded) {
			return err
		}
		outage.Record(ctx, m.log, "no heartbeat could be written to the database; if this continues, leased jobs stop here and the other instances take over", err, slog.Any("leases_until", m.deadline()))
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// beat writes one heartbeat to this instance's row, within heartbeatEvery, and then trusts its
// leases for ttl from the start of the attempt on. It fails with ErrEnded if the row is gone or
// marked as ended.
func (m *Member) beat(ctx context.Context) error {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, heartbeatEvery)
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

// trust extends this instance's leases after a successful heartbeat: they are safe until ttl, less
// a margin, after start, the time at which the heartbeat began. If they had expired, the instance
// counts as steady from start. After end it does nothing.
func (m *Member) trust(start time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	if m.leasesUntil.IsZero() || start.After(m.leasesUntil.Add(margin)) {
		m.steadySince = start
	}
	m.leasesUntil = start.Add(ttl - margin)
	m.leasesUntilWall = m.leasesUntil.Round(0)
}

// trusted reports whether the leases are still valid by both clocks. The monotonic clock stops
// while a machine is suspended; a wall clock that jumps ahead only pauses the jobs.
func (m *Member) trusted() bool {
	if m.single {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	return !m.ended && now.Before(m.leasesUntil) && now.Round(0).Before(m.leasesUntilWall)
}

// deadline returns the time until which this instance may rely on its leases.
func (m *Member) deadline() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leasesUntil
}

// end records that this instance has ended and closes m.stopped. It writes nothing to the database.
// A second call does nothing.
func (m *Member) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.ended = true
		close(m.stopped)
	}
}

// Leave ends this instance permanently, so that other instances can acquire its leases at once. Run
// then returns ErrEnded at the next heartbeat. The process must not use the database afterwards. If
// it fails, the leases become free ttl after the last heartbeat.
func (m *Member) Leave(ctx context.Context) error {
	if m.single {
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
