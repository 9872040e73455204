package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

const (
	hearTime    = 8 * time.Second // until every instance has heard of an epoch; they ask every pollEvery
	drainTime   = 3 * time.Second // of the pause: then everything is as before
	maxBacklog  = 500             // changes that may be left when a switch begins: one batch
	careTime    = 2 * hearTime    // that a switch may take from its first step to its last
	numbersRoom = 1000            // numbers that may be given out while a switch is prepared
)

// change makes the other side the primary; see the picture in the package comment. On an error, and when the process dies, resolve
// brings it to one of the two ends.
func (m *Migration) change(ctx context.Context, v *view, to Phase) error {
	if v.other == nil {
		return drive.Wrap(errors.New("the other side cannot be reached"), drive.Unavailable)
	}
	v, err := m.beCareful(ctx, v, to)
	if err != nil {
		return err
	}
	err = m.fence(ctx, v)
	if err == nil {
		err = m.cross(context.WithoutCancel(ctx), v, to)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("change the primary: %w", err), m.resolve(context.WithoutCancel(ctx)))
	}
	v, err = m.refresh(ctx)
	if err != nil || v == nil || v.near == nil {
		return err
	}
	if err := m.ack(ctx, v); err != nil {
		return err
	}
	return m.calm(ctx, v)
}

// beCareful makes everybody ask before they read, waits until all have heard of it, and brings what is left.
func (m *Migration) beCareful(ctx context.Context, v *view, to Phase) (*view, error) {
	if !v.Careful {
		if err := m.step(ctx, v, func(r *record) { r.Careful = true }); err != nil {
			return nil, err
		}
	}
	v, err := m.steady(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.heardByAll(ctx, v, readiness(to > v.Phase)); err != nil {
		return nil, errors.Join(err, m.calm(ctx, v))
	}
	if err := m.carryNumbers(ctx, v.near, v.other, numbersRoom); err != nil {
		return nil, err
	}
	if err := m.apply.now(ctx); err != nil {
		return nil, err
	}
	if lag, err := countChanges(ctx, v.near.DB); err != nil || lag > maxBacklog {
		return nil, errors.Join(err, wrong(fmt.Sprintf("%d changes are not applied yet", lag)))
	}
	return v, nil
}

// heardByAll waits until every instance that is alive has come so far with the epoch (M5).
func (m *Migration) heardByAll(ctx context.Context, v *view, want readiness) error {
	deadline := time.Now().Add(hearTime)
	for {
		if err := m.ack(ctx, v); err != nil {
			return err
		}
		g, err := m.checkInstances(ctx, v, want)
		if err != nil || g.OK {
			return err
		}
		if time.Now().After(deadline) {
			return refuse("the switch", []Gate{g})
		}
		if err := sleep(ctx, pollEvery/3); err != nil {
			return err
		}
	}
}

// calm ends the care when everybody has heard of the epoch; else it stays, and reads are somewhat slower.
func (m *Migration) calm(ctx context.Context, v *view) error {
	g, err := m.checkInstances(ctx, v, heard)
	if err != nil || !g.OK {
		return err
	}
	err = m.step(ctx, v, func(r *record) { r.Careful = false })
	if errors.Is(err, errOvertaken) {
		err = nil
	}
	if err == nil {
		_, err = m.refresh(ctx)
	}
	return err
}

// calmLate ends the care that whoever began it has left behind.
func (m *Migration) calmLate(ctx context.Context, v *view) error {
	now, err := v.near.DB.Now(ctx)
	if err != nil || now.Sub(v.ChangedAt) < careTime {
		return err
	}
	return m.calm(ctx, v)
}

// fence takes the primary's role away. It waits for the transactions that are open, for a second at most: one that stays open longer
// refuses the switch, and nothing has changed.
func (m *Migration) fence(ctx context.Context, v *view) error {
	if err := m.halt("fence"); err != nil {
		return err
	}
	to := v.record
	to.Role, to.Epoch = fenced, v.Epoch+1
	return swapRecord(ctx, *v.near, v.record, to)
}

// cross brings what is left from the fenced side, and makes the other the primary.
func (m *Migration) cross(ctx context.Context, v *view, to Phase) error {
	if err := m.halt("fenced"); err != nil {
		return err
	}
	deadline := time.Now().Add(drainTime)
	for {
		done, err := m.apply.carry(ctx, v.record, v.near, v.other)
		if err == nil {
			err = done.forget(ctx)
		}
		if err != nil {
			return err
		}
		if len(done.seqs) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return wrong("what was left could not be applied in time")
		}
	}
	if err := m.carryNumbers(ctx, v.near, v.other, 0); err != nil {
		return err
	}
	if err := carryNotes(ctx, v.near, v.other); err != nil {
		return err
	}
	if err := m.halt("drained"); err != nil {
		return err
	}
	there := v.record
	there.Role, there.Epoch, there.Term, there.Phase = primary, v.Epoch+1, v.Term+1, to
	there.Here, there.Peer = v.far.Here, v.far.Peer
	if err := swapRecord(ctx, *v.other, v.far, there); err != nil {
		return err
	}
	if err := m.halt("crossed"); err != nil {
		return err
	}
	return m.follow(ctx, v.near, there)
}

// follow makes a side that was fenced the secondary of the one that is the primary now.
func (m *Migration) follow(ctx context.Context, s *Side, there record) error {
	have, err := readRecord(ctx, s.DB, "")
	if err != nil || have.Role != fenced || have.Migration != there.Migration {
		return err
	}
	to := there
	to.Role, to.Here, to.Peer = secondary, have.Here, have.Peer
	err = swapRecord(ctx, *s, have, to)
	if errors.Is(err, errOvertaken) {
		return nil
	}
	return err
}

// resolve brings a switch that stopped in the middle to one of its two ends. The row of the side that is to become the primary
// decides: who wants to go back raises its epoch first, and whoever would still make it the primary then fails (M1).
func (m *Migration) resolve(ctx context.Context) error {
	if m.awayKnown() == nil {
		home, err := readRecord(ctx, m.home.DB, "")
		if err != nil || home.Peer == "" {
			return err
		}
		if _, err := m.sideAway(ctx, home.Peer, false); err != nil {
			return err
		}
	}
	away := m.awayKnown()
	a, err := readRecord(ctx, m.home.DB, "")
	if err != nil {
		return err
	}
	b, err := readRecord(ctx, away.DB, "")
	if err != nil {
		return err
	}
	switch {
	case a.Migration != b.Migration:
		return wrong("the two sides are not of the same migration")
	case a.Role == fenced:
		err = m.settle(ctx, &m.home, a, away, b)
	case b.Role == fenced:
		err = m.settle(ctx, away, b, &m.home, a)
	}
	if err == nil {
		_, err = m.refresh(ctx)
	}
	return err
}

func (m *Migration) settle(ctx context.Context, s *Side, was record, o *Side, other record) error {
	if other.Role == primary {
		return m.follow(ctx, s, other)
	}
	claimed := other
	claimed.Epoch++
	if err := swapRecord(ctx, *o, other, claimed); err != nil {
		return err
	}
	back := was
	back.Role, back.Epoch = primary, was.Epoch+1
	return swapRecord(ctx, *s, was, back)
}

func countChanges(ctx context.Context, db *sqldb.DB) (n int64, err error) {
	err = db.QueryRow(ctx, "SELECT COUNT(*) FROM migration_changes").Scan(&n)
	return n, err
}
