package migrate

import (
	"context"
	"fmt"
)

// noneStays refuses while an instance says that it was started with the old settings. Once nothing
// tells it that the installation has moved, it would go on at the old place.
func (m *Migration) noneStays(ctx context.Context, v *view) error {
	if err := m.party.Ready(m.stateOf(v)); err != nil {
		return wrong("start the instances with the new settings first: " + err.Error())
	}
	all, err := m.instances(ctx, v)
	for _, in := range all {
		if in.Why != "" {
			return wrong("start the instances with the new settings first: " + in.name() + ": " + in.Why)
		}
	}
	return err
}

// arriveLate has Party.Arrived run once no instance that is alive was started with the old
// settings.
func (l *leftSide) arriveLate(ctx context.Context, v *view) error {
	if l.notes().old.Arrived {
		return nil
	}
	if g, err := l.checkInstances(ctx, v, ready); err != nil || !g.OK {
		return err
	}
	return l.arrive(ctx, v)
}

// arrive runs Party.Arrived, unless it was run for this move. Where the process dies before that is
// noted it is run again.
func (l *leftSide) arrive(ctx context.Context, v *view) error {
	if err := l.learnNotes(ctx, v); err != nil || l.notes().old.Arrived {
		return err
	}
	if err := l.party.Arrived(ctx); err != nil {
		return fmt.Errorf("see to what the instances with the old settings left: %w", err)
	}
	return edit(ctx, l.both, v, noteOld, func(n *oldNotes) { n.Arrived = true })
}
