package access

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// UserGroup is a group of users.
type UserGroup struct {
	ID      drive.GroupID
	Name    string
	Created drive.Time
	Updated drive.Time
}

const (
	maxGroups  = 10_000  // in total
	maxMembers = 100_000 // per group
	maxLabel   = 64      // bytes of the name of a group or space, as for a user
)

// parseLabel validates the name of a group or space: usable as one segment of an address and not an
// id. It fails with BadRequest.
func parseLabel(s string) (string, error) {
	name, err := drive.ParseName(s)
	if err != nil {
		return "", drive.Wrap(err, drive.BadRequest, "field", "name", "reason", string(drive.Malformed), "expected", "a name without '/'")
	}
	if _, err := drive.ParseID[drive.NodeID](strings.ToLower(string(name))); err == nil {
		return "", drive.BadField("name", drive.Malformed, "expected", "a name that is not an id")
	}
	return drive.ParseLabel("name", string(name), maxLabel)
}

// slotOf returns the folded form of a name, which is unique.
func slotOf(label string) string { return drive.Name(label).Fold() }

// teamColumns are the columns that scanTeam reads.
const teamColumns = "id, name, created_at, updated_at"

// scanTeam reads teamColumns into t.
func scanTeam(t *UserGroup, scan func(...any) error) error {
	return scan(&t.ID, &t.Name, &t.Created, &t.Updated)
}

// CreateGroup creates a group without members. It fails with BadRequest if the name is not valid,
// with NameTaken if another group has the name, ignoring case, and with TooManyOpen if there are
// maxGroups already.
func (a *Access) CreateGroup(ctx context.Context, tx *sqldb.Tx, name string) (UserGroup, error) {
	name, err := parseLabel(name)
	if err != nil {
		return UserGroup{}, err
	}
	var n int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM user_groups`).Scan(&n); err != nil {
		return UserGroup{}, fmt.Errorf("count the groups: %w", err)
	}
	if n >= maxGroups {
		return UserGroup{}, drive.Fail(drive.TooManyOpen, "reason", "groups", "limit", maxGroups, "sent", n+1)
	}
	t := UserGroup{ID: drive.NewID[drive.GroupID](), Name: name, Created: a.now(), Updated: a.now()}
	made, err := tx.InsertNew(ctx, `INSERT INTO user_groups (id, name, slot, created_at, updated_at) VALUES (?, ?, ?, ?, ?)`,
		t.ID, t.Name, slotOf(name), t.Created, t.Updated)
	if err == nil && !made {
		err = drive.Fail(drive.NameTaken, "name", name)
	}
	if err != nil {
		return UserGroup{}, fmt.Errorf("create group %q: %w", name, err)
	}
	return t, nil
}

// RenameGroup renames a group and returns it. It fails with BadRequest if the name is not valid,
// with NameTaken if another group has it, ignoring case, and with NotFound.
func (a *Access) RenameGroup(ctx context.Context, tx *sqldb.Tx, id drive.GroupID, name string) (UserGroup, error) {
	name, err := parseLabel(name)
	if err != nil {
		return UserGroup{}, err
	}
	n, err := tx.Exec(ctx, `UPDATE user_groups SET name = ?, slot = ?, updated_at = ? WHERE id = ?`, name, slotOf(name), a.now(), id)
	switch {
	case sqldb.IsDuplicate(err):
		return UserGroup{}, drive.Wrap(err, drive.NameTaken, "name", name)
	case err != nil:
		return UserGroup{}, fmt.Errorf("rename group %s: %w", id, err)
	case n == 0:
		return UserGroup{}, drive.Fail(drive.NotFound)
	}
	return a.FindGroup(ctx, tx, id)
}

// DeleteGroup deletes a group, its memberships and its grants, and so ends the epoch of cached
// decisions. It fails with NotFound.
func (a *Access) DeleteGroup(ctx context.Context, tx *sqldb.Tx, id drive.GroupID) error {
	n, err := tx.Exec(ctx, `DELETE FROM user_groups WHERE id = ?`, id)
	if err == nil && n == 0 {
		return drive.Fail(drive.NotFound)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM group_members WHERE group_id = ?`, id)
	}
	if err != nil {
		return fmt.Errorf("delete group %s: %w", id, err)
	}
	return a.DeletePrincipal(ctx, tx, drive.PrincipalID(id))
}

// FindGroup returns a group, or NotFound.
func (a *Access) FindGroup(ctx context.Context, q sqldb.Querier, id drive.GroupID) (t UserGroup, err error) {
	err = scanTeam(&t, q.QueryRow(ctx, "SELECT "+teamColumns+" FROM user_groups WHERE id = ?", id).Scan)
	return t, err
}

// LockGroup locks a group and its members against changes until tx ends. It fails with NotFound.
func (a *Access) LockGroup(ctx context.Context, tx *sqldb.Tx, id drive.GroupID) error {
	var there int
	return tx.QueryRow(ctx, `SELECT 1 FROM user_groups WHERE id = ?`+tx.ForUpdate(), id).Scan(&there)
}

// FindGroupByName returns the group with a name, ignoring case, or NotFound.
func (a *Access) FindGroupByName(ctx context.Context, q sqldb.Querier, name string) (t UserGroup, err error) {
	err = scanTeam(&t, q.QueryRow(ctx, "SELECT "+teamColumns+" FROM user_groups WHERE slot = ?", slotOf(name)).Scan)
	return t, err
}

// ListGroups lists groups whose name starts with prefix, ordered by folded name, and the cursor of
// the next page; "" after the last.
func (a *Access) ListGroups(ctx context.Context, q sqldb.Querier, prefix, cursor string, limit int) ([]UserGroup, string, error) {
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, "", drive.Wrap(err, drive.CursorInvalid)
	}
	from, to := slotOf(prefix), slotOf(prefix)+"\U0010FFFF"
	rows, err := q.Query(ctx, "SELECT "+teamColumns+" FROM user_groups WHERE slot > ? AND slot >= ? AND slot < ? ORDER BY slot LIMIT ?",
		string(after), from, to, limit+1)
	all, err := sqldb.Scan(rows, err, scanTeam)
	if err != nil {
		return nil, "", fmt.Errorf("list groups: %w", err)
	}
	if len(all) <= limit {
		return all, "", nil
	}
	return all[:limit], base64.RawURLEncoding.EncodeToString([]byte(slotOf(all[limit-1].Name))), nil
}

// Person is the part of a user that others may see.
type Person struct {
	ID   drive.UserID
	Name string
}

// scanPerson reads id and name into p.
func scanPerson(p *Person, scan func(...any) error) error { return scan(&p.ID, &p.Name) }

// AddMember adds a user to a group; repeating it changes nothing. It fails with NotFound, with
// BadRequest for an unknown user, and with TooManyOpen.
func (a *Access) AddMember(ctx context.Context, tx *sqldb.Tx, id drive.GroupID, user drive.UserID) error {
	if _, err := a.FindGroup(ctx, tx, id); err != nil {
		return err
	}
	if err := a.requirePrincipal(ctx, tx, Grant{Kind: User, Principal: drive.PrincipalID(user)}); err != nil {
		return err
	}
	var n int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM group_members WHERE group_id = ?`, id).Scan(&n); err != nil {
		return fmt.Errorf("count the members of group %s: %w", id, err)
	}
	if n >= maxMembers {
		return drive.Fail(drive.TooManyOpen, "reason", "members", "limit", maxMembers, "sent", n+1)
	}
	made, err := tx.InsertNew(ctx, `INSERT INTO group_members (group_id, user_id, created_at) VALUES (?, ?, ?)`, id, user, a.now())
	if err == nil && made {
		err = a.endEpoch(ctx, tx)
	}
	if err != nil {
		return fmt.Errorf("add a member to group %s: %w", id, err)
	}
	return nil
}

// IsInGroup reports whether a user is a member of a group; false if either does not exist.
func (a *Access) IsInGroup(ctx context.Context, q sqldb.Querier, id drive.GroupID, user drive.UserID) (bool, error) {
	var n int
	err := q.QueryRow(ctx, `SELECT COUNT(*) FROM group_members WHERE group_id = ? AND user_id = ?`, id, user).Scan(&n)
	if err != nil {
		err = fmt.Errorf("look whether a user is in group %s: %w", id, err)
	}
	return n > 0, err
}

// RemoveMember removes a user from a group; a user who is not in it is no error. An unknown group
// is NotFound.
func (a *Access) RemoveMember(ctx context.Context, tx *sqldb.Tx, id drive.GroupID, user drive.UserID) error {
	if _, err := a.FindGroup(ctx, tx, id); err != nil {
		return err
	}
	n, err := tx.Exec(ctx, `DELETE FROM group_members WHERE group_id = ? AND user_id = ?`, id, user)
	if err == nil && n > 0 {
		err = a.endEpoch(ctx, tx)
	}
	if err != nil {
		return fmt.Errorf("remove a member of group %s: %w", id, err)
	}
	return nil
}

// ListMembers lists the users in a group after the given one, ordered by id.
func (a *Access) ListMembers(ctx context.Context, q sqldb.Querier, id drive.GroupID, after drive.UserID, limit int) ([]Person, error) {
	rows, err := q.Query(ctx, `SELECT u.id, u.name FROM group_members m JOIN users u ON u.id = m.user_id
		WHERE m.group_id = ? AND m.user_id > ? ORDER BY m.user_id LIMIT ?`, id, after.String(), limit)
	all, err := sqldb.Scan(rows, err, scanPerson)
	if err != nil {
		return nil, fmt.Errorf("list the members of group %s: %w", id, err)
	}
	return all, nil
}

// IsIn reports whether a user is a member of a group; false if either does not exist. Unlike
// Access.IsInGroup, it needs no Access.
func IsIn(ctx context.Context, q sqldb.Querier, id drive.GroupID, user drive.UserID) (is bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM group_members WHERE group_id = ? AND user_id = ?)`, id, user).Scan(&is)
	if err != nil {
		err = fmt.Errorf("look whether %s is in group %s: %w", user, id, err)
	}
	return is, err
}

// ListPeople lists up to limit active users whose name starts with prefix, ignoring case.
func (a *Access) ListPeople(ctx context.Context, q sqldb.Querier, prefix string, limit int) ([]Person, error) {
	rows, err := q.Query(ctx, `SELECT id, name FROM users WHERE slot >= ? AND slot < ? AND state = 'active' ORDER BY slot LIMIT ?`,
		slotOf(prefix), slotOf(prefix)+"\U0010FFFF", limit)
	all, err := sqldb.Scan(rows, err, scanPerson)
	if err != nil {
		return nil, fmt.Errorf("look for people: %w", err)
	}
	return all, nil
}
