package access

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Givers are those of a space who may give something out.
type Givers string

// The givers.
const (
	Editors  Givers = "editors" // and managers
	Managers Givers = "managers"
	Nobody   Givers = "nobody"
)

// Settings are what the managers of a space decide.
type Settings struct {
	// Links are who may give out links, by which others read or send. A link of somebody who may
	// not does not open.
	Links Givers
	// Outward are who may give roles to others than members: Managers, or Nobody. While it is
	// nobody, what others have gives them nothing. A member has a role at the root.
	Outward Givers
	// TrashDays and VersionDays are for how long what is in the trash, and old versions beside the
	// last ones, are kept. Zero: as long as the server keeps them.
	TrashDays, VersionDays int
}

// MaxDays is how many days a space keeps its trash or its old versions at most.
const MaxDays = 3650

const settingColumns = "s.links, s.outward, s.trash_days, s.version_days"

func (s *Settings) dest() []any { return []any{&s.Links, &s.Outward, &s.TrashDays, &s.VersionDays} }

func (s Settings) check() error {
	days := func(field string, n int) error {
		if n < 0 || n > MaxDays {
			return drive.Bad(field, drive.OutOfRange, "min", 0, "max", MaxDays, "sent", n)
		}
		return nil
	}
	switch {
	case s.Links != Editors && s.Links != Managers && s.Links != Nobody:
		return drive.Bad("links", drive.NotAllowed, "allowed", []Givers{Editors, Managers, Nobody}, "sent", s.Links)
	case s.Outward != Managers && s.Outward != Nobody:
		return drive.Bad("outward", drive.NotAllowed, "allowed", []Givers{Managers, Nobody}, "sent", s.Outward)
	}
	if err := days("trash_days", s.TrashDays); err != nil {
		return err
	}
	return days("version_days", s.VersionDays)
}

// SettingsChange is a change of settings; what is nil stays as it is.
type SettingsChange struct {
	Links, Outward         *Givers
	TrashDays, VersionDays *int
}

func (c SettingsChange) of(s Settings) Settings {
	change(&s.Links, c.Links)
	change(&s.Outward, c.Outward)
	change(&s.TrashDays, c.TrashDays)
	change(&s.VersionDays, c.VersionDays)
	return s
}

func change[T any](to, by *T) {
	if by != nil {
		*to = *by
	}
}

// within returns the rights that a verdict leaves at the end of a way: the state and the settings
// of the space narrow them, and the trash gives nothing to users without a role in all of the
// space.
func (v verdict) within(w way) Right {
	switch {
	case w.state == Deleted, w.outward == Nobody && !v.member, w.trashed && !v.member:
		return 0
	case w.state == Archived:
		return v.rights & See
	}
	return v.rights
}

// Opens reports whether a role at a node gives whoever has it anything there: not in a space that
// is deleted, nor below the root of one that shares nothing with others than its members. Of a
// group that is not known of each member, and the answer is no.
func Opens(ctx context.Context, a *Access, q sqldb.Querier, g Grant) (bool, error) {
	one, err := a.FindSpace(ctx, q, g.Account)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return true, nil
	case err != nil:
		return false, err
	case one.State == Deleted:
		return false, nil
	case one.Outward != Nobody || one.Root == g.Node:
		return true, nil
	case g.Kind == Group:
		return false, nil
	}
	return a.IsMember(ctx, q, one.Root, g.Principal)
}

// IsMember reports whether somebody, or a group, has a role in all of a space: one of their own, or
// that of a group that they are in.
func (a *Access) IsMember(ctx context.Context, q sqldb.Querier, root drive.NodeID, principal drive.PrincipalID) (is bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM grants g WHERE g.node_id = ? AND g.role <> 'none' AND (g.expires_at = 0 OR g.expires_at > ?)
		AND (g.principal_id = ? OR g.principal_id IN (SELECT m.group_id FROM group_members m WHERE m.user_id = ?)))`,
		root, a.now(), principal, principal.String()).Scan(&is)
	if err != nil {
		err = fmt.Errorf("look whether %s is a member: %w", principal, err)
	}
	return is, err
}
