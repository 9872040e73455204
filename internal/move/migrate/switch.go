package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	hearTimeout     = 8 * time.Second // time for all instances to hear of an epoch; they poll every pollEvery
	drainTimeout    = 3 * time.Second // limit of draining during a switch; then the switch is undone
	maxBacklog      = 500             // most pending changes at the start of a switch: one batch
	carefulTimeout  = 2 * hearTimeout // time after which careful mode counts as abandoned
	numbersHeadroom = 1000            // numbers that may be assigned while a switch is prepared
	takeoverTime    = 5 * time.Second // time after which other instances finish a switch
)

// switcher makes the other side the primary, and finishes or undoes interrupted switches.
type switcher struct {
	*gatekeeper
	announcer *announcer

	fencedAt      time.Time               // when this process saw that no side is primary; guarded by mu
	ownFence      *fence                  // the fence that this process must undo; guarded by mu
	takeoverAfter time.Duration           // takeover delay: takeoverTime; less in tests
	testHook      func(step string) error // called at each step of a switch; set by tests
}

// fence is a side that this process has fenced, or may have fenced, and its row after that.
type fence struct {
	side *Side
	was  record
}

// switchPrimary makes the other side the primary and enters phase to; see the package comment.
// After an error or a crash, restorePrimary or resolve complete or undo the switch.
func (w *switcher) switchPrimary(ctx context.Context, v *snapshot, to Phase) error {
	if v.other == nil {
		return drive.Wrap(errors.New("the other side cannot be reached"), drive.Unavailable)
	}
	v, err := w.prepareSwitch(ctx, v, to)
	if err != nil {
		return err
	}
	asked := false
	err = w.fence(ctx, v)
	ctx = context.WithoutCancel(ctx)
	if err == nil {
		asked, err = w.promote(ctx, v, to)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("change the primary: %w", err), w.undo(ctx, v, asked))
	}
	v, err = w.refresh(ctx)
	if err != nil || v == nil || v.primary == nil {
		return err
	}
	if err := w.announcer.ack(ctx, v); err != nil {
		return err
	}
	return w.endCareful(ctx, v)
}

// prepareSwitch prepares a switch without changing the primary. It starts careful mode, in which
// each read first asks the primary's row, waits until all instances have heard of it, raises
// automatic numbers, and applies pending changes. It returns the snapshot to switch from, and
// WrongState if more than maxBacklog changes remain.
func (w *switcher) prepareSwitch(ctx context.Context, v *snapshot, to Phase) (*snapshot, error) {
	if !v.Careful {
		if err := updateRecord(ctx, v, func(r *record) { r.Careful = true }); err != nil {
			return nil, err
		}
	}
	v, err := w.requireSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.waitHeard(ctx, v, readiness(to > v.Phase)); err != nil {
		return nil, errors.Join(err, w.endCareful(ctx, v))
	}
	if err := w.carryNumbers(ctx, v.primary, v.other, numbersHeadroom); err != nil {
		return nil, err
	}
	if err := w.apply.applyPending(ctx); err != nil {
		return nil, err
	}
	if lag, err := countChanges(ctx, v.primary.DB); err != nil || lag > maxBacklog {
		return nil, errors.Join(err, wrongState(fmt.Sprintf("%d changes are not applied yet", lag)))
	}
	return v, nil
}

// waitHeard waits until all live instances are as far with the epoch as want (M5). After
// hearTimeout it returns a Refusal.
func (w *switcher) waitHeard(ctx context.Context, v *snapshot, want readiness) error {
	deadline := time.Now().Add(hearTimeout)
	for {
		if err := w.announcer.ack(ctx, v); err != nil {
			return err
		}
		g, err := w.checkInstances(ctx, v, want)
		if err != nil || g.OK {
			return err
		}
		if time.Now().After(deadline) {
			return refuse("the switch", []Gate{g})
		}
		if err := wait(ctx, pollEvery/3); err != nil {
			return err
		}
	}
}

// endCareful ends careful mode if all instances have heard of the epoch. Otherwise careful mode
// stays, and reads are slower.
func (w *switcher) endCareful(ctx context.Context, v *snapshot) error {
	g, err := w.checkInstances(ctx, v, heard)
	if err != nil || !g.OK {
		return err
	}
	err = updateRecord(ctx, v, func(r *record) { r.Careful = false })
	if errors.Is(err, errOvertaken) {
		err = nil
	}
	if err == nil {
		_, err = w.refresh(ctx)
	}
	return err
}

// endStaleCareful ends careful mode that an interrupted switch has left for carefulTimeout. Before
// that it does nothing.
func (w *switcher) endStaleCareful(ctx context.Context, v *snapshot) error {
	now, err := v.primary.DB.Now(ctx)
	if err != nil || now.Sub(v.ChangedAt) < carefulTimeout {
		return err
	}
	return w.endCareful(ctx, v)
}

// fence takes the role away from the primary, so that no side is primary. It waits up to a second
// for open transactions; after that it returns errOpen, and nothing has changed.
func (w *switcher) fence(ctx context.Context, v *snapshot) error {
	if err := w.testHook("fence"); err != nil {
		return err
	}
	return swapRecord(ctx, *v.primary, v.record, v.fencedRecord())
}

// fencedRecord returns the row that fences the primary: role fenced in the next epoch. It writes
// nothing.
func (v *snapshot) fencedRecord() record {
	to := v.record
	to.Role, to.Epoch = fenced, v.Epoch+1
	return to
}

// promote drains the fenced side and makes the other side the primary. asked reports that the other
// side may be or may become the primary, even if there is an error.
func (w *switcher) promote(ctx context.Context, v *snapshot, to Phase) (asked bool, err error) {
	if err := w.drain(ctx, v); err != nil {
		return false, err
	}
	there := v.record
	there.Role, there.Epoch, there.Term, there.Phase = primary, v.Epoch+1, v.Term+1, to
	there.Here, there.Peer = v.otherRecord.Here, v.otherRecord.Peer
	if err := swapRecord(ctx, *v.other, v.otherRecord, there); err != nil {
		nothing := errors.Is(err, sqldb.ErrUnwritten) || errors.Is(err, errOvertaken) || errors.Is(err, errOpen)
		return !nothing, err
	}
	if err := w.testHook("crossed"); err != nil {
		return true, err
	}
	return true, w.demote(ctx, v.primary, there)
}

// drain applies the remaining changes of the fenced side, and carries numbers and notes over. It
// returns WrongState after drainTimeout.
func (w *switcher) drain(ctx context.Context, v *snapshot) error {
	if err := w.testHook("fenced"); err != nil {
		return err
	}
	deadline := time.Now().Add(drainTimeout)
	for {
		done, err := w.apply.applyFrom(ctx, v.record, v.primary, v.other)
		if err == nil {
			err = done.deleteChanges(ctx)
		}
		if err != nil {
			return err
		}
		if len(done.seqs) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return wrongState("what was left could not be applied in time")
		}
	}
	if err := w.carryNumbers(ctx, v.primary, v.other, 0); err != nil {
		return err
	}
	if err := carryNotes(ctx, v.primary, v.other); err != nil {
		return err
	}
	return w.testHook("drained")
}

// undo makes the old primary the primary again after a failed switch of this process. If the other
// side may have been promoted (asked), resolve decides by the rows of both sides instead.
func (w *switcher) undo(ctx context.Context, v *snapshot, asked bool) error {
	if !asked {
		w.mu.Lock()
		w.ownFence = &fence{v.primary, v.fencedRecord()}
		w.mu.Unlock()
		if err := w.restorePrimary(ctx); err == nil {
			_, err = w.refresh(ctx)
			return err
		}
	}
	return w.resolve(ctx)
}

// restorePrimary makes the side that this process has fenced the primary again, without asking the
// other side. That is safe because only the process that fences a side promotes the other one, and
// this process has not sent that statement (M1). It is idempotent.
func (w *switcher) restorePrimary(ctx context.Context) error {
	w.mu.Lock()
	own := w.ownFence
	w.mu.Unlock()
	if own == nil {
		return nil
	}
	back := own.was
	back.Role, back.Epoch = primary, own.was.Epoch+1
	err := swapRecord(ctx, *own.side, own.was, back)
	if err != nil && !errors.Is(err, errOvertaken) {
		return fmt.Errorf("take the role of the primary back: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ownFence == own {
		w.ownFence = nil
	}
	return nil
}

// demote makes the fenced side s the secondary of the primary whose record is there. It does
// nothing if s is not fenced, or of another migration, or if another process was first.
func (w *switcher) demote(ctx context.Context, s *Side, there record) error {
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

// resolve completes or undoes an interrupted switch. The row of the future primary decides: to
// undo, its epoch is raised first, so that the interrupted process can no longer promote it (M1).
func (w *switcher) resolve(ctx context.Context) error {
	if w.otherSide() == nil {
		home, err := readRecord(ctx, w.home.DB, "")
		if err != nil || home.Peer == "" {
			return err
		}
		if _, err := w.openOther(ctx, home.Peer, false); err != nil {
			return err
		}
	}
	away := w.otherSide()
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
		return wrongState("the two sides are not of the same migration")
	case a.Role == fenced:
		err = w.resolvePair(ctx, &w.home, a, away, b)
	case b.Role == fenced:
		err = w.resolvePair(ctx, away, b, &w.home, a)
	}
	if err == nil {
		_, err = w.refresh(ctx)
	}
	return err
}

// resolvePair ends an interrupted switch: if o is the primary, s becomes its secondary; else s is
// restored as the primary. For that it first changes the record of o, so that the interrupted
// process cannot complete its switch. was and other are the records as read; it returns
// errOvertaken if one has changed.
func (w *switcher) resolvePair(ctx context.Context, s *Side, was record, o *Side, other record) error {
	if other.Role == primary {
		return w.demote(ctx, s, other)
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

// endAbandoned resolves an interrupted switch of another process once this process has seen no
// primary for takeoverAfter. Before that it only notes the time.
func (w *switcher) endAbandoned(ctx context.Context) error {
	w.mu.Lock()
	if w.fencedAt.IsZero() {
		w.fencedAt = time.Now()
	}
	since := time.Since(w.fencedAt)
	w.mu.Unlock()
	if since < w.takeoverAfter {
		return nil
	}
	return w.resolve(ctx)
}

// clearFencedAt resets the time since which no side is primary.
func (w *switcher) clearFencedAt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fencedAt = time.Time{}
}

// countChanges returns the number of pending changes of db. It scans the table.
func countChanges(ctx context.Context, db *sqldb.DB) (n int64, err error) {
	err = db.QueryRow(ctx, "SELECT COUNT(*) FROM migration_changes").Scan(&n)
	return n, err
}
