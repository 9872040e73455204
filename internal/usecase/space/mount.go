package space

import (
	"cmp"
	"context"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/engine/sqldb"
)

// Mounted is what is shared with somebody, under the name that it has where things are found by
// paths: no two have the same, whatever their case.
type Mounted struct {
	Shared

	As drive.Name
}

// Mounted lists all that is shared with the caller by name and that they see, spaces excepted, in
// the order of the names. What the caller calls it is its name, else what its owner calls it. Where
// there is another one of that name, the first to have it keeps it and the other one gets the end
// of its id; and that is kept, so that a client never takes one for the other when one comes or
// goes.
func (s *Spaces) Mounted(ctx context.Context, who drive.Who) ([]Mounted, error) {
	const page = 500
	var all []Mounted
	for after := (drive.NodeID{}); ; {
		some, err := s.WithMe(ctx, who, after, page, false)
		if err != nil {
			return nil, err
		}
		for _, m := range some {
			after = m.Node
			if m.Item.Name != "" && m.Role.Rights().Has(access.See) {
				all = append(all, Mounted{Shared: m})
			}
		}
		if len(some) < page {
			break
		}
	}
	keep := nameMounts(all)
	if len(keep) > 0 {
		err := s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			return s.parts.Access.ShowMounts(ctx, tx, who.User, keep)
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b Mounted) int { return cmp.Compare(a.As, b.As) })
	return all, nil
}

// own is the name that a mount would have if it were alone.
func (m Mounted) own() drive.Name {
	if m.Alias != "" {
		return drive.Name(m.Alias)
	}
	return m.Item.Name
}

// beside is the name of a mount where another one has its own.
func (m Mounted) beside() drive.Name {
	id, own := m.Node.String(), []rune(m.own())
	suffix := " (" + id[len(id)-8:] + ")"
	for len(string(own))+len(suffix) > drive.MaxNameBytes {
		own = own[:len(own)-1]
	}
	return drive.Name(string(own) + suffix)
}

// since is when a mount has come to its own name, as far as that is known.
func (m Mounted) since() drive.Time {
	switch {
	case m.Alias != "":
		return m.Changed
	case m.Item.IsFolder(): // it may have been renamed after it was shared
		return max(m.Created, m.Item.Updated)
	}
	return m.Created
}

// rank puts those first whose names are kept.
func (m Mounted) rank() int {
	switch drive.Name(m.Shown).Fold() {
	case m.own().Fold():
		return 0
	case m.beside().Fold():
		return 1
	}
	return 2
}

// nameMounts gives each mount its name, and returns those names that are to be kept from now on.
func nameMounts(all []Mounted) map[drive.NodeID]string {
	order := make([]*Mounted, len(all))
	for i := range all {
		order[i] = &all[i]
	}
	slices.SortFunc(order, func(a, b *Mounted) int {
		return cmp.Or(cmp.Compare(a.own().Fold(), b.own().Fold()), cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.since(), b.since()),
			cmp.Compare(a.Node.String(), b.Node.String()))
	})
	keep := map[drive.NodeID]string{}
	for len(order) > 0 {
		n := 1
		for n < len(order) && order[n].own().Fold() == order[0].own().Fold() {
			n++
		}
		taken := false
		for _, m := range order[:n] {
			if m.As = m.own(); taken || m.rank() == 1 {
				m.As = m.beside()
			}
			taken = taken || m.As == m.own()
			if m.Shown != string(m.As) && (n > 1 || m.Shown != "") {
				keep[m.Node] = string(m.As)
			}
		}
		order = order[n:]
	}
	return keep
}
