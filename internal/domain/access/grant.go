package access

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Kind distinguishes users and groups.
type Kind string

// The kinds of principals.
const (
	User  Kind = "user"
	Group Kind = "group"
)

// Grant is a role of a principal at a node.
type Grant struct {
	Node      drive.NodeID
	Account   drive.AccountID // of the node
	Principal drive.PrincipalID
	Kind      Kind
	Name      string // current name of the principal; only read, never stored
	Role      Role
	By        drive.UserID
	Note      string
	Created   drive.Time
	Updated   drive.Time
	Expires   drive.Time // zero: never
}

const (
	maxGrants = 100_000 // per account: 10,000 members and their shares
	// maxGrantsOfOne bounds the grants of one user or group per account. A list of what is shared
	// with a user reads all of them, and the sharing users decide how many there are.
	maxGrantsOfOne = 10_000
	maxNote        = 1000 // bytes
)

// grantColumns are the columns that scanGrant reads, without the principal's name, which the query
// must select next.
const grantColumns = "g.node_id, g.account_id, g.principal_id, g.kind, g.role, g.granted_by, g.note, g.created_at, g.updated_at, g.expires_at"

// namedGrants selects grantColumns and the name of the principal; it ends after FROM and the joins.
const namedGrants = grantColumns + `, COALESCE(u.name, p.name, '') FROM grants g
	LEFT JOIN users u ON u.id = g.principal_id LEFT JOIN user_groups p ON p.id = g.principal_id `

// scanGrant reads grantColumns and the principal's name into g.
func scanGrant(g *Grant, scan func(...any) error) error {
	return scan(&g.Node, &g.Account, &g.Principal, &g.Kind, &g.Role, &g.By, &g.Note, &g.Created, &g.Updated, &g.Expires, &g.Name)
}

// Grant gives a principal a role at a node, replacing the one it has there, and ends the epoch of
// cached decisions. A new grant to a user shows the node again if the user had hidden or renamed
// it. The caller has checked that the grant is allowed. It fails with BadRequest if the principal
// does not exist, the note is longer than maxNote or the expiry has passed, and with TooManyOpen
// beyond the limits of checkGrantLimit.
func (a *Access) Grant(ctx context.Context, tx *sqldb.Tx, g Grant) (Grant, error) {
	if !utf8.ValidString(g.Note) || len(g.Note) > maxNote {
		return Grant{}, drive.BadField("note", drive.TooLong, "limit", maxNote, "sent", len(g.Note))
	}
	if g.Expires != 0 && g.Expires <= a.now() {
		return Grant{}, drive.BadField("expires_in", drive.OutOfRange, "min", 1)
	}
	if err := a.requirePrincipal(ctx, tx, g); err != nil {
		return Grant{}, err
	}
	now, made := a.now(), false
	n, err := tx.Exec(ctx, `UPDATE grants SET role = ?, granted_by = ?, note = ?, updated_at = ?, expires_at = ?
		WHERE node_id = ? AND principal_id = ?`, g.Role, g.By.String(), g.Note, now, g.Expires, g.Node, g.Principal)
	if err == nil && n == 0 {
		if err = checkGrantLimit(ctx, tx, g); err == nil {
			made, err = tx.InsertNew(ctx, `INSERT INTO grants (node_id, principal_id, account_id, kind, role, granted_by, note, created_at, updated_at, expires_at)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, g.Node, g.Principal, g.Account, g.Kind, g.Role, g.By.String(), g.Note, now, now, g.Expires)
		}
	}
	if err == nil && made { // a new grant unhides the node and resets its alias
		_, err = tx.Exec(ctx, `DELETE FROM mounts WHERE node_id = ? AND user_id = ?`, g.Node, g.Principal)
	}
	if err == nil {
		err = a.endEpoch(ctx, tx)
	}
	if err != nil {
		return Grant{}, fmt.Errorf("grant %s at node %s: %w", g.Role, g.Node, err)
	}
	return a.FindGrant(ctx, tx, g.Node, g.Principal)
}

// requirePrincipal fails with BadRequest if the user or group of g does not exist; a deleted user
// does not. It locks a group until tx ends, so that the group is not deleted meanwhile.
func (a *Access) requirePrincipal(ctx context.Context, tx *sqldb.Tx, g Grant) (err error) {
	if g.Kind == Group { // locked, so that it keeps its last member meanwhile
		err = a.LockGroup(ctx, tx, drive.GroupID(g.Principal))
	} else {
		var there int
		err = tx.QueryRow(ctx, `SELECT 1 FROM users WHERE id = ? AND state <> 'deleted'`, g.Principal).Scan(&there)
	}
	if drive.IsKind(err, drive.NotFound) {
		return drive.BadField(string(g.Kind), drive.Unknown)
	}
	return err
}

// checkGrantLimit fails with TooManyOpen if the account has maxGrants grants, or maxGrantsOfOne to
// the principal of g. It writes nothing; the caller checks before adding one.
func checkGrantLimit(ctx context.Context, tx *sqldb.Tx, g Grant) error {
	var n, ofOne int
	err := tx.QueryRow(ctx, `SELECT (SELECT COUNT(*) FROM grants WHERE account_id = ?), (SELECT COUNT(*) FROM grants WHERE principal_id = ? AND account_id = ?)`,
		g.Account, g.Principal, g.Account).Scan(&n, &ofOne)
	switch {
	case err != nil:
		return err
	case n >= maxGrants:
		return drive.Fail(drive.TooManyOpen, "reason", "grants", "limit", maxGrants, "sent", n+1)
	case ofOne >= maxGrantsOfOne:
		return drive.Fail(drive.TooManyOpen, "reason", "grants-of-one", "limit", maxGrantsOfOne, "sent", ofOne+1)
	}
	return nil
}

// FindGrant returns a principal's grant at a node, even if it has expired; NotFound if there is
// none.
func (a *Access) FindGrant(ctx context.Context, q sqldb.Querier, node drive.NodeID, principal drive.PrincipalID) (g Grant, err error) {
	err = scanGrant(&g, q.QueryRow(ctx, "SELECT "+namedGrants+"WHERE g.node_id = ? AND g.principal_id = ?", node, principal).Scan)
	return g, err
}

// Revoke deletes a principal's grant at a node, ends the epoch, and returns the grant. If there was
// none, taken is false and nothing changes.
func (a *Access) Revoke(ctx context.Context, tx *sqldb.Tx, node drive.NodeID, principal drive.PrincipalID) (was Grant, taken bool, err error) {
	was, err = a.FindGrant(ctx, tx, node, principal)
	if drive.IsKind(err, drive.NotFound) {
		return Grant{}, false, nil
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM grants WHERE node_id = ? AND principal_id = ?`, node, principal)
	}
	if err == nil {
		err = a.endEpoch(ctx, tx)
	}
	if err != nil {
		return Grant{}, false, fmt.Errorf("take a role at node %s: %w", node, err)
	}
	return was, true, nil
}

// ListAt lists up to limit grants at a node whose principal id is above after (zero: from the
// first), ordered by principal id, without expired ones.
func (a *Access) ListAt(ctx context.Context, q sqldb.Querier, node drive.NodeID, after drive.PrincipalID, limit int) ([]Grant, error) {
	rows, err := q.Query(ctx, "SELECT "+namedGrants+`WHERE g.node_id = ? AND g.principal_id > ? AND (g.expires_at = 0 OR g.expires_at > ?)
		ORDER BY g.principal_id LIMIT ?`, node, after.String(), a.now(), limit)
	all, err := sqldb.Scan(rows, err, scanGrant)
	if err != nil {
		return nil, fmt.Errorf("list the grants at node %s: %w", node, err)
	}
	return all, nil
}

// GrantAbove is a grant at a node or at a folder above it.
type GrantAbove struct {
	Grant

	Level int // levels above the node; zero: the node itself
	// Ineffective tells that the grant currently gives nothing: the space shares with members only,
	// and the principal is not a member.
	Ineffective bool
}

// ListAbove lists up to limit unexpired grants at a node and at its ancestors up to most levels
// above, nearest first; most is capped at maxLevels. Ineffective marks a grant that the space's
// settings suspend: to a principal who is not a member of a space that forbids sharing outside.
// Without grants, or without the node, the list is empty.
func (a *Access) ListAbove(ctx context.Context, q sqldb.Querier, node drive.NodeID, most, limit int) ([]GrantAbove, error) {
	rows, err := q.Query(ctx, `WITH RECURSIVE up (id, parent_id, level) AS (
			SELECT id, parent_id, 0 FROM nodes WHERE id = ?
			UNION ALL
			SELECT n.id, n.parent_id, up.level + 1 FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.level < ?)
		SELECT `+grantColumns+`, COALESCE(u.name, p.name, ''), up.level,
			EXISTS (SELECT 1 FROM spaces s WHERE s.account_id = g.account_id AND s.root_id <> g.node_id AND s.outward = 'nobody'
				AND NOT EXISTS (SELECT 1 FROM grants r WHERE r.node_id = s.root_id AND r.role <> 'none' AND (r.expires_at = 0 OR r.expires_at > ?)
					AND (r.principal_id = g.principal_id OR r.principal_id IN (SELECT m.group_id FROM group_members m WHERE m.user_id = g.principal_id))))
		FROM up JOIN grants g ON g.node_id = up.id
		LEFT JOIN users u ON u.id = g.principal_id LEFT JOIN user_groups p ON p.id = g.principal_id
		WHERE g.expires_at = 0 OR g.expires_at > ? ORDER BY up.level, g.principal_id LIMIT ?`, node, min(most, maxLevels), a.now(), a.now(), limit)
	all, err := sqldb.Scan(rows, err, func(g *GrantAbove, scan func(...any) error) error {
		return scanGrant(&g.Grant, func(dest ...any) error { return scan(append(dest, &g.Level, &g.Ineffective)...) })
	})
	if err != nil {
		return nil, fmt.Errorf("list the grants above node %s: %w", node, err)
	}
	return all, nil
}

// ListOf lists up to limit grants of an account after the given one (zero: from the first), ordered
// by node and principal id, without expired ones.
func (a *Access) ListOf(ctx context.Context, q sqldb.Querier, account drive.AccountID, after Grant, limit int) ([]Grant, error) {
	rows, err := q.Query(ctx, "SELECT "+namedGrants+`WHERE g.account_id = ? AND g.node_id >= ? AND (g.node_id > ? OR g.principal_id > ?)
		AND (g.expires_at = 0 OR g.expires_at > ?) ORDER BY g.node_id, g.principal_id LIMIT ?`,
		account, after.Node.String(), after.Node.String(), after.Principal.String(), a.now(), limit)
	all, err := sqldb.Scan(rows, err, scanGrant)
	if err != nil {
		return nil, fmt.Errorf("list the grants of account %s: %w", account, err)
	}
	return all, nil
}

// ListIn lists up to limit grants at the direct children of a folder, ordered by node and principal
// id.
func (a *Access) ListIn(ctx context.Context, q sqldb.Querier, folder drive.NodeID, limit int) ([]Grant, error) {
	rows, err := q.Query(ctx, "SELECT "+grantColumns+`, COALESCE(u.name, p.name, '') FROM nodes n CROSS JOIN grants g ON g.node_id = n.id
		LEFT JOIN users u ON u.id = g.principal_id LEFT JOIN user_groups p ON p.id = g.principal_id
		WHERE n.parent_id = ? AND n.trashed_at = 0 AND (g.expires_at = 0 OR g.expires_at > ?) ORDER BY g.node_id, g.principal_id LIMIT ?`, folder, a.now(), limit)
	all, err := sqldb.Scan(rows, err, scanGrant)
	if err != nil {
		return nil, fmt.Errorf("list the grants in folder %s: %w", folder, err)
	}
	return all, nil
}

// purgeBatch bounds the rows that one transaction of a purge deletes.
const purgeBatch = 1000

// Purge deletes grants that expired before the given time, and per call one batch of grants and
// mounts of deleted nodes. None of them has an effect any more.
func (a *Access) Purge(ctx context.Context, ended time.Time) error {
	for n := int64(purgeBatch); n >= purgeBatch; {
		err := a.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, sqldb.Batch{
				Table: "grants", Key: "node_id", Where: "expires_at > 0 AND expires_at < ?", Args: []any{drive.TimeOf(ended)}, Limit: purgeBatch,
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("purge grants: %w", err)
		}
	}
	if _, err := a.orphans.Delete(ctx, a.opt.DB); err != nil {
		return err
	}
	_, err := a.orphanedMounts.Delete(ctx, a.opt.DB)
	return err
}

// DeleteAccount deletes all grants of an account, and its space, and ends the epoch, so that cached
// decisions are discarded when tx commits.
func (a *Access) DeleteAccount(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	for _, table := range []string{"grants", "spaces"} {
		if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE account_id = ?", account); err != nil {
			return fmt.Errorf("forget the %s of account %s: %w", table, account, err)
		}
	}
	return a.endEpoch(ctx, tx)
}

// DeletePrincipal deletes all grants of a user or group, and a user's group memberships and mounts,
// and ends the epoch, so that cached decisions are discarded when tx commits.
func (a *Access) DeletePrincipal(ctx context.Context, tx *sqldb.Tx, id drive.PrincipalID) error {
	for _, query := range []string{
		`DELETE FROM grants WHERE principal_id = ?`, `DELETE FROM group_members WHERE user_id = ?`, `DELETE FROM mounts WHERE user_id = ?`,
	} {
		if _, err := tx.Exec(ctx, query, id); err != nil {
			return fmt.Errorf("forget principal %s: %w", id, err)
		}
	}
	return a.endEpoch(ctx, tx)
}
