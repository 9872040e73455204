package migrate

import "smartdrive/internal/engine/instance"

// Join says which instance this process is, before Run: to know that takes the database, which only Restore makes the right one.
func (m *Migration) Join(member *instance.Member) { m.opt.Member = member }

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
