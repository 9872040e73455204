package migrate

import (
	"context"
	"fmt"
)

// checkAllRestarted returns WrongState while an instance runs with the old settings. Such an
// instance would use the old side again once the bookkeeping of the migration is deleted.
func (m *Migration) checkAllRestarted(ctx context.Context, v *snapshot) error {
	if err := m.party.Ready(m.stateOf(v)); err != nil {
		return wrongState("start the instances with the new settings first: " + err.Error())
	}
	all, err := m.instances(ctx, v)
	for _, in := range all {
		if in.Why != "" {
			return wrongState("start the instances with the new settings first: " + in.name() + ": " + in.Why)
		}
	}
	return err
}

// runArrivedWhenReady runs Party.OnArrived once all live instances run with the new settings. Until
// then, and if it has run, it does nothing and returns nil.
func (o *oldSide) runArrivedWhenReady(ctx context.Context, v *snapshot) error {
	if o.notes().old.Arrived {
		return nil
	}
	if g, err := o.checkInstances(ctx, v, ready); err != nil || !g.OK {
		return err
	}
	return o.runArrived(ctx, v)
}

// runArrived runs Party.OnArrived unless it was run for this move. If the process crashes before
// that is noted, it runs again.
func (o *oldSide) runArrived(ctx context.Context, v *snapshot) error {
	if err := o.loadNotes(ctx, v); err != nil || o.notes().old.Arrived {
		return err
	}
	if err := o.party.OnArrived(ctx); err != nil {
		return fmt.Errorf("see to what the instances with the old settings left: %w", err)
	}
	return editNote(ctx, o.sides, v, noteOld, func(n *oldNotes) { n.Arrived = true })
}
