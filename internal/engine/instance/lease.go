package instance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// errLost is the cancellation cause of a leased job whose lease may be lost.
var errLost = errors.New("the lease was lost: no heartbeat in time")

// Lead runs job whenever this instance holds the named lease, until ctx is done or the instance has
// ended. The context of job is cancelled when the lease may be lost. The lease is released after
// job returns. A job that returns is started again after a pause; its error is logged. Lead always
// returns nil.
func (m *Member) Lead(ctx context.Context, name string, job func(ctx context.Context) error) error {
	for ctx.Err() == nil {
		if _, err := m.Try(ctx, name, job); err != nil && ctx.Err() == nil {
			m.log.WarnContext(ctx, "leased job failed; it starts again after a pause", "lease", name, "error", err)
		}
		select {
		case <-time.After(heartbeatEvery/2 + rand.N(heartbeatEvery/2)):
		case <-m.stopped:
			return nil
		case <-ctx.Done():
		}
	}
	return nil
}

// Try runs job once, in the calling goroutine, if this instance can acquire the named lease now,
// and releases the lease afterwards. held is false, and job was not run, if another instance holds
// it or the database cannot be asked. The context of job is cancelled when the lease may be lost.
// The error is that of job, joined with errLost in that case.
func (m *Member) Try(ctx context.Context, name string, job func(ctx context.Context) error) (held bool, err error) {
	epoch, err := m.acquire(ctx, name)
	if err != nil || epoch == 0 {
		return false, err
	}
	m.log.DebugContext(ctx, "lease taken", "lease", name, "epoch", epoch)
	jobCtx, lose := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		m.watch(jobCtx, lose)
	}()
	err = job(jobCtx)
	if errors.Is(context.Cause(jobCtx), errLost) {
		err = errors.Join(errLost, err)
	}
	lose(nil)
	<-watched
	if releaseErr := m.release(context.WithoutCancel(ctx), name, epoch); releaseErr != nil {
		m.log.WarnContext(ctx, "lease not released; no other instance gets it while this one is alive", "lease", name, "error", releaseErr)
	}
	return true, err
}

// watch cancels the job with errLost when the lease may be lost, which it looks for every second.
// It returns then, or when ctx is done.
func (m *Member) watch(ctx context.Context, lose context.CancelCauseFunc) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for m.trusted() {
		select {
		case <-ctx.Done():
			return
		case <-m.stopped:
		case <-tick.C:
		}
	}
	lose(errLost)
}

// Lease is a lease as stored in the database.
type Lease struct {
	Name       string     `json:"name"`
	Generation int64      `json:"generation"` // generation of the holder; 0: free
	Epoch      int64      `json:"epoch"`      // fencing token; increases with each acquisition
	TakenAt    drive.Time `json:"taken_at"`
}

// Leases returns up to 100 leases by name, free ones included; nil for an installation of one
// process.
func (m *Member) Leases(ctx context.Context) ([]Lease, error) {
	if m.single {
		return nil, nil
	}
	rows, err := m.db.Query(ctx, `SELECT name, generation, epoch, taken_at FROM leases ORDER BY name LIMIT 100`)
	all, err := sqldb.Scan(rows, err, func(l *Lease, scan func(...any) error) error {
		return scan(&l.Name, &l.Generation, &l.Epoch, &l.TakenAt)
	})
	if err != nil {
		return nil, fmt.Errorf("list the leases: %w", err)
	}
	return all, nil
}

// acquire makes this instance the holder of the lease and returns the new epoch, which serves as a
// fencing token. It returns 0 without an error if another live instance holds the lease or was
// faster, or if this one is not trusted to be alive. A single instance always gets 1.
func (m *Member) acquire(ctx context.Context, name string) (epoch int64, err error) {
	if m.single {
		return 1, nil
	}
	if !m.trusted() {
		return 0, nil
	}
	held, exists, err := m.find(ctx, name)
	if err != nil {
		return 0, err
	}
	if held.Generation != 0 && held.Generation != m.opt.Generation {
		if alive, err := m.IsAlive(ctx, held.Generation); err != nil || alive {
			return 0, err
		}
	}
	now, err := m.opt.Now(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask the database for the time: %w", err)
	}
	err = m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		epoch = held.Epoch + 1
		if !exists {
			_, err := tx.Exec(ctx, `INSERT INTO leases (name, generation, epoch, taken_at) VALUES (?, ?, ?, ?)`, name, m.opt.Generation, epoch, now)
			return err
		}
		n, err := tx.Exec(ctx, `UPDATE leases SET generation = ?, epoch = ?, taken_at = ? WHERE name = ? AND epoch = ?`,
			m.opt.Generation, epoch, now, name, held.Epoch)
		if err == nil && n == 0 {
			epoch = 0
		}
		return err
	})
	if sqldb.IsDuplicate(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("take the lease %s: %w", name, err)
	}
	return epoch, nil
}

// find reads a lease; exists is false, without an error, if no instance has ever acquired it. A
// free lease has generation 0.
func (m *Member) find(ctx context.Context, name string) (l Lease, exists bool, err error) {
	err = m.db.QueryRow(ctx, `SELECT generation, epoch FROM leases WHERE name = ?`, name).Scan(&l.Generation, &l.Epoch)
	if drive.IsKind(err, drive.NotFound) {
		return Lease{}, false, nil
	}
	return l, err == nil, err
}

// release frees the lease if this instance still holds it under epoch; else it does nothing and
// returns nil. It gives up with an error after heartbeatEvery.
func (m *Member) release(ctx context.Context, name string, epoch int64) error {
	if m.single {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatEvery)
	defer cancel()
	return m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE leases SET generation = 0 WHERE name = ? AND generation = ? AND epoch = ?`, name, m.opt.Generation, epoch)
		return err
	})
}
