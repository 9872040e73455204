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
	mendTime    = 5 * time.Second // that a switch may take before others end it
)

// switcher makes the other side the primary, and brings a switch that stopped in the middle to an
// end.
type switcher struct {
	*gatekeeper
	said *announcer

	fencedAt  time.Time               // since when nobody is the primary, as seen here; guarded by looking
	own       *fence                  // that this process takes back; guarded by looking
	mendAfter time.Duration           // mendTime
	halt      func(step string) error // of tests: called at each step of a switch
}

// fence is a side that this process has fenced, or may have, and its row then.
type fence struct {
	side *Side
	was  record
}

// change makes the other side the primary; see the picture in the package comment. On an error, and
// when the process dies, takeBack or resolve bring it to one of the two ends.
func (w *switcher) change(ctx context.Context, v *view, to Phase) error {
	if v.other == nil {
		return drive.Wrap(errors.New("the other side cannot be reached"), drive.Unavailable)
	}
	v, err := w.beCareful(ctx, v, to)
	if err != nil {
		return err
	}
	asked := false
	err = w.fence(ctx, v)
	ctx = context.WithoutCancel(ctx)
	if err == nil {
		asked, err = w.cross(ctx, v, to)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("change the primary: %w", err), w.goBack(ctx, v, asked))
	}
	v, err = w.refresh(ctx)
	if err != nil || v == nil || v.near == nil {
		return err
	}
	if err := w.said.ack(ctx, v); err != nil {
		return err
	}
	return w.calm(ctx, v)
}

// beCareful makes everybody ask before they read, waits until all have heard of it, and brings what
// is left.
func (w *switcher) beCareful(ctx context.Context, v *view, to Phase) (*view, error) {
	if !v.Careful {
		if err := step(ctx, v, func(r *record) { r.Careful = true }); err != nil {
			return nil, err
		}
	}
	v, err := w.steady(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.heardByAll(ctx, v, readiness(to > v.Phase)); err != nil {
		return nil, errors.Join(err, w.calm(ctx, v))
	}
	if err := w.carryNumbers(ctx, v.near, v.other, numbersRoom); err != nil {
		return nil, err
	}
	if err := w.apply.now(ctx); err != nil {
		return nil, err
	}
	if lag, err := countChanges(ctx, v.near.DB); err != nil || lag > maxBacklog {
		return nil, errors.Join(err, wrong(fmt.Sprintf("%d changes are not applied yet", lag)))
	}
	return v, nil
}

// heardByAll waits until every instance that is alive has come so far with the epoch (M5).
func (w *switcher) heardByAll(ctx context.Context, v *view, want readiness) error {
	deadline := time.Now().Add(hearTime)
	for {
		if err := w.said.ack(ctx, v); err != nil {
			return err
		}
		g, err := w.checkInstances(ctx, v, want)
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

// calm ends the care when everybody has heard of the epoch; else it stays, and reads are somewhat
// slower.
func (w *switcher) calm(ctx context.Context, v *view) error {
	g, err := w.checkInstances(ctx, v, heard)
	if err != nil || !g.OK {
		return err
	}
	err = step(ctx, v, func(r *record) { r.Careful = false })
	if errors.Is(err, errOvertaken) {
		err = nil
	}
	if err == nil {
		_, err = w.refresh(ctx)
	}
	return err
}

// calmLate ends the care that whoever began it has left behind.
func (w *switcher) calmLate(ctx context.Context, v *view) error {
	now, err := v.near.DB.Now(ctx)
	if err != nil || now.Sub(v.ChangedAt) < careTime {
		return err
	}
	return w.calm(ctx, v)
}

// fence takes the primary's role away. It waits for the transactions that are open, for a second at
// most: one that stays open longer refuses the switch, and nothing has changed.
func (w *switcher) fence(ctx context.Context, v *view) error {
	if err := w.halt("fence"); err != nil {
		return err
	}
	return swapRecord(ctx, *v.near, v.record, v.fenced())
}

// fenced is the row of the primary once its role was taken away.
func (v *view) fenced() record {
	to := v.record
	to.Role, to.Epoch = fenced, v.Epoch+1
	return to
}

// cross brings what is left from the fenced side, and makes the other the primary. asked: with an
// error, too, the other side may be the primary, or become it.
func (w *switcher) cross(ctx context.Context, v *view, to Phase) (asked bool, err error) {
	if err := w.drain(ctx, v); err != nil {
		return false, err
	}
	there := v.record
	there.Role, there.Epoch, there.Term, there.Phase = primary, v.Epoch+1, v.Term+1, to
	there.Here, there.Peer = v.far.Here, v.far.Peer
	if err := swapRecord(ctx, *v.other, v.far, there); err != nil {
		nothing := errors.Is(err, sqldb.ErrUnwritten) || errors.Is(err, errOvertaken) || errors.Is(err, errOpen)
		return !nothing, err
	}
	if err := w.halt("crossed"); err != nil {
		return true, err
	}
	return true, w.follow(ctx, v.near, there)
}

// drain brings what is left from the fenced side.
func (w *switcher) drain(ctx context.Context, v *view) error {
	if err := w.halt("fenced"); err != nil {
		return err
	}
	deadline := time.Now().Add(drainTime)
	for {
		done, err := w.apply.carry(ctx, v.record, v.near, v.other)
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
	if err := w.carryNumbers(ctx, v.near, v.other, 0); err != nil {
		return err
	}
	if err := carryNotes(ctx, v.near, v.other); err != nil {
		return err
	}
	return w.halt("drained")
}

// goBack ends a switch of this process that has failed. Where the other side was not asked yet it
// need not be there.
func (w *switcher) goBack(ctx context.Context, v *view, asked bool) error {
	if !asked {
		w.looking.Lock()
		w.own = &fence{v.near, v.fenced()}
		w.looking.Unlock()
		if err := w.takeBack(ctx); err == nil {
			_, err = w.refresh(ctx)
			return err
		}
	}
	return w.resolve(ctx)
}

// takeBack makes the side that this process has fenced the primary again, without the other side.
// Only who fences a side makes the other one the primary; this process has not asked for it, and
// does not any more (M1). It can be done again, until the row is another.
func (w *switcher) takeBack(ctx context.Context) error {
	w.looking.Lock()
	own := w.own
	w.looking.Unlock()
	if own == nil {
		return nil
	}
	back := own.was
	back.Role, back.Epoch = primary, own.was.Epoch+1
	err := swapRecord(ctx, *own.side, own.was, back)
	if err != nil && !errors.Is(err, errOvertaken) {
		return fmt.Errorf("take the role of the primary back: %w", err)
	}
	w.looking.Lock()
	defer w.looking.Unlock()
	if w.own == own {
		w.own = nil
	}
	return nil
}

// follow makes a side that was fenced the secondary of the one that is the primary now.
func (w *switcher) follow(ctx context.Context, s *Side, there record) error {
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

// resolve brings a switch that stopped in the middle to one of its two ends. The row of the side
// that is to become the primary decides: whoever goes back raises its epoch first, and whoever
// would still make it the primary then fails (M1).
func (w *switcher) resolve(ctx context.Context) error {
	if w.awayKnown() == nil {
		home, err := readRecord(ctx, w.home.DB, "")
		if err != nil || home.Peer == "" {
			return err
		}
		if _, err := w.sideAway(ctx, home.Peer, false); err != nil {
			return err
		}
	}
	away := w.awayKnown()
	a, err := readRecord(ctx, w.home.DB, "")
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
		err = w.settle(ctx, &w.home, a, away, b)
	case b.Role == fenced:
		err = w.settle(ctx, away, b, &w.home, a)
	}
	if err == nil {
		_, err = w.refresh(ctx)
	}
	return err
}

func (w *switcher) settle(ctx context.Context, s *Side, was record, o *Side, other record) error {
	if other.Role == primary {
		return w.follow(ctx, s, other)
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

// end ends a switch that whoever began it has left in the middle.
func (w *switcher) end(ctx context.Context) error {
	w.looking.Lock()
	if w.fencedAt.IsZero() {
		w.fencedAt = time.Now()
	}
	since := time.Since(w.fencedAt)
	w.looking.Unlock()
	if since < w.mendAfter {
		return nil
	}
	return w.resolve(ctx)
}

// led forgets that nobody was the primary.
func (w *switcher) led() {
	w.looking.Lock()
	defer w.looking.Unlock()
	w.fencedAt = time.Time{}
}

func countChanges(ctx context.Context, db *sqldb.DB) (n int64, err error) {
	err = db.QueryRow(ctx, "SELECT COUNT(*) FROM migration_changes").Scan(&n)
	return n, err
}
