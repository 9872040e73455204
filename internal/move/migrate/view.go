package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// view is what this process knows of the move. It never changes; a newer one takes its place.
type view struct {
	record        // of the primary, or of the side that is fenced
	far    record // of the other side; zero: not known, or there is none
	near   *Side  // the primary; nil: nobody is, just now
	other  *Side  // the secondary; nil: rows do not move, or it cannot be reached
	deaf   bool   // the other side could not be asked
	why    string // there is no secondary although there should be one
	home   bool   // near is the side that this process is configured for
	at     time.Time
}

// known is the view of now; nil: nothing moves.
func (m *Migration) known() *view { return m.now.Load() }

const (
	pollEvery  = 300 * time.Millisecond // how often a process asks where the move stands, while there is one
	idleEvery  = 5 * time.Second        // how often it asks whether there is one: as often as an instance says that it lives
	switchWait = 10 * time.Second       // that a request waits for somebody to become the primary
	lookAgain  = 3 * time.Millisecond
)

// staleTime is how long a view counts without having been looked at again: many times pollEvery, and less than the time after which an
// instance that is silent is not waited for any more.
const staleTime = 5 * time.Second

// stale reports whether others may have gone on without this process, which was asleep, or could not ask. A machine that slept has a
// monotonic clock that did not count it: the wall clock has its say, too.
func (v *view) stale() bool {
	return time.Since(v.at) > staleTime || time.Since(v.at.Round(0)) > staleTime
}

// refresh asks both sides. An error leaves what is known.
func (m *Migration) refresh(ctx context.Context) (*view, error) {
	return m.refreshed(ctx, time.Time{})
}

// refreshed is refresh, or what came of one by somebody else that began after since.
func (m *Migration) refreshed(ctx context.Context, since time.Time) (*view, error) {
	m.looking.Lock()
	defer m.looking.Unlock()
	if !since.IsZero() && m.lookedAt.After(since) {
		return m.known(), m.lookedErr
	}
	begun := time.Now()
	v, err := m.ask(ctx)
	if ctx.Err() == nil { // else it says nothing to others
		m.lookedAt, m.lookedErr = begun, err
	}
	if err != nil {
		return nil, err
	}
	m.take(v)
	return v, nil
}

func (m *Migration) ask(ctx context.Context) (*view, error) {
	at := time.Now()
	home, err := readRecord(ctx, m.home.DB, "")
	if err != nil {
		return nil, err
	}
	return m.viewOf(ctx, home, at)
}

// viewOf makes a view of the home side's row, which was read after at, and of the other side's.
func (m *Migration) viewOf(ctx context.Context, home record, at time.Time) (*view, error) {
	if home.Role == nobody {
		return nil, nil
	}
	if home.Peer == "" {
		return &view{record: home, near: &m.home, home: true, at: at}, nil
	}
	away, err := m.openAway(ctx, home.Peer, false)
	if err != nil {
		if home.Role == primary { // the other one follows when it is there again
			return &view{record: home, near: &m.home, home: true, deaf: true, why: err.Error(), at: at}, nil
		}
		return nil, fmt.Errorf("open the other side: %w", err)
	}
	there, err := readRecord(ctx, away.DB, "")
	if err != nil && home.Role != primary {
		return nil, err
	}
	if there.Migration == home.Migration {
		if err := m.learn(ctx, &m.home, away); err != nil {
			return nil, err
		}
	}
	v := &view{record: home, far: there, near: &m.home, other: away, home: true, deaf: err != nil, at: at}
	switch {
	case home.Role == primary && there.Role == primary && there.Migration == home.Migration:
		return nil, errors.New("both sides say that they are the primary")
	case home.Role == primary:
		if there.Migration != home.Migration || there.Marker != home.Marker || there.Role == nobody {
			v.other, v.why = nil, "it is not the one that was filled"
			if err != nil {
				v.why = err.Error()
			}
		}
	case home.Role == retired && (there.Role == nobody || there.Role == retired):
		return nil, drive.Wrap(errors.New("this database was left for another, which does not know of it"), drive.WrongState)
	case there.Migration != home.Migration:
		return nil, drive.Wrap(fmt.Errorf("the other side is of another migration, %q", there.Migration), drive.WrongState)
	case there.Role == primary:
		v = &view{record: there, far: home, near: away, other: &m.home, at: at}
	case home.Role == fenced:
		v.near = nil
	default:
		v = &view{record: there, far: home, other: &m.home, at: at}
	}
	return v, nil
}

// take makes a view the one that counts, and opts the handle in or out.
func (m *Migration) take(v *view) {
	last := m.now.Swap(v)
	switch {
	case v == nil:
		m.opt.DB.Route(nil)
	case last == nil:
		m.opt.DB.Route(m)
		select {
		case m.begun <- struct{}{}:
		default:
		}
	}
}

// openAway opens the other side, once for each place; fresh: it may not be there yet.
func (m *Migration) openAway(ctx context.Context, at string, fresh bool) (*Side, error) {
	if m.away != nil && m.awayPlace == at {
		return m.away, nil
	}
	if m.away != nil {
		m.closing = append(m.closing, m.away.DB, m.away.Unchecked) // somebody may still read from it
		m.away = nil
	}
	s, err := m.open(ctx, at, fresh)
	if err != nil {
		return nil, err
	}
	m.away, m.awayPlace = s, at
	return s, nil
}

func (m *Migration) open(ctx context.Context, at string, fresh bool) (*Side, error) {
	db, err := m.opt.Open(ctx, at, Opening{Make: fresh})
	if err != nil {
		return nil, err
	}
	unchecked, err := m.opt.Open(ctx, at, Opening{Unchecked: true})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Side{DB: db, Unchecked: unchecked}, nil
}

// settled waits until somebody is the primary. Those who wait at the same time share the looks: one after the other, each with a look of
// its own, the last would wait for all of them.
func (m *Migration) settled(ctx context.Context, deadline time.Time) (*view, error) {
	for {
		v, err := m.refreshed(ctx, time.Now())
		if err == nil && (v == nil || v.near != nil) {
			return v, nil
		}
		if time.Now().After(deadline) {
			return nil, drive.Wrap(errors.Join(errors.New("nobody is the primary"), err), drive.Unavailable)
		}
		if err := sleep(ctx, lookAgain); err != nil {
			return nil, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return drive.Wrap(ctx.Err(), drive.Unavailable)
	case <-t.C:
		return nil
	}
}

// errMoved is the error of hold.
var errMoved = errors.New("this side is not the primary any more")

// hold proves in a transaction that its side is the primary, and keeps it so until the transaction is over (M1). It is the first
// statement.
func hold(ctx context.Context, tx *sqldb.Tx, migration string) error {
	lock := "" // where there is one writer nobody changes it meanwhile
	if tx.Dialect() == sqldb.MySQL {
		lock = " LOCK IN SHARE MODE" // FOR SHARE is not MariaDB's
	}
	var is role
	var id string
	err := tx.QueryRow(ctx, "SELECT role, migration FROM migration_side WHERE id = 1"+lock).Scan(&is, &id)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return err
	}
	if is != primary || id != migration {
		return errMoved
	}
	return nil
}
