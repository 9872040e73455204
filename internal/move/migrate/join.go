package migrate

import "context"

// Party is what this process takes part with.
type Party struct {
	// Member is this process among those that serve. Required.
	Member Member
	// Contents moves the bytes; nil: they stay.
	Contents Contents
	// Ready says what this process has not opened yet that a state wants, in an error; nil: it can
	// act by it. It returns at once.
	Ready func(state State) error
	// Beside is run while something moves; it returns once its context is done. nil: nothing is.
	Beside func(ctx context.Context)
	// Arrived is run in one process once every instance has the new settings, and before the move
	// is forgotten: what those with the old ones did at a place that is used no more is done again.
	// It may be run again; nil: nothing is.
	Arrived func(ctx context.Context) error
}

// Join says as whom this process takes part, before Run and any step: to know that takes the
// database, which only Restore makes the right one.
func (m *Migration) Join(p Party) {
	if p.Ready == nil {
		p.Ready = func(State) error { return nil }
	}
	if p.Beside == nil {
		p.Beside = func(context.Context) {}
	}
	if p.Arrived == nil {
		p.Arrived = func(context.Context) error { return nil }
	}
	*m.party = p
}

// Target is where rows move to, as people may see it; empty: they stay.
func (m *Migration) Target() string {
	v := m.known()
	switch {
	case v == nil || v.Peer == "":
		return ""
	case v.Phase >= WriteNew: // the record is the primary's
		return m.opt.Show(v.Here)
	default:
		return m.opt.Show(v.Peer)
	}
}
