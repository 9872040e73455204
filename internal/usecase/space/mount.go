package space

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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

// listed is how many shares one statement of a listing by names reads.
const listed = 5000

// Mounted lists all that is shared with the caller by name and that they see, spaces excepted, in
// the order of the names. What the caller calls it is its name, else what its owner calls it. Where
// another one has that name, it gets the end of its id. A name is kept from the first listing on: a
// client takes another name for a deletion, so none changes because of what comes, goes or happens
// beside it.
func (s *Spaces) Mounted(ctx context.Context, who drive.Who) ([]Mounted, error) {
	for range 5 {
		all, err := s.mounts(ctx, who)
		if err != nil {
			return nil, err
		}
		kept, err := s.keepNames(ctx, who.User, all, nameMounts(all))
		if drive.IsKind(err, drive.DiskFull, drive.Unavailable) {
			// They are the same the next time, unless an older one of that name comes before
			// it, and are kept then: what is there can be listed while nothing can be written.
			kept, err = true, nil
		}
		if err != nil {
			return nil, err
		}
		if kept {
			slices.SortFunc(all, func(a, b Mounted) int { return cmp.Compare(a.As, b.As) })
			return all, nil
		} // another request has named them meanwhile, from what it saw
	}
	return nil, drive.Fail(drive.Unavailable)
}

// MountedAs is the one of Mounted that has a name; NotFound. It reads that one alone where the name
// was kept, which a listing does, and is right yet; else it lists all, if anything is called so.
func (s *Spaces) MountedAs(ctx context.Context, who drive.Who, name drive.Name) (Mounted, error) {
	named, err := s.parts.Access.ListNamed(ctx, s.parts.DB, who.User, string(name))
	if err != nil {
		return Mounted{}, err
	}
	items, err := s.items(ctx, named, true)
	if err != nil {
		return Mounted{}, err
	}
	if len(items) == 1 {
		m := Mounted{Shared: items[0], As: name}
		if kept, has := m.kept(); m.isListed() && has && kept == name {
			return m, nil
		}
	}
	if len(name) <= drive.MaxNameBytes-utf8.UTFMax { // else it may be an own name that with has cut
		called, err := access.Called(ctx, s.parts.DB, who.User, ownNames(name)...)
		if err == nil && !called {
			err = drive.Fail(drive.NotFound)
		}
		if err != nil {
			return Mounted{}, err
		}
	}
	all, err := s.Mounted(ctx, who)
	if err != nil {
		return Mounted{}, err
	}
	for _, m := range all {
		if m.As == name {
			return m, nil
		}
	}
	return Mounted{}, drive.Fail(drive.NotFound)
}

// HideFromGroup takes out of the caller's sight what a group of theirs was given at a node.
// NotFound: they are not in the group, or it was given nothing there.
func (s *Spaces) HideFromGroup(ctx context.Context, who drive.Who, node drive.NodeID, group drive.GroupID) error {
	return s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		in, err := access.IsIn(ctx, tx, group, who.User)
		if err == nil && !in {
			err = drive.Fail(drive.NotFound)
		}
		if err != nil {
			return err
		}
		hidden := true
		return s.parts.Access.SetMount(ctx, tx, who.User, node, access.MountChange{Hidden: &hidden})
	})
}

// isListed reports whether the caller sees it.
func (m *Mounted) isListed() bool { return m.Item.Name != "" && m.Role.Rights().Has(access.See) }

// HasMounts reports whether Mounted lists anything, without reading all of it.
func (s *Spaces) HasMounts(ctx context.Context, who drive.Who) (has bool, err error) {
	const few = 20
	err = s.eachMount(ctx, who, few, func(Mounted) bool {
		has = true
		return false
	})
	return has, err
}

// mounts are what Mounted lists, without names.
func (s *Spaces) mounts(ctx context.Context, who drive.Who) (all []Mounted, err error) {
	err = s.eachMount(ctx, who, listed, func(m Mounted) bool {
		all = append(all, m)
		return true
	})
	return all, err
}

// eachMount calls fn with what Mounted lists, without names, until fn returns false. It reads pages
// of so many.
func (s *Spaces) eachMount(ctx context.Context, who drive.Who, page int, fn func(Mounted) bool) error {
	for after := (drive.NodeID{}); ; {
		some, err := s.WithMe(ctx, who, after, page, false)
		if err != nil {
			return err
		}
		for _, m := range some {
			after = m.Node
			if one := (Mounted{Shared: m}); one.isListed() && !fn(one) {
				return nil
			}
		}
		if len(some) < page {
			return nil
		}
	}
}

// errRenamed ends a transaction whose names are not those that were read.
var errRenamed = errors.New("another request has named these mounts")

// keepNames keeps names that mounts got, and reports false when another request has changed them
// since they were read. A name that was kept for something that is not listed is given up when
// another one has it now, and when there is no room.
func (s *Spaces) keepNames(ctx context.Context, user drive.UserID, all []Mounted, keep []access.KeptName) (bool, error) {
	if len(keep) == 0 {
		return true, nil
	}
	names, err := s.parts.Access.Names(ctx, s.parts.DB, user)
	if err != nil {
		return false, err
	}
	room := access.MaxNames - len(names)
	for _, m := range all {
		delete(names, m.Node)
	}
	taken := make(map[string]bool, len(keep))
	for _, k := range keep {
		taken[drive.Name(k.Name).Fold()] = true
	}
	var write []access.KeptName
	full := room < len(keep)
	for node, name := range names { // of what is not listed
		if full || taken[drive.Name(name).Fold()] {
			write = append(write, access.KeptName{Node: node, Was: name})
			room++
		}
	}
	for _, k := range keep {
		if k.Was == "" {
			room--
		}
		if k.Was != "" || room >= 0 {
			write = append(write, k)
		}
	}
	for some := range slices.Chunk(write, access.NamesAtOnce) {
		err := s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			kept, err := s.parts.Access.KeepNames(ctx, tx, user, some)
			if err == nil && !kept {
				err = errRenamed
			}
			return err
		})
		if errors.Is(err, errRenamed) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// own is the name that a mount would have if it were alone.
func (m *Mounted) own() drive.Name {
	if m.Alias != "" {
		return drive.Name(m.Alias)
	}
	return m.Item.Name
}

// with is the own name and something behind it that others do not have.
func (m *Mounted) with(end string) drive.Name {
	own := []rune(m.own())
	end = " (" + end + ")"
	for len(string(own))+len(end) > drive.MaxNameBytes {
		own = own[:len(own)-1]
	}
	return drive.Name(string(own) + end)
}

// ownNames are the own names, folded, that something may have which has a name: that one, or what
// stands before an end that with has added.
func ownNames(name drive.Name) []string {
	folds := []string{name.Fold()}
	if at := strings.LastIndex(string(name), " ("); at > 0 {
		folds = append(folds, name[:at].Fold())
	}
	return folds
}

// name is the nth one that a mount may have: its own, then with the end of its id, with all of it,
// and with a number, since there may be others that are called so.
func (m *Mounted) name(n int) drive.Name {
	id := m.Node.String()
	switch n {
	case 0:
		return m.own()
	case 1:
		return m.with(id[len(id)-8:])
	case 2:
		return m.with(id)
	}
	return m.with(id + " " + strconv.Itoa(n-1))
}

// kept is the name that a mount has had so far, if it still may.
func (m *Mounted) kept() (drive.Name, bool) {
	shown := drive.Name(m.Shown).Fold()
	if shown == m.own().Fold() {
		return m.own(), true
	}
	at := strings.LastIndex(m.Shown, " (")
	if at < 0 {
		return "", false
	}
	id, end := m.Node.String(), strings.TrimSuffix(m.Shown[at+2:], ")")
	name := m.with(end)
	return name, (end == id[len(id)-8:] || strings.HasPrefix(end, id)) && name.Fold() == shown
}

// nameMounts gives each mount its name, and returns those names that are to be kept from now on:
// first come those that have one, and then who came first.
func nameMounts(all []Mounted) (keep []access.KeptName) {
	taken := make(map[string]bool, len(all))
	take := func(m *Mounted, name drive.Name) bool {
		fold := name.Fold()
		if taken[fold] {
			return false
		}
		taken[fold], m.As = true, name
		return true
	}
	order := make([]*Mounted, len(all))
	for i := range all {
		order[i] = &all[i]
	}
	slices.SortFunc(order, func(a, b *Mounted) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Node.String(), b.Node.String()))
	})
	for _, m := range order {
		if name, has := m.kept(); has {
			take(m, name)
		}
	}
	for _, m := range order {
		for n := 0; m.As == ""; n++ {
			take(m, m.name(n))
		}
		if m.Shown != string(m.As) {
			keep = append(keep, access.KeptName{Node: m.Node, Was: m.Shown, Name: string(m.As)})
		}
	}
	return keep
}
