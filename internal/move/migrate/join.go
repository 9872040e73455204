package migrate

import "context"

// Party is the set of hooks with which this process takes part in migrations.
type Party struct {
	// Member represents this process among the live instances. Required.
	Member Member
	// Contents moves the contents; nil: contents stay.
	Contents Contents
	// Ready returns an error that names what this process still has to open for a state; nil: the
	// process can act by it. It must not block.
	Ready func(state State) error
	// Background runs while something moves, and must return when its context ends. nil: nothing
	// runs.
	Background func(ctx context.Context)
	// OnArrived runs in one process after all instances have the new settings and before the
	// migration is forgotten. It repeats work that instances with the old settings did at a place
	// that is no longer used. It must be idempotent. nil: nothing runs.
	OnArrived func(ctx context.Context) error
}

// SetParty sets the hooks of this process; nil hooks become ones that do nothing. Call it once,
// after Restore, which selects the right database, and before Run and any step.
func (m *Migration) SetParty(p Party) {
	if p.Ready == nil {
		p.Ready = func(State) error { return nil }
	}
	if p.Background == nil {
		p.Background = func(context.Context) {}
	}
	if p.OnArrived == nil {
		p.OnArrived = func(context.Context) error { return nil }
	}
	*m.party = p
}

// Target returns the database that rows move to, as shown to people; empty: rows stay.
func (m *Migration) Target() string {
	v := m.currentSnapshot()
	switch {
	case v == nil || v.Peer == "":
		return ""
	case v.Phase >= WriteNew: // the record is the primary's, which is the new side
		return m.opt.Show(v.Here)
	default:
		return m.opt.Show(v.Peer)
	}
}
