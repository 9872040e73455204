package access

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// SharingPolicy names the members of a space who may share something with others.
type SharingPolicy string

// The policies.
const (
	Editors  SharingPolicy = "editors" // editors and managers
	Managers SharingPolicy = "managers"
	Nobody   SharingPolicy = "nobody"
)

// Settings are configured by the managers of a space.
type Settings struct {
	// Links restricts who may create share and collect links. Existing links of other members do
	// not open.
	Links SharingPolicy
	// ShareOutside restricts who may give roles to users who are not members (without a role at the
	// root): Managers or Nobody. While it is Nobody, existing grants of such users have no effect.
	ShareOutside SharingPolicy
	// TrashDays and VersionDays are how long trashed nodes and old versions are kept. Zero: as the
	// server is configured.
	TrashDays, VersionDays int
}

// MaxDays bounds TrashDays and VersionDays.
const MaxDays = 3650

// settingColumns are the columns that Settings.scanArgs reads.
const settingColumns = "s.links, s.outward, s.trash_days, s.version_days"

// scanArgs returns the scan destinations of settingColumns.
func (s *Settings) scanArgs() []any {
	return []any{&s.Links, &s.ShareOutside, &s.TrashDays, &s.VersionDays}
}

// check fails with BadRequest, which names the field, if a policy is not one of those allowed or a
// number of days is not from 0 to MaxDays.
func (s Settings) check() error {
	days := func(field string, n int) error {
		if n < 0 || n > MaxDays {
			return drive.BadField(field, drive.OutOfRange, "min", 0, "max", MaxDays, "sent", n)
		}
		return nil
	}
	switch {
	case s.Links != Editors && s.Links != Managers && s.Links != Nobody:
		return drive.BadField("links", drive.NotAllowed, "allowed", []SharingPolicy{Editors, Managers, Nobody}, "sent", s.Links)
	case s.ShareOutside != Managers && s.ShareOutside != Nobody:
		return drive.BadField("outward", drive.NotAllowed, "allowed", []SharingPolicy{Managers, Nobody}, "sent", s.ShareOutside)
	}
	if err := days("trash_days", s.TrashDays); err != nil {
		return err
	}
	return days("version_days", s.VersionDays)
}

// SettingsChange is a change of settings; a nil field stays unchanged.
type SettingsChange struct {
	Links, Outward         *SharingPolicy
	TrashDays, VersionDays *int
}

// applyTo returns s with the changes.
func (c SettingsChange) applyTo(s Settings) Settings {
	setIf(&s.Links, c.Links)
	setIf(&s.ShareOutside, c.Outward)
	setIf(&s.TrashDays, c.TrashDays)
	setIf(&s.VersionDays, c.VersionDays)
	return s
}

// setIf sets *to to *by unless by is nil.
func setIf[T any](to, by *T) {
	if by != nil {
		*to = *by
	}
}

// narrowed returns the rights after applying the state and settings of the space, and the trash:
// users without a role at the root lose all rights in the trash.
func (d decision) narrowed(path grantPath) Right {
	switch {
	case path.state == Deleted, path.outward == Nobody && !d.member, path.trashed && !d.member:
		return 0
	case path.state == Archived:
		return d.rights & See
	}
	return d.rights
}

// IsEffective reports whether a grant is effective for all who hold it: the space is not deleted,
// and it shares with users who are not members or the principal is a member. For a group below the
// root of a space that shares with members only it returns false, because each of its users may
// differ.
func IsEffective(ctx context.Context, a *Access, q sqldb.Querier, g Grant) (bool, error) {
	one, err := a.FindSpace(ctx, q, g.Account)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return true, nil
	case err != nil:
		return false, err
	case one.State == Deleted:
		return false, nil
	case one.ShareOutside != Nobody || one.Root == g.Node:
		return true, nil
	case g.Kind == Group:
		return false, nil
	}
	return a.IsMember(ctx, q, one.Root, g.Principal)
}

// IsMember reports whether a user or group has a role at the root of a space, directly or by a
// group.
func (a *Access) IsMember(ctx context.Context, q sqldb.Querier, root drive.NodeID, principal drive.PrincipalID) (is bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM grants g WHERE g.node_id = ? AND g.role <> 'none' AND (g.expires_at = 0 OR g.expires_at > ?)
		AND (g.principal_id = ? OR g.principal_id IN (SELECT m.group_id FROM group_members m WHERE m.user_id = ?)))`,
		root, a.now(), principal, principal.String()).Scan(&is)
	if err != nil {
		err = fmt.Errorf("look whether %s is a member: %w", principal, err)
	}
	return is, err
}
