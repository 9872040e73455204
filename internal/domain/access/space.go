package access

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// State is the state of a space.
type State string

// The states of a space.
const (
	Active   State = "active"
	Archived State = "archived" // read-only
	Deleted  State = "deleted"  // invisible to members; an administrator can restore it for 30 days
)

// Space is an account shared by its members.
type Space struct {
	ID      drive.AccountID
	Root    drive.NodeID
	Name    string
	State   State
	By      drive.UserID // who created the space
	Created drive.Time
	Updated drive.Time
	Deleted drive.Time // zero: not deleted
	Settings
}

// spaceColumns are the columns that scanSpace reads.
const spaceColumns = "s.account_id, s.root_id, s.name, s.state, s.created_by, s.created_at, s.updated_at, s.deleted_at, " + settingColumns

// scanSpace reads spaceColumns into s.
func scanSpace(s *Space, scan func(...any) error) error {
	return scan(append([]any{&s.ID, &s.Root, &s.Name, &s.State, &s.By, &s.Created, &s.Updated, &s.Deleted}, s.scanArgs()...)...)
}

const maxSpaces = 100_000 // in total

// CreateSpace turns an account into a space. It fails with BadRequest if the name is not valid,
// with NameTaken if another space has it, ignoring case, and with TooManyOpen if there are
// maxSpaces spaces. The caller creates the ledger and the tree.
func (a *Access) CreateSpace(ctx context.Context, tx *sqldb.Tx, s Space) (Space, error) {
	name, err := parseLabel(s.Name)
	if err != nil {
		return Space{}, err
	}
	var n int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM spaces`).Scan(&n); err != nil {
		return Space{}, fmt.Errorf("count the spaces: %w", err)
	}
	if n >= maxSpaces {
		return Space{}, drive.Fail(drive.TooManyOpen, "reason", "spaces", "limit", maxSpaces, "sent", n+1)
	}
	s.Name, s.State, s.Created, s.Updated = name, Active, a.now(), a.now()
	s.Settings = Settings{Links: Editors, ShareOutside: Managers}
	made, err := tx.InsertNew(ctx, `INSERT INTO spaces (account_id, root_id, name, slot, state, created_by, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, s.ID, s.Root, s.Name, slotOf(name), s.State, s.By.String(), s.Created, s.Updated)
	if err == nil && !made {
		err = drive.Fail(drive.NameTaken, "name", name)
	}
	if err != nil {
		return Space{}, fmt.Errorf("create space %q: %w", name, err)
	}
	return s, nil
}

// SpaceChange is a change of a space; a zero field stays unchanged.
type SpaceChange struct {
	Name     string
	State    State
	Settings SettingsChange
}

// ChangeSpace changes a space. Deleting it frees its name. Restoring it fails with NameTaken if the
// name is in use by then.
func (a *Access) ChangeSpace(ctx context.Context, tx *sqldb.Tx, id drive.AccountID, c SpaceChange) (Space, error) {
	s, err := a.FindSpace(ctx, tx, id)
	if err != nil {
		return Space{}, err
	}
	if c.Name != "" {
		if s.Name, err = parseLabel(c.Name); err != nil {
			return Space{}, err
		}
	}
	if c.State != "" {
		if !slices.Contains([]State{Active, Archived, Deleted}, c.State) {
			return Space{}, drive.BadField("state", drive.NotAllowed, "allowed", []State{Active, Archived}, "sent", c.State)
		}
		if s.State = c.State; s.State != Deleted {
			s.Deleted = 0
		} else if s.Deleted == 0 {
			s.Deleted = a.now()
		}
	}
	s.Settings = c.Settings.applyTo(s.Settings)
	if err := s.check(); err != nil {
		return Space{}, err
	}
	slot := slotOf(s.Name)
	if s.State == Deleted {
		slot = "/" + s.ID.String()
	}
	s.Updated = a.now()
	_, err = tx.Exec(ctx, `UPDATE spaces SET name = ?, slot = ?, state = ?, updated_at = ?, deleted_at = ?,
		links = ?, outward = ?, trash_days = ?, version_days = ? WHERE account_id = ?`,
		s.Name, slot, s.State, s.Updated, s.Deleted, s.Links, s.ShareOutside, s.TrashDays, s.VersionDays, s.ID)
	switch {
	case sqldb.IsDuplicate(err):
		return Space{}, drive.Wrap(err, drive.NameTaken, "name", s.Name)
	case err != nil:
		return Space{}, fmt.Errorf("change space %s: %w", id, err)
	}
	return s, a.endEpoch(ctx, tx)
}

// FindSpace returns a space, also one that is archived or deleted but not yet purged. It fails with
// NotFound.
func (a *Access) FindSpace(ctx context.Context, q sqldb.Querier, id drive.AccountID) (s Space, err error) {
	err = scanSpace(&s, q.QueryRow(ctx, "SELECT "+spaceColumns+" FROM spaces s WHERE s.account_id = ?", id).Scan)
	return s, err
}

// SpaceCursor returns the cursor after s in lists by name.
func SpaceCursor(s Space) string {
	return base64.RawURLEncoding.EncodeToString([]byte(slotOf(s.Name)))
}

// ListSpaces lists all spaces by name, without deleted ones. It fails with CursorInvalid if the
// cursor is malformed.
func (a *Access) ListSpaces(ctx context.Context, q sqldb.Querier, cursor string, limit int) ([]Space, error) {
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, drive.Wrap(err, drive.CursorInvalid)
	}
	rows, err := q.Query(ctx, "SELECT "+spaceColumns+" FROM spaces s WHERE s.slot > ? AND s.slot > '0' AND s.state <> 'deleted' ORDER BY s.slot LIMIT ?",
		string(after), limit)
	return sqldb.Scan(rows, err, scanSpace)
}

// Membership is a space and the rights of a member in it.
type Membership struct {
	Space

	Rights Right
}

// ListMemberships lists the spaces at whose root a user has an unexpired role, directly or as a
// member of a group, by name. Rights are those of all these roles together, in an archived space at
// most See. Deleted spaces are left out.
func (a *Access) ListMemberships(ctx context.Context, q sqldb.Querier, user drive.UserID) ([]Membership, error) {
	rows, err := q.Query(ctx, `WITH `+mineCTE+`
		SELECT `+spaceColumns+`, g.role, g.expires_at FROM mine JOIN grants g ON g.principal_id = mine.id
		JOIN spaces s ON s.account_id = g.account_id AND s.root_id = g.node_id
		WHERE s.state <> 'deleted' AND g.role <> 'none' ORDER BY s.slot`, user.String(), user.String())
	now := a.now()
	type row struct {
		Space

		role    Role
		expires drive.Time
	}
	all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error {
		return scanSpace(&r.Space, func(dest ...any) error { return scan(append(dest, &r.role, &r.expires)...) })
	})
	if err != nil {
		return nil, fmt.Errorf("list the spaces of %s: %w", user, err)
	}
	var spaces []Membership
	for _, r := range all {
		if r.expires != 0 && r.expires <= now {
			continue
		}
		if last := len(spaces) - 1; last < 0 || spaces[last].ID != r.ID {
			spaces = append(spaces, Membership{Space: r.Space})
		}
		spaces[len(spaces)-1].Rights |= r.role.Rights()
	}
	for i, s := range spaces {
		if s.State == Archived {
			spaces[i].Rights &= See
		}
	}
	return spaces, nil
}

// ListDeletedSpaces lists up to limit spaces deleted before the given time and not yet purged, the
// oldest deletion first.
func (a *Access) ListDeletedSpaces(ctx context.Context, q sqldb.Querier, before drive.Time, limit int) ([]Space, error) {
	rows, err := q.Query(ctx, "SELECT "+spaceColumns+" FROM spaces s WHERE s.deleted_at > 0 AND s.deleted_at < ? ORDER BY s.deleted_at, s.account_id LIMIT ?", before, limit)
	return sqldb.Scan(rows, err, scanSpace)
}

// HasManager reports whether a space has a manager who can sign in: an active user with that role,
// directly or by a group. A role that expires does not count.
func (a *Access) HasManager(ctx context.Context, q sqldb.Querier, root drive.NodeID) (has bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (
			SELECT 1 FROM grants g JOIN users u ON u.id = g.principal_id AND u.state = 'active'
			WHERE g.node_id = ? AND g.role = 'manager' AND g.expires_at = 0)
		OR EXISTS (
			SELECT 1 FROM grants g JOIN group_members m ON m.group_id = g.principal_id JOIN users u ON u.id = m.user_id AND u.state = 'active'
			WHERE g.node_id = ? AND g.role = 'manager' AND g.expires_at = 0)`, root, root).Scan(&has)
	if err != nil {
		return false, fmt.Errorf("look for a manager of the space with root %s: %w", root, err)
	}
	return has, nil
}

// ListManagedBy lists the spaces in which a user or group itself has the role manager, ordered by
// id, without deleted ones.
func (a *Access) ListManagedBy(ctx context.Context, q sqldb.Querier, principal drive.PrincipalID) ([]Space, error) {
	rows, err := q.Query(ctx, "SELECT "+spaceColumns+` FROM grants g JOIN spaces s ON s.account_id = g.account_id AND s.root_id = g.node_id
		WHERE g.principal_id = ? AND g.role = 'manager' AND s.state <> 'deleted' ORDER BY s.account_id`, principal)
	all, err := sqldb.Scan(rows, err, scanSpace)
	if err != nil {
		return nil, fmt.Errorf("list the spaces that %s manages: %w", principal, err)
	}
	return all, nil
}

// Target is a resolved address: a path in an account. It does not imply access.
type Target struct {
	Account drive.AccountID
	Path    drive.Path
}

// Find resolves an address. An empty place is the caller's own account. It fails with NotFound if
// there is no such place or the caller has no grant in its account; both take the same time (A2).
// The caller must still authorize the node found at the target.
func (a *Access) Find(ctx context.Context, q sqldb.Querier, who drive.Who, at drive.Address) (Target, error) {
	if at.Place == "" {
		return Target{who.Account, at.Path}, nil
	}
	id, err := drive.ParseID[drive.NodeID](at.Place)
	if err != nil {
		var t Target
		slot := slotOf(at.Place)
		err := q.QueryRow(ctx, `WITH `+mineCTE+`
			SELECT s.account_id FROM (`+ableIfQuery("SELECT account_id FROM spaces WHERE slot = ?")+`) k CROSS JOIN spaces s WHERE s.slot = ? AND k.able`,
			who.User.String(), who.User.String(), slot, slot).Scan(&t.Account)
		t.Path = at.Path
		return t, err
	}
	return a.findByID(ctx, q, who, id, at.Path)
}

// ableIfQuery returns a query, for a statement with mineCTE, whose column able is 1 if the user has
// a grant in the account that the query account finds, else 0. It costs the same if account finds
// nothing.
func ableIfQuery(account string) string {
	return `SELECT EXISTS (SELECT 1 FROM mine JOIN grants g ON g.principal_id = mine.id WHERE g.account_id = COALESCE((` + account + `), '')) AS able`
}

// findByID resolves an address whose place is the id of a space, of a space's root, or of a folder.
// It fails with NotFound if there is no such place or the caller has no grant in its account.
func (a *Access) findByID(ctx context.Context, q sqldb.Querier, who drive.Who, id drive.NodeID, path drive.Path) (Target, error) {
	t := Target{Path: path}
	user := who.User.String()
	err := q.QueryRow(ctx, `WITH `+mineCTE+`
		SELECT s.account_id FROM (`+ableIfQuery("SELECT account_id FROM spaces WHERE account_id = ?")+`) k CROSS JOIN spaces s
		WHERE s.account_id = ? AND k.able`, user, user, id, id).Scan(&t.Account)
	if !drive.IsKind(err, drive.NotFound) {
		return t, err
	}
	rows, err := q.Query(ctx, `WITH RECURSIVE `+mineCTE+`, up (id, parent_id, account_id, name, level) AS (
			SELECT n.id, n.parent_id, n.account_id, n.name, 0
			FROM (`+ableIfQuery("SELECT account_id FROM nodes WHERE id = ?")+`) k CROSS JOIN nodes n
			WHERE n.id = ? AND n.trashed_at = 0 AND (k.able OR n.account_id = ?)
			UNION ALL
			SELECT n.id, n.parent_id, n.account_id, n.name, up.level + 1
			FROM up JOIN nodes n ON n.id = up.parent_id WHERE n.trashed_at = 0 AND up.level < ?)
		SELECT account_id, name, parent_id IS NULL FROM up ORDER BY level DESC`, user, user, id, id, who.Account.String(), maxLevels)
	type link struct {
		name drive.Name
		root bool
	}
	up, err := sqldb.Scan(rows, err, func(l *link, scan func(...any) error) error { return scan(&t.Account, &l.name, &l.root) })
	if err != nil {
		return Target{}, fmt.Errorf("find place %s: %w", id, err)
	}
	if len(up) == 0 || !up[0].root { // deleted or trashed
		return Target{}, drive.Fail(drive.NotFound)
	}
	t.Path = make(drive.Path, 0, len(up)-1+len(path))
	for _, l := range up[1:] {
		t.Path = append(t.Path, l.name)
	}
	t.Path = append(t.Path, path...)
	return t, nil
}

// FindSpaceByRoot returns the space, deleted or not, whose root is the node. It fails with NotFound
// if the node is not the root of a space.
func (a *Access) FindSpaceByRoot(ctx context.Context, q sqldb.Querier, root drive.NodeID) (s Space, err error) {
	err = scanSpace(&s, q.QueryRow(ctx, "SELECT "+spaceColumns+` FROM nodes n JOIN spaces s ON s.account_id = n.account_id AND s.root_id = n.id
		WHERE n.id = ?`, root).Scan)
	return s, err
}

// Owner returns the name of the user who owns an account; "" if it has no owner.
func (a *Access) Owner(ctx context.Context, q sqldb.Querier, account drive.AccountID) (name string, err error) {
	err = q.QueryRow(ctx, `SELECT name FROM users WHERE account_id = ? AND state <> 'deleted' ORDER BY id LIMIT 1`, account).Scan(&name)
	if drive.IsKind(err, drive.NotFound) {
		return "", nil
	}
	return name, err
}
