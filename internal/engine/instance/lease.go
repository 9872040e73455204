package instance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// errLost is why the context of a leased job ends before it is told to stop.
var errLost = errors.New("the lease was lost: no heartbeat in time")

// Lead runs job while this instance holds the lease of that name, until ctx is done. The job's
// context ends when the lease may be lost; only when the job has returned is the lease given back,
// or taken again. A job that returns by itself begins again after a pause; its errors are logged.
func (m *Member) Lead(ctx context.Context, name string, job func(ctx context.Context) error) error {
	for ctx.Err() == nil {
		if _, err := m.Try(ctx, name, job); err != nil && ctx.Err() == nil {
			m.log.WarnContext(ctx, "a job of one instance failed and will begin again", "lease", name, "error", err)
		}
		select {
		case <-time.After(every/2 + rand.N(every/2)):
		case <-m.gone:
			return nil
		case <-ctx.Done():
		}
	}
	return nil
}

// Try runs job once if this instance gets the lease of that name now; held is false when somebody
// else has it.
func (m *Member) Try(ctx context.Context, name string, job func(ctx context.Context) error) (held bool, err error) {
	epoch, err := m.take(ctx, name)
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
		m.log.WarnContext(ctx, "a lease was not given back", "lease", name, "error", releaseErr)
	}
	return true, err
}

// watch ends the job when the lease can no longer be trusted.
func (m *Member) watch(ctx context.Context, lose context.CancelCauseFunc) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for m.trusted() {
		select {
		case <-ctx.Done():
			return
		case <-m.gone:
		case <-tick.C:
		}
	}
	lose(errLost)
}

// Lease says who does something that only one does.
type Lease struct {
	Name       string     `json:"name"`
	Generation int64      `json:"generation"` // of the holder; 0: nobody
	Epoch      int64      `json:"epoch"`
	TakenAt    drive.Time `json:"taken_at"`
}

// Leases lists all leases by name.
func (m *Member) Leases(ctx context.Context) ([]Lease, error) {
	if m.sole {
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

// take returns the epoch under which this instance holds the lease now; 0: somebody else does.
func (m *Member) take(ctx context.Context, name string) (epoch int64, err error) {
	if m.sole {
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

func (m *Member) find(ctx context.Context, name string) (l Lease, exists bool, err error) {
	err = m.db.QueryRow(ctx, `SELECT generation, epoch FROM leases WHERE name = ?`, name).Scan(&l.Generation, &l.Epoch)
	if drive.IsKind(err, drive.NotFound) {
		return Lease{}, false, nil
	}
	return l, err == nil, err
}

func (m *Member) release(ctx context.Context, name string, epoch int64) error {
	if m.sole {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	return m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE leases SET generation = 0 WHERE name = ? AND generation = ? AND epoch = ?`, name, m.opt.Generation, epoch)
		return err
	})
}
