package space

import (
	"context"
	"slices"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/engine/sqldb"
)

// CreateGroup creates a group. Only administrators may change groups; others get Forbidden. It
// fails with NameTaken.
func (s *Spaces) CreateGroup(ctx context.Context, who drive.Who, name string, hook Hook[access.UserGroup]) (t access.UserGroup, err error) {
	if err := requireAdmin(who); err != nil {
		return t, err
	}
	err = s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if t, err = s.parts.Access.CreateGroup(ctx, tx, name); err != nil {
			return err
		}
		return hook.run(ctx, tx, t)
	})
	return t, err
}

// RenameGroup renames a group and returns it. Errors: Forbidden unless the caller is an
// administrator, NotFound, and those of CreateGroup for the name.
func (s *Spaces) RenameGroup(ctx context.Context, who drive.Who, id drive.GroupID, name string) (t access.UserGroup, err error) {
	if err := requireAdmin(who); err != nil {
		return t, err
	}
	err = s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		t, err = s.parts.Access.RenameGroup(ctx, tx, id, name)
		return err
	})
	return t, err
}

// DeleteGroup deletes a group and revokes its roles. It fails with WrongState {state: last-manager,
// name} if a space would lose its last manager.
func (s *Spaces) DeleteGroup(ctx context.Context, who drive.Who, id drive.GroupID) error {
	if err := requireAdmin(who); err != nil {
		return err
	}
	return s.shrinkGroup(ctx, id, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := s.notifyMembers(ctx, tx, who, id); err != nil {
			return err
		}
		return s.parts.Access.DeleteGroup(ctx, tx, id)
	})
}

// shrinkGroup runs a change that removes members from a group and fails with WrongState if a space
// loses its last manager. It locks the ledgers of the spaces that the group manages, which
// serializes other changes of their managers.
func (s *Spaces) shrinkGroup(ctx context.Context, id drive.GroupID, change func(context.Context, *sqldb.Tx) error) error {
	return s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := s.parts.Access.LockGroup(ctx, tx, id); err != nil {
			return err
		}
		managed, err := s.parts.Access.ListManagedBy(ctx, tx, drive.PrincipalID(id))
		if err != nil {
			return err
		}
		var had []access.Space
		for _, one := range managed { // ordered by id, to avoid deadlocks
			if err := s.parts.Ledger.Lock(ctx, tx, one.ID); err != nil {
				return err
			}
			has, err := s.parts.Access.HasManager(ctx, tx, one.Root)
			if err != nil {
				return err
			}
			if has {
				had = append(had, one)
			}
		}
		if err := change(ctx, tx); err != nil {
			return err
		}
		for _, one := range had {
			if has, err := s.parts.Access.HasManager(ctx, tx, one.Root); err != nil {
				return err
			} else if !has {
				return drive.Fail(drive.WrongState, "state", "last-manager", "name", one.Name)
			}
		}
		return nil
	})
}

// FindGroup returns a group to an administrator. Errors: Forbidden for other callers, NotFound.
func (s *Spaces) FindGroup(ctx context.Context, who drive.Who, id drive.GroupID) (access.UserGroup, error) {
	if err := requireAdmin(who); err != nil {
		return access.UserGroup{}, err
	}
	return s.parts.Access.FindGroup(ctx, s.parts.DB, id)
}

// FindGroupByName returns the group with a name, ignoring case, to an administrator. Errors:
// Forbidden for other callers, NotFound.
func (s *Spaces) FindGroupByName(ctx context.Context, who drive.Who, name string) (access.UserGroup, error) {
	if err := requireAdmin(who); err != nil {
		return access.UserGroup{}, err
	}
	return s.parts.Access.FindGroupByName(ctx, s.parts.DB, name)
}

// IsMember reports to an administrator whether a user is in a group. It returns Forbidden to other
// callers; an unknown group has no members.
func (s *Spaces) IsMember(ctx context.Context, who drive.Who, id drive.GroupID, user drive.UserID) (bool, error) {
	if err := requireAdmin(who); err != nil {
		return false, err
	}
	return s.parts.Access.IsInGroup(ctx, s.parts.DB, id, user)
}

// ListGroups returns a page of groups by name, and the cursor of the next page; "" after the last.
// limit must be at least 1. It fails with Forbidden unless the caller is an administrator, and with
// CursorInvalid for a cursor that it did not return.
func (s *Spaces) ListGroups(ctx context.Context, who drive.Who, cursor string, limit int) ([]access.UserGroup, string, error) {
	if err := requireAdmin(who); err != nil {
		return nil, "", err
	}
	return s.parts.Access.ListGroups(ctx, s.parts.DB, "", cursor, limit)
}

// AddMember adds a user to a group and notifies the user, in one transaction. Errors: Forbidden
// unless the caller is an administrator, NotFound for the group, BadRequest for an unknown user,
// TooManyOpen.
func (s *Spaces) AddMember(ctx context.Context, who drive.Who, id drive.GroupID, user drive.UserID) error {
	if err := requireAdmin(who); err != nil {
		return err
	}
	return s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return s.changeMembership(ctx, tx, membershipChange{who, id, user}, func() error { return s.parts.Access.AddMember(ctx, tx, id, user) })
	})
}

// RemoveMember removes a user from a group, as an administrator, and notifies the user. It fails
// with WrongState {state: last-manager, name} if a space would lose its last manager.
func (s *Spaces) RemoveMember(ctx context.Context, who drive.Who, id drive.GroupID, user drive.UserID) error {
	if err := requireAdmin(who); err != nil {
		return err
	}
	return s.shrinkGroup(ctx, id, func(ctx context.Context, tx *sqldb.Tx) error {
		return s.changeMembership(ctx, tx, membershipChange{who, id, user}, func() error { return s.parts.Access.RemoveMember(ctx, tx, id, user) })
	})
}

// ListMembers returns to an administrator up to limit users in a group by id. after is the cursor,
// the last user of the previous page; zero at first. Errors: Forbidden for other callers, NotFound.
func (s *Spaces) ListMembers(ctx context.Context, who drive.Who, id drive.GroupID, after drive.UserID, limit int) ([]access.Person, error) {
	if err := requireAdmin(who); err != nil {
		return nil, err
	}
	if _, err := s.parts.Access.FindGroup(ctx, s.parts.DB, id); err != nil {
		return nil, err
	}
	return s.parts.Access.ListMembers(ctx, s.parts.DB, id, after, limit)
}

// Bounds of Search: enough to find a known user, too little to copy the directory.
const (
	minPrefix = 2 // characters
	maxFound  = 10

	// Enough for a user who types, and far too little to enumerate all prefixes.
	searchBurst    = 30
	searchInterval = 2 * time.Second
	maxSearchers   = 10_000 // users in memory, about 2 MiB
)

// Found is a user or group found by Search.
type Found struct {
	Kind access.Kind
	ID   drive.PrincipalID
	Name string
}

// Search returns the first 10 users and groups, by name, whose name starts with prefix (at least
// two characters; else BadRequest). It fails with Rate if the caller searches too often.
func (s *Spaces) Search(ctx context.Context, who drive.Who, prefix string) ([]Found, error) {
	if len([]rune(prefix)) < minPrefix {
		return nil, drive.BadField("q", drive.Malformed, "expected", "at least two characters")
	}
	if err := s.searches.Allow(who.User, s.opt.Now()); err != nil {
		return nil, err
	}
	people, err := s.parts.Access.ListPeople(ctx, s.parts.DB, prefix, maxFound+1)
	if err != nil {
		return nil, err
	}
	found := []Found{}
	for _, p := range people {
		if p.ID != who.User && len(found) < maxFound {
			found = append(found, Found{access.User, drive.PrincipalID(p.ID), p.Name})
		}
	}
	groups, _, err := s.parts.Access.ListGroups(ctx, s.parts.DB, prefix, "", maxFound)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		found = append(found, Found{access.Group, drive.PrincipalID(g.ID), g.Name})
	}
	slices.SortStableFunc(found, func(a, b Found) int { return strings.Compare(drive.Name(a.Name).Fold(), drive.Name(b.Name).Fold()) })
	return found[:min(len(found), maxFound)], nil
}
