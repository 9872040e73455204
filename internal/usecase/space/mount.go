package space

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Mounted is a node shared with the caller, with its name for path-based clients. Names are unique,
// ignoring case.
type Mounted struct {
	Shared

	As drive.Name
}

// mountsPerPage is how many shares one page of the listing reads.
const mountsPerPage = 5000

// Mounted lists all nodes shared with the caller by name and visible to the caller, without spaces,
// ordered by name. The name is the caller's alias, else the node's name. If another mount has that
// name, a suffix of the id is appended. The first listing stores the names, so that later changes
// of other mounts rename nothing: a client would take a new name for a deletion. It fails with
// Unavailable if concurrent requests keep changing the names.
func (s *Spaces) Mounted(ctx context.Context, who drive.Who) ([]Mounted, error) {
	for range 5 {
		all, err := s.listMounts(ctx, who)
		if err != nil {
			return nil, err
		}
		kept, err := s.storeNames(ctx, who.User, all, nameMounts(all))
		if drive.IsKind(err, drive.DiskFull, drive.Unavailable) {
			// Read-only database: return the names without storing them. The next listing computes
			// the same names, unless an older mount with the same name appears before it.
			kept, err = true, nil
		}
		if err != nil {
			return nil, err
		}
		if kept {
			slices.SortFunc(all, func(a, b Mounted) int { return cmp.Compare(a.As, b.As) })
			return all, nil
		} // another request changed the names meanwhile: start over
	}
	return nil, drive.Fail(drive.Unavailable)
}

// MountedAs returns the entry of Mounted with a name, or NotFound. It reads only that mount if its
// stored name is valid, and lists all mounts otherwise, if any could have the name.
func (s *Spaces) MountedAs(ctx context.Context, who drive.Who, name drive.Name) (Mounted, error) {
	named, err := s.parts.Access.ListNamed(ctx, s.parts.DB, who.User, string(name))
	if err != nil {
		return Mounted{}, err
	}
	items, err := s.sharedItems(ctx, named, true)
	if err != nil {
		return Mounted{}, err
	}
	if len(items) == 1 {
		m := Mounted{Shared: items[0], As: name}
		if kept, has := m.storedName(); m.isListed() && has && kept == name {
			return m, nil
		}
	}
	if len(name) <= drive.MaxNameBytes-utf8.UTFMax { // else it may be a base name that nameWithSuffix has shortened
		called, err := access.HasMountNamed(ctx, s.parts.DB, who.User, baseNames(name)...)
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

// HideGroupShare hides, from the caller only, a node that was shared with a group. It fails with
// NotFound if the caller is not in the group or the node is not shared with the caller.
func (s *Spaces) HideGroupShare(ctx context.Context, who drive.Who, node drive.NodeID, group drive.GroupID) error {
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

// isListed reports whether the node exists, which its name shows, and the caller may see it.
func (m *Mounted) isListed() bool { return m.Item.Name != "" && m.Role.Rights().Has(access.See) }

// HasMounts reports whether Mounted returns any entry, reading as few as possible.
func (s *Spaces) HasMounts(ctx context.Context, who drive.Who) (has bool, err error) {
	const few = 20
	err = s.eachMount(ctx, who, few, func(Mounted) bool {
		has = true
		return false
	})
	return has, err
}

// listMounts returns the entries of Mounted before names are made unique. It holds them all in
// memory.
func (s *Spaces) listMounts(ctx context.Context, who drive.Who) (all []Mounted, err error) {
	err = s.eachMount(ctx, who, mountsPerPage, func(m Mounted) bool {
		all = append(all, m)
		return true
	})
	return all, err
}

// eachMount calls fn with the entries of Mounted, without names, until fn returns false. page is
// the number of shares per read.
func (s *Spaces) eachMount(ctx context.Context, who drive.Who, page int, fn func(Mounted) bool) error {
	for after := (drive.NodeID{}); ; {
		some, err := s.ListSharedWithMe(ctx, who, after, page, false)
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

// errConcurrentRename rolls back a transaction because the stored names have changed since they
// were read.
var errConcurrentRename = errors.New("another request has named these mounts")

// storeNames stores new names of mounts. It returns false if another request has changed them since
// they were read. It deletes the stored names of unlisted mounts that conflict with new ones, or
// all of them if there is no room.
func (s *Spaces) storeNames(ctx context.Context, user drive.UserID, all []Mounted, keep []access.MountName) (bool, error) {
	if len(keep) == 0 {
		return true, nil
	}
	names, err := s.parts.Access.MountNames(ctx, s.parts.DB, user)
	if err != nil {
		return false, err
	}
	room := access.MaxMountNames - len(names)
	for _, m := range all {
		delete(names, m.Node)
	}
	taken := make(map[string]bool, len(keep))
	for _, k := range keep {
		taken[drive.Name(k.Name).Fold()] = true
	}
	var write []access.MountName
	full := room < len(keep)
	for node, name := range names { // unlisted mounts
		if full || taken[drive.Name(name).Fold()] {
			write = append(write, access.MountName{Node: node, OldName: name})
			room++
		}
	}
	for _, k := range keep {
		if k.OldName == "" {
			room--
		}
		if k.OldName != "" || room >= 0 {
			write = append(write, k)
		}
	}
	for some := range slices.Chunk(write, access.MountNamesPerTx) {
		err := s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			kept, err := s.parts.Access.StoreMountNames(ctx, tx, user, some)
			if err == nil && !kept {
				err = errConcurrentRename
			}
			return err
		})
		if errors.Is(err, errConcurrentRename) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// baseName returns the alias, else the node's name.
func (m *Mounted) baseName() drive.Name {
	if m.Alias != "" {
		return drive.Name(m.Alias)
	}
	return m.Item.Name
}

// nameWithSuffix returns the base name followed by " (end)", shortened to drive.MaxNameBytes.
func (m *Mounted) nameWithSuffix(end string) drive.Name {
	own := []rune(m.baseName())
	end = " (" + end + ")"
	for len(string(own))+len(end) > drive.MaxNameBytes {
		own = own[:len(own)-1]
	}
	return drive.Name(string(own) + end)
}

// baseNames returns the folded base names that a mount with the given name can have: the name
// itself, or the part before a suffix.
func baseNames(name drive.Name) []string {
	folds := []string{name.Fold()}
	if at := strings.LastIndex(string(name), " ("); at > 0 {
		folds = append(folds, name[:at].Fold())
	}
	return folds
}

// candidate returns the nth possible name of a mount: the base name, then with the end of the id,
// with the whole id, and with a number, because other nodes may have any of these names.
func (m *Mounted) candidate(n int) drive.Name {
	id := m.Node.String()
	switch n {
	case 0:
		return m.baseName()
	case 1:
		return m.nameWithSuffix(id[len(id)-8:])
	case 2:
		return m.nameWithSuffix(id)
	}
	return m.nameWithSuffix(id + " " + strconv.Itoa(n-1))
}

// storedName returns the stored name of a mount, and false if it is no longer valid for the base
// name: the node was renamed, or the alias changed.
func (m *Mounted) storedName() (drive.Name, bool) {
	shown := drive.Name(m.Shown).Fold()
	if shown == m.baseName().Fold() {
		return m.baseName(), true
	}
	at := strings.LastIndex(m.Shown, " (")
	if at < 0 {
		return "", false
	}
	id, end := m.Node.String(), strings.TrimSuffix(m.Shown[at+2:], ")")
	name := m.nameWithSuffix(end)
	return name, (end == id[len(id)-8:] || strings.HasPrefix(end, id)) && name.Fold() == shown
}

// nameMounts sets the names of all mounts and returns those that must be stored. Valid stored names
// have priority, then older mounts.
func nameMounts(all []Mounted) (keep []access.MountName) {
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
		if name, has := m.storedName(); has {
			take(m, name)
		}
	}
	for _, m := range order {
		for n := 0; m.As == ""; n++ {
			take(m, m.candidate(n))
		}
		if m.Shown != string(m.As) {
			keep = append(keep, access.MountName{Node: m.Node, OldName: m.Shown, Name: string(m.As)})
		}
	}
	return keep
}
